"""Hide all sessions of a connection except one's own.

A backend that publishes sends events of all sessions to every subscriber (docs/dialects/pando.md, section 2). The live
backend of a recording is one of its conversations. So the others must be neither followed, nor asked for messages, nor
recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.adapters.base import CloseReason, Sink, Transport
from dragoman.mappings.canonical import Event
from dragoman.mappings.dialect import Dialect, Frame, Step

__all__ = ["SessionFilter"]


class SessionFilter:
    """A transport of `dialect` without the frames that name a session for which `ours` is false."""

    def __init__(self, transport: Transport, dialect: Dialect, ours: Callable[[str], bool]) -> None:
        self.peer = transport.peer
        self._transport = transport
        self._dialect = dialect
        self._ours = ours

    async def run(self, sink: Sink) -> None:
        def hear(frames: Sequence[Frame]) -> int:
            kept = [number for number, frame in enumerate(frames) if all(map(self._ours, self._named(frame)))]
            taken = sink([frames[number] for number in kept]) if kept else 0
            return kept[taken] if taken < len(kept) else len(frames)

        await self._transport.run(hear)

    def resume(self) -> None:
        self._transport.resume()

    def _named(self, frame: Frame) -> list[str]:
        """Return the sessions that a frame names; none for an invalid frame, which its translator reports."""
        step: Step[Event] = Step()
        self._dialect.events.receive((frame,), step)
        return [burst.session for burst in step.bursts if burst.session]

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._transport.send(frames)

    def try_send(self, frames: Sequence[bytes]) -> bool:
        return self._transport.try_send(frames)

    def peer_can_read(self) -> bool:
        return self._transport.peer_can_read()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        await self._transport.close(reason, text)
