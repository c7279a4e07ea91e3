"""One conversation, from what its backend says to what every client is shown.

session       builds the parts, performs their effects, carries events from the backend to the clients
ports         the protocols of clients, the backend and the recorder
context       what the parts share, and the effects that all of them have

commands      what clients ask: each command gets one answer       in_flight   commands without an answer yet
inputs        what users type: one input at a time                 questions   who may answer a question, and when
presence      who is attached, and who waits for the history       reconnect   a turn whose connection is lost
normal_form   completes a turn, with content, runs, turn_states    found       the end of a lost turn
fold          adds events to the state                             history     ids, additions and pages of history
log           the newest batches                                   delivery    one rendering for all clients alike
attachments   clients of a session, in groups that see the same    text_stream the direct way of streamed text
pieces        streamed content, and how neighbours are joined      no_backend  the backend of an ended session
wording       questions and answers in words                       narrowing   what a route hides from its clients
weight        characters that events hold in memory                digest      size and messages of the transcript
held          the memory of a session: its log and its transcript
"""
