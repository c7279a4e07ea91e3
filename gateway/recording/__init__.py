"""Recordings of sessions: the file format, who writes it, who reads it (docs/design.md, section 8;
docs/recording.md).
"""
