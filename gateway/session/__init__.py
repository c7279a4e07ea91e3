"""One conversation, from what its backend says to what everybody is shown.

session     ties the rest together            delivery    the log, groups of links, who is slow
attendance  who is there                      lobby       who waits for the history
inputs      what users say, one at a time     inflight    commands that have no answer yet
questions   who may answer, and when          wording     questions and answers in words
turn/       the normal form of a turn         fold        events into the state
history     ids and pages                     narrowing   what a route keeps from its clients
"""
