"""The signals that end a gateway or a command, or reload a configuration."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

END_MAX = 30.0  # seconds: more than all deadlines of the end take together


def stop_on_signals(
    stop: asyncio.Event, reload: Callable[[], None] | None = None, drain_deadline: Callable[[], float] = lambda: 0.0
) -> None:
    """Handle the signals of this process, which runs the current task and nothing else.

    SIGTERM and SIGINT set `stop`, and a second one cancels the task at once, as SIGQUIT does. The first one never does,
    even if `stop` is set: a launcher may close the standard input and send SIGTERM. SIGHUP calls `reload`. Without
    `reload` it sets `stop`, unless it was ignored at the start (`nohup`).

    The system ends the process by SIGALRM if it has not ended END_MAX after the drain, which takes `drain_deadline`
    seconds at most: the event loop may be stuck, and Python waits for its threads at the end.
    """
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    was_signalled = False

    def end() -> None:
        signal.setitimer(signal.ITIMER_REAL, END_MAX)
        if main is not None:
            main.cancel()

    def stop_or_end() -> None:
        nonlocal was_signalled
        if was_signalled:
            end()
        else:
            signal.setitimer(signal.ITIMER_REAL, drain_deadline() + END_MAX)
        was_signalled = True
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_or_end)
    loop.add_signal_handler(signal.SIGQUIT, end)
    if reload is not None or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, reload or stop_or_end)


def cancel_end_deadline() -> None:
    """Cancel the timer that ends this process by SIGALRM: its task has ended, and other work follows."""
    signal.setitimer(signal.ITIMER_REAL, 0)


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
