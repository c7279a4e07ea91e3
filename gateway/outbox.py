"""What waits to be written to one link: bounded, never awaited by those who put (docs/design.md, section 6).

Past `soft` the outbox is `full`: whoever broadcasts keeps a cursor for this link instead of putting frames. Past `hard`
it is `over`: the peer asks and does not read, and its link is disconnected. What the writer has taken is no longer
counted here; the transport bounds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

__all__ = ["Outbox"]


class Outbox:
    """Frames for one writer. `soft` and `hard` in bytes."""

    def __init__(self, soft: int, hard: int) -> None:
        self._soft = soft
        self._hard = hard
        self._frames: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self.idle = False
        """Whether its writer waits for frames: all that was put is written."""
        self.full = False
        """Whether a broadcast must not be put here now."""
        self.size = 0
        self.closed = False
        self.was_full = False  # so whoever broadcasts may keep a cursor for it; its writer sets it back

    @property
    def over(self) -> bool:
        """Whether the peer is beyond what we hold for it."""
        return self.size > self._hard

    @property
    def empty(self) -> bool:
        """Whether everything was taken."""
        return not self._frames

    def put(self, frames: Sequence[bytes]) -> None:
        """Add frames; dropped when closed, since nobody will read them."""
        if self.closed or not frames:
            return
        self._frames += frames
        self.size += sum(map(len, frames))
        self.full = self.size > self._soft
        self.was_full = self.was_full or self.full
        self._wake()

    def close(self) -> None:
        """Nothing more comes: `take` gives what is left, then []."""
        self.closed = True
        self._wake()

    def discard(self) -> None:
        """Forget what waits and close: the peer is gone."""
        self._frames, self.size, self.full = [], 0, False
        self.close()

    async def take(self) -> list[bytes]:
        """Everything that waits, at least one frame; [] once closed and empty."""
        while not self._frames and not self.closed:
            self._waiter = asyncio.get_running_loop().create_future()
            self.idle = True
            try:
                await self._waiter
            finally:
                self.idle = False
                self._waiter = None
        frames, self._frames, self.size, self.full = self._frames, [], 0, False
        return frames

    def _wake(self) -> None:
        self.idle = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
