"""One conversation, from what its backend says to what every client is shown.

session         builds the parts, performs their effects, carries events from the backend to the clients
ports           the protocols of clients, the backend and the recorder
context         what the parts share, and the effects that all of them have

What clients want:

commands        answers each command of a client exactly once
in_flight       commands that the backend has not answered yet
inputs          takes what users type, one input at a time
questions       decides who may answer a question, and when
wording         questions and answers in words
one_time_codes  codes that a backend asks for
titles          decides who keeps the title of the session

What the backend says:

turn_states     the states of a turn, and what moves it from one to the next
normal_form     completes a turn for all clients
content         its part for text, reasoning and tool calls
question_form   its part for questions
end_form        its part for the end of a turn
runs            the completed events, turn by turn
severed_turn    keeps a turn whose connection is lost (gateway/backends/upstream.py connects again)
turn_recovery   finds out how such a turn went on
resumed_turn    drops what the backend repeats of it
history         ids and pages of the history
addition        adds a history to the transcript
same_runs       finds the runs that two histories have in common
stored_messages adds the messages of a store to it
fold            adds events to the state of the session
log             the newest batches of events

What clients are shown:

presence        who is attached or waits for the history, and when a session without clients is forgotten
attachments     the clients that are attached
groups          the clients that see the same
delivery        renders a batch once for each group
text_stream     the short way of streamed text
slow_clients    shows clients that read slowly what they missed
narrowing       leaves out what a route hides from its clients

What the session takes:

digest          sums over the transcript, for its row in a list
weight          how much memory an event takes
memory          the memory of the session, in the budget of the gateway
"""
