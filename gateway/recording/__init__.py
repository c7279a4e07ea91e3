"""Recordings of sessions: the file format, who writes it, who reads it (design.md, section 8; docs/recording.md)."""
