"""Budgets and rates, so that no client can block the others (docs/design.md, section 6).

The values of all limits are in gateway/config/model.py. What happens to a client that reads slowly is decided in
gateway/session/slow_clients.py.

fair_queue      divides the work of one step of the event loop
memory          the bytes that peers make the whole gateway hold
admission       the connections of an address, the rates of a client, the size of a command
rates           messages, bad messages and connections a second
descriptors     open files and sockets
"""
