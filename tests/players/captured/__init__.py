"""Backends of the four dialects that play recordings."""
