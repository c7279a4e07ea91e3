"""Transports: bytes with boundaries, in and out. What the bytes mean is the business of `mappings`."""
