"""Write frames to one peer at once, or queue them while earlier ones wait; putting never waits (docs/design.md,
section 6).

Past `soft` bytes the outbox is `full`: a session keeps a cursor for this link instead of putting frames. Past twice as
many it is `crowded`, mostly with answers: further commands of the peer wait until it has read. Past `hard` bytes it is
`over`: the peer asks and does not read, and its link is disconnected at the next answer. The writer takes at most a
piece of TAKE bytes at once, so that a long queue is never copied whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from dragoman.adapters.base import Transport
from dragoman.gateway.observability.traffic import Traffic
from dragoman.gateway.overload.fair_queue import PUT, StepBudget

TAKE = 256 * 1024  # what a transport writes ahead of the kernel (SEND_HIGH of adapters/base.py)


class Outbox:
    """The frames for one peer. `soft` and `hard` are in bytes; the meter of the transport counts what waits."""

    __slots__ = (
        "_budget",
        "_frames",
        "_hard",
        "_meter",
        "_resume",
        "_soft",
        "_start_writer",
        "_traffic",
        "_transport",
        "closed",
        "crowded",
        "full",
        "idle",
        "size",
        "writer",
    )

    def __init__(
        self, soft: int, hard: int, transport: Transport, budget: StepBudget, traffic: Traffic | None = None
    ) -> None:
        self._transport, self._budget, self._traffic = transport, budget, traffic
        self._meter, self._resume = transport.meter, transport.resume
        self._soft = soft
        self._hard = hard
        self._frames: list[bytes] = []
        self._start_writer: Callable[[], asyncio.Task[None]] | None = None
        self.writer: asyncio.Task[None] | None = None
        """The task that writes; there is none while no frames wait, because an idle task takes 1 KB."""
        self.idle = False
        """True while no writer runs, because all frames that were put are written."""
        self.full = False
        """True past `soft` bytes: a broadcast must not be put here now."""
        self.crowded = False
        """True from twice `soft` bytes on, until at most `soft` are left: no command of the peer is handled."""
        self.size = 0
        self.closed = False

    @property
    def over(self) -> bool:
        """True past `hard` bytes: the peer must be disconnected."""
        return self.size > self._hard

    @property
    def empty(self) -> bool:
        """True if the writer has taken all frames."""
        return not self._frames

    def serve(self, start_writer: Callable[[], asyncio.Task[None]]) -> None:
        """Call `start_writer` whenever frames wait and no writer runs, until the outbox is closed."""
        self._start_writer = start_writer
        self.idle = True
        if self._frames:
            self._wake()

    def put(self, frames: Sequence[bytes]) -> None:
        """Write frames, or queue them if others wait. A broadcast checks `full` first."""
        self._budget.left -= PUT
        if frames and not (self.idle and self._transport.try_send(frames)):
            self._queue(frames)
        elif self._traffic is not None:
            self._traffic.add_sent(frames)

    def _queue(self, frames: Sequence[bytes]) -> None:
        """Queue frames; a closed outbox drops them, because the peer will not read them."""
        if self.closed:
            return
        size = sum(map(len, frames))
        self._frames += frames
        self.size += size
        self.full = self.size > self._soft
        self.crowded = self.crowded or self.size > 2 * self._soft
        self._wake()
        self._meter.add(size)

    def hold_commands(self) -> None:
        """Stop handling commands of the peer until `release_commands` is called."""
        self.crowded = True

    def release_commands(self) -> None:
        """Handle commands of the peer again, unless it has too many answers to read."""
        held, self.crowded = self.crowded, self.size > 2 * self._soft
        if held and not self.crowded:
            self._resume()

    def close(self) -> None:
        """Stop accepting frames: `take` returns the queued frames, then []."""
        self.closed, self.idle = True, False
        self._start_writer = None

    def discard(self) -> None:
        """Drop the frames that wait, and close: the peer is gone."""
        self.clear()
        self.close()

    def clear(self) -> None:
        """Drop the frames that wait."""
        size = self.size
        self._frames, self.size = [], 0
        self.full = self.crowded = False
        self._meter.add(-size)

    def take(self) -> list[bytes]:
        """Return the frames that wait, up to the one that completes a piece; after [] the writer must end."""
        if not self._frames:
            self.idle, self.writer = not self.closed, None
            return []
        if self.size > TAKE:
            return self._take_piece()
        frames = self._frames
        self.clear()
        return frames

    def _take_piece(self) -> list[bytes]:
        size = number = 0
        while size < TAKE:
            size += len(self._frames[number])
            number += 1
        frames = self._frames[:number]
        del self._frames[:number]
        self.size -= size
        self.full = self.size > self._soft
        self.crowded = self.crowded and self.full
        self._meter.add(-size)
        return frames

    async def write(self, all_written: Callable[[], None]) -> None:
        """Write the queued frames until none is left, and call `all_written` each time that none is.

        Raise ConnectionError if the peer is gone; the frames are dropped then.
        """
        was_crowded = self.crowded
        try:
            while frames := self.take():
                if self._traffic is not None:
                    self._traffic.add_sent(frames)
                await self._transport.send(frames)
                del frames  # a frame may hold a whole history, and the next `take` may wait for long
                if was_crowded and not self.crowded:
                    self._resume()
                was_crowded = self.crowded
                if not self._frames:
                    all_written()
        except ConnectionError:
            self.discard()
            if was_crowded:
                self._resume()
            raise

    def _wake(self) -> None:
        if self.idle and self._start_writer is not None:
            self.idle = False
            self.writer = self._start_writer()
