"""Replay: a recording as a backend, as a client, and in tests.

matching   which recorded command is meant    scenes   what a recording holds    casting   which scene comes next
lines      what of the log is said            pace     when                      backend   the recording as a backend
reports    what became of each command        options  how it may be played      playing   all of it, for one route
live       a live backend behind it           forked   which of the two is asked missing  what is added to it then
conversation   that backend, where its connections carry many conversations: one of them   sieve    what they tell of it
driving    the recording as a client          inside   that client's link        heard    what it was told
standalone, threads   apps of their own
"""
