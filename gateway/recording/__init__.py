"""Recordings of sessions (docs/design.md, section 8; docs/recording.md).

format, lines        a file: its Header, its StepLines, and their frames, events and commands
recordings           all recordings of a gateway
recorder             the Recorder of a route, and a Tap for each link
session_recorder     the recorder of one session: steps are gathered, redacted and encoded
pending              steps that are not written yet; text that streams is folded
writer, keeping      the Writer's thread; the Keeper compresses and deletes closed files
reader, index        the Reader of a recording; the Index of a compressed file
places               names of files
rewriting            remove secrets from existing recordings
captures             recordings made of captured frames
redaction, show      find secrets; show recordings to people
"""
