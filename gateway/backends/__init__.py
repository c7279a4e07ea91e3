"""Connections from sessions to their backends.

asking   run a script of requests first, hold everything else meanwhile
"""
