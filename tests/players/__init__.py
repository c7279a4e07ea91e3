"""Recorded conversations, played through the gateway: recorded backends to clients of all dialects, and vice
versa.

`captures` reads the recordings, `capture_readers` what each wire shows of a turn (in recordings and to our
clients alike). `captured` plays recorded backends in memory, `clients` are clients of the four dialects.
"""
