"""The bottom layer: what the dialects mean. Pure: no sockets, clock, files, randomness or logging."""
