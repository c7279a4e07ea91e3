"""Recordings of sessions (docs/design.md, section 8; docs/recording.md).

format               a file: its Header, its StepLines, and their frames, events and commands
in_force             the recordings of a gateway, which a reload replaces; makes the Recorder of each route
recorder             the Recorder of a route, and a Tap for each link
session_recorder     a SessionRecorder for each session
recordings           what all of them share: the writer, the redactors and the flush timer
pending              steps that are not written yet; text that streams is folded
session_redactor     redacts the steps of one session's recording
redaction_worker     the thread that redacts large steps
parts                the files of one recording, and what happens if the disk is full
writer, keeping      the Writer's thread; the Keeper compresses and deletes closed files
reader, index        the Reader of a recording; the Index of a compressed file
places               the names of a recording's files
rewriting            remove secrets from existing recordings
captures             makes recordings of captured frames
redaction, show      find secrets; show recordings to people
printable            makes text of peers safe for terminals and pages
"""
