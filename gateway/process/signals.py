"""The signals that end a gateway, or reload its configuration."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

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
