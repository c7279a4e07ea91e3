"""Replay: a recording as a backend, as a client, and in tests.

plan          cuts a recording into turns and parts     options          the options of `replay+file:`
matching      compares a command with recorded ones     turn_matcher     finds the recorded turn of an input
backend       the recording as a session's backend      replayed_events  selects the events that it sends
playing       the replay of one route                   live             a live backend behind a recording
conversation  one conversation of a shared backend      missing          adds live turns to the recording
driving       the recording as a client                 in_process       the transport of that client
standalone    serves and drives with an app of its own part_player      plays a part, and its pace
"""
