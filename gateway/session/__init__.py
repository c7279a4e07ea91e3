"""One conversation, from what its backend says to what every client is shown.

session       builds the parts, performs their effects, carries events from the backend to the clients
ports         the protocols of clients, the backend and the recorder
context       what the parts share, and the effects that all of them have

commands      what clients ask: each command gets one answer       in_flight   commands without an answer yet
inputs        what users type: one input at a time                 questions   who may answer a question, and when
presence      who is attached, and who waits for the history       reconnect   a turn whose connection is lost
turn_states   the states of a turn, and what moves them            turn_recovery  how a lost turn went on
normal_form   completes a turn, with content, question_form,       history     ids, additions and pages of history
              end_form and runs
fold          adds events to the state                             delivery    one rendering for all clients alike
log           the newest batches                                   text_stream the direct way of streamed text
attachments   clients of a session                                 groups      those that see the same
narrowing     what a route hides from its clients                  digest      sums of the transcript, and its row
weight        characters that events hold in memory                memory      what a session holds, in the budget
slow_clients  what clients that read slowly are shown later        wording     questions and answers in words
one_time_codes  codes that a backend asks for                      titles      who keeps the title of the session
"""
