"""Budgets, so that no client can stop the others (docs/design.md, section 6).

fair_queue  work in a step of the loop          memory          bytes that the whole gateway holds
admission   connections, by address             rates           messages, faults and connections a second
descriptors open files and sockets              command_limits  the size of a command, before it is decoded
"""
