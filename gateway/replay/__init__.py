"""Replay: a recording as a backend, as a client, and in tests.

plan          cuts a recording into turns and parts     options          the options of `replay+file:`
matching      compares a command with recorded ones     turn_matcher     finds the recorded turn of an input
backend       the recording as a session's backend      replayed_events  selects the events that it sends
playing       the replay of one route                   live             a live backend behind a recording
missing       adds live turns to the recording          part_player      plays a part, and its pace
driving       the recording as a client                 in_process       the transport of that client
standalone    serves and drives with an app of its own
"""
