"""Recorded conversations, played through the gateway: recorded backends to clients of all dialects, and vice versa.

`captures` reads the recordings, `readings` says what each wire shows of a turn (for what was recorded and for what our
clients get alike), `played` plays recorded backends in memory, `clients` are clients of the four dialects.
"""
