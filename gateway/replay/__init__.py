"""Replay: a recording as a backend, as a client, and in tests.

matching        compares a command with recorded ones       turn_matcher   finds the recorded turn of an input
scenes          cuts a recording into turns                 lines          selects the events to send
pace            times the events                            backend        the recording as a backend
reports         reports how each command was matched        options        the options of `replay+file:`
playing         the replay of one route                     live           a live backend behind a recording
forked          decides between recording and live backend  missing        adds the recorded part to it
conversation    one conversation of a shared backend        session_filter hides its other conversations
driving         the recording as a client                   in_process     that client's transport
driven_events   the events that it received                 standalone, threads   apps of their own
"""
