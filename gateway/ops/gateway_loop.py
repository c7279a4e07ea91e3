"""The event loop of the gateway, as the thread of the ops port uses it: it runs coroutines there, and finds out whether
it is stuck.

The heartbeat shows when the loop ran last, and how late its timers are. A stopped process (SIGSTOP, a paused virtual
machine) also stops the watching thread. Afterwards both are late, and neither is stuck. The watching thread checks
twice a second. If its check is late and the process used little CPU time meanwhile, the process was stopped. A step
that holds the interpreter delays the check too, but uses CPU time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

from dragoman.gateway.observability.traffic import Histogram

T = TypeVar("T")

ANSWER_DEADLINE = 4.0  # seconds for the gateway's loop to answer: below the 5 s and more of most scrapers
SLICE = 250  # sessions, links or rows that are read in one step of the gateway's loop: at most 3 ms


async def take_slices(items: Sequence[T], size: int = SLICE) -> AsyncIterator[Sequence[T]]:
    """Yield the items in slices, and serve the gateway's peers after each of them."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
        await asyncio.sleep(0)


class GatewayLoop:
    """The event loop in which this object is made, and its thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self._turn = asyncio.Lock()  # of the loop that asks

    def call_soon(self, function: Callable[[str], None], argument: str) -> None:
        """Call a function in the gateway's loop, unless that is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, argument)

    async def ask(self, work: Callable[[], Coroutine[Any, Any, T]], *, at_once: bool = False) -> T:
        """Return the result of `work`, which runs in the gateway's loop; raise TimeoutError if it takes too long.

        One request runs at a time: many of them together hold that loop no longer than one slice. A probe is short, and
        asks `at_once`, so that long lists do not delay it.
        """
        async with asyncio.timeout(ANSWER_DEADLINE), nullcontext() if at_once else self._turn:
            coroutine = work()
            try:
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except RuntimeError as error:  # that loop is closed
                coroutine.close()
                raise TimeoutError from error
            return await asyncio.wrap_future(future)


BEAT = 0.25  # seconds between two beats: a beat costs 10 us
LOOK = 0.5  # seconds between two looks at the beats
STOPPED = 2.0  # seconds between two looks, above which the process may have been stopped
BUSY = 0.5  # part of this time in which a process that was not stopped used a core
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)  # seconds; one step of the loop takes 0.01


class LoopHeartbeat:
    """A timer of an event loop that notes the time of each beat. `clock` returns seconds, `cpu` those of CPU time.

    The loop writes the beats, and one other thread the looks. Each only reads what the other writes: no lock is needed.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.process_time
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._due = clock()
        self._looked = clock(), cpu()
        self._resumed = 0.0  # when the process ran again after it was stopped
        self._timer: asyncio.TimerHandle | None = None
        self.lag = Histogram(LAG_BUCKETS)
        """Seconds by which the beats were late."""

    def start(self) -> None:
        self._due = self._clock() + BEAT
        self._timer = asyncio.get_running_loop().call_later(BEAT, self.beat)

    def beat(self) -> None:
        """Note how late this beat is, and schedule the next one."""
        self.lag.add_value(max(0.0, self._clock() - self._due))
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> float:
        """Return the seconds by which the next beat is late now. Time in which the process was stopped does not count.

        One thread calls this, each LOOK seconds or more often.
        """
        now, used = self._clock(), self._cpu()
        before, used_before = self._looked
        self._looked = now, used
        if now - before > STOPPED and used - used_before < BUSY * (now - before):
            self._resumed = now
        return max(0.0, now - max(self._due, self._resumed))
