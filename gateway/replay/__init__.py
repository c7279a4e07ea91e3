"""Replay: a recording as a backend, as a client, and in tests.

plan             cuts a recording into turns and their parts, and keeps its events
options          the options of `replay+file:`
playing          the replay of one route
backend          the recording as the backend of a session
matching         finds the recorded command that a client's command repeats
similarity       compares two commands
replayed_events  selects the events to send
part_player      sends a part of a turn at its pace
live             a live backend behind a recording
missing          adds live turns to the recording
driving          the recording as a client
standalone       serves and drives a recording with an app of its own
"""
