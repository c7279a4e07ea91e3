"""The protocol state of pando links: `client` to a primary, `server` to one caller, `publication` to subscribers.

client             calls, and the sessions that we follow
followed_sessions  the sessions of a primary that we follow: which are kept, checked and asked for next
followed_session   one followed session: the order of its events, and those that wait until their run is known
followed_turn      its turn, and how that ends
run_input          the input that began the run of such a session
known_messages     the messages of such a session that we know
output             the text and the tool calls of its turn
silence            how long its turn may be silent
server             the requests of a caller, and their replies
refusals           the errors with which they are refused
publication        the events that all subscribers get
"""
