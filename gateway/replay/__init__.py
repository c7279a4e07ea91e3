"""Replay: a recording as a backend, as a client, and in tests.

plan          cuts a recording into turns and parts     options          the options of `replay+file:`
similarity    compares two commands                     event_store      the events, compressed in memory
matching      finds what a client's command repeats     replayed_events  selects the events to send
backend       the recording as a session's backend      part_player      plays a part, and its pace
playing       the replay of one route                   live             a live backend behind a recording
driving       the recording as a client                 missing          adds live turns to the recording
standalone    serves and drives with an app of its own
"""
