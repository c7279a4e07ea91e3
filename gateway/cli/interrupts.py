"""Signals that end a command are raised as exceptions in it, so that it can still print a result."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

KILLED = 128  # plus the number of a signal: the exit code after it, as a shell reports it


class Interrupted(KeyboardInterrupt):
    """Raised when SIGTERM or SIGHUP ends the command, for example by `timeout`, or when its terminal is closed."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def raising_on_signals() -> Iterator[None]:
    """Have the first SIGTERM or SIGHUP raise Interrupted in this context. The next ones are ignored.

    `timeout` sends its signal twice, and the second one must not end the command before its cancel is sent. A signal
    that is ignored at the start stays so, as `nohup` wants it.
    """

    def interrupt(number: int, _frame: object) -> None:
        for handled in numbers:
            signal.signal(handled, signal.SIG_IGN)
        raise Interrupted(number)

    in_main = threading.current_thread() is threading.main_thread()  # the only one that may handle signals
    ends = (signal.SIGTERM, signal.SIGHUP) if in_main else ()
    numbers = [one for one in ends if signal.getsignal(one) is not signal.SIG_IGN]
    former = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
