"""Budgets, so that no client can stop the others (docs/design.md, section 6).

fair_queue      divides the work of one step of the event loop
memory          the bytes that peers make the whole gateway hold
admission       the connections of an address, the rates of a client, the size of a command
rates           messages, bad messages and connections a second
descriptors     open files and sockets
"""
