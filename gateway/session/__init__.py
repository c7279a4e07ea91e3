"""A session holds one conversation: it takes events from its backend, and sends them in normal form to its clients.

session         builds the parts, performs their effects, carries events from the backend to the clients
ports           the protocols of clients, the backend and the recorder
context         the state and services that the parts share, and the effects of all of them

Commands of clients:

commands        answers each command of a client exactly once
in_flight       commands that the backend has not answered yet
inputs          takes what users type, one input at a time
questions       decides who may answer a question, and when
wording         questions and answers in words
one_time_codes  codes that a backend asks for
titles          decides who keeps the title of the session

Events of the backend:

turn_states     the states of a turn, and what moves it from one to the next
normal_form     completes a turn for all clients
content         the normal form of text, reasoning and tool calls
question_form   the normal form of questions
end_form        the normal form of the end of a turn
runs            the completed events, turn by turn
severed_turn    keeps a turn whose connection is lost (gateway/backends/upstream.py connects again)
turn_recovery   finds out how such a turn continued
resumed_turn    drops what the backend repeats of such a turn
history         ids and pages of the history
addition        adds a history to the transcript
same_runs       finds the runs that two histories have in common
stored_messages adds the messages of a backend's store to the transcript
fold            adds events to the state of the session
log             the newest batches of events

Delivery to clients:

presence        who is attached or waits for the history, and when a session without clients is forgotten
attachments     the clients that are attached
groups          the groups of clients that share a rendering
delivery        renders a batch once for each group
text_stream     the fast path of streamed text
slow_clients    delivers missed events to clients that read slowly
narrowing       leaves out what a route hides from its clients

Size and memory:

digest          the size and message counts of the transcript, and its row in a list
weight          the memory that an event takes
memory          the memory of the session, in the budget of the gateway
"""
