"""Settings of the Python interpreter that each serving program makes at its start."""

from __future__ import annotations

import sys

DIGITS_MAX = 640  # digits of an integer that is read, the least limit of Python: 4,000 digits take 0.1 ms each time

SWITCH = 0.0005  # seconds that the event loop waits for another thread after each system call, instead of Python's 5 ms


def configure_interpreter() -> None:
    """Bound the integers that are read from text, and how long a busy thread may delay the event loop."""
    sys.set_int_max_str_digits(DIGITS_MAX)
    sys.setswitchinterval(SWITCH)
