"""Recordings of sessions (docs/design.md, section 8; docs/recording.md).

format, lines        a file: its Header, its StepLines, and their frames, events and commands
recordings           opens the recordings of a gateway; in_force replaces them at a reload
recorder             the Recorder of a route, a Tap for each link, a SessionRecorder for each session
flush_plan           when the gathered steps of a recording are flushed
stray_frames         a bound for frames of clients that reach no session
parts                the files of one recording, and what happens if the disk is full
backlog              counts what waits for the threads as memory
pending              steps that are not written yet; text that streams is folded
writer, keeping      the Writer's thread; the Keeper compresses and deletes closed files
reader, index        the Reader of a recording; the Index of a compressed file
session_redactor     redacts the steps of one recording; redaction_worker is the thread for large ones
places               names of files
rewriting            remove secrets from existing recordings
captures             recordings made of captured frames
redaction, show      find secrets; show recordings to people
printable            makes text of peers safe for terminals and pages
"""
