"""What a connection tells of one of the sessions that it carries; of others nothing comes through.

A backend that publishes tells everybody of everything (pando sheet, section 2). Behind a recording stands one
conversation of it: nobody follows the others, asks for their messages or records what is said in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adapters.base import CloseReason, Transport
from mappings.dialect import Dialect, Frame, Step

__all__ = ["Sieve"]


class Sieve:
    """A transport of `dialect` without the frames that name a session which is not one of `ours`."""

    def __init__(self, transport: Transport, dialect: Dialect, ours: Callable[[str], bool]) -> None:
        self.peer = transport.peer
        self._transport = transport
        self._dialect = dialect
        self._ours = ours

    async def receive(self) -> Sequence[Frame]:
        while frames := await self._transport.receive():
            kept = [frame for frame in frames if all(map(self._ours, self._named(frame)))]
            if kept:
                return kept
        return frames

    def _named(self, frame: Frame) -> list[str]:
        """The sessions that a frame names: none does that is wrong, and its translator says so."""
        step = Step()
        self._dialect.events.receive((frame,), step)
        return [burst.session for burst in step.bursts if burst.session]

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._transport.send(frames)

    def offer(self, frames: Sequence[bytes]) -> bool:
        return self._transport.offer(frames)

    def listens(self) -> bool:
        return self._transport.listens()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        await self._transport.close(reason, text)
