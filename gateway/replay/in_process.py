"""A client in this process: it says canonical commands and is told canonical events, over no wire.

To the gateway it is a link as any other: it comes by a transport, attaches to a session and is delivered batches. Its
frames are JSON: a command, or InProcessEvent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from dragoman.adapters.base import CloseReason, Sink
from dragoman.adapters.inbound import PulledInbound
from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.dialect import Burst, Clock, Dialect, Frame, NewId, Projection, Rendered, Step

__all__ = ["InProcessEvent", "InProcessTransport", "in_process_dialect"]

ENCODER = msgspec.json.Encoder()


class InProcessEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event, with its `turn` if it was delivered to all; or `attached`: the session is shown from here on."""

    event: Event | None = None
    turn: str = ""
    attached: str = ""


EVENT = msgspec.json.Decoder(InProcessEvent)
COMMAND: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


class InProcessTransport:
    """The transport of the one client; `hear` gets what it is told."""

    peer = "inside"

    def __init__(self, hear: Callable[[InProcessEvent], None]) -> None:
        self._hear = hear
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._pulled = PulledInbound()

    def say(self, command: Command) -> None:
        """The client says this."""
        self._said.put_nowait(ENCODER.encode(command))

    def leave(self) -> None:
        """The client goes."""
        self._said.put_nowait(None)

    async def run(self, sink: Sink) -> None:
        # From a queue, not in the call of `say`: what the client says within a step of the session comes after it.
        while (frame := await self._said.get()) is not None:
            await self._pulled.give(sink, [frame])

    def resume(self) -> None:
        self._pulled.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self._hear(EVENT.decode(frame))

    def try_send(self, frames: Sequence[bytes]) -> bool:  # what is told at once would come in the midst
        return False  # of a step of the session: a client that answers then would be heard before it is over

    def peer_can_read(self) -> bool:
        return False

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        self._said.put_nowait(None)


def in_process_dialect(like: Dialect) -> Dialect:
    """How it speaks: `like` is any dialect, for what is never asked of it."""
    return structs.replace(
        like, name="inside", server=_Translator, projection=_projection, has_request_ids=False, single_session=False,
        session_ref=None, publication=None, served=None,
    )  # fmt: skip


def _told(**fields: Any) -> bytes:
    return ENCODER.encode(InProcessEvent(**fields))


class _Translator:
    view = ""
    has_pending_replies = False

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "") -> None:
        """It keeps nothing."""

    def opened(self) -> Step[Command]:
        return Step()

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        return Step(bursts=[Burst(items=[COMMAND.decode(frame) for frame in frames if isinstance(frame, bytes)])])

    def send(self, items: Sequence[Any]) -> Step[Command]:
        return Step(frames=[_told(event=item) for item in items])

    def attach(self, state: SessionState, request: str) -> Step[Command]:  # it has but one session
        return Step(frames=[_told(attached=state.id)])

    def on_delivered(self, batch: Batch) -> Step[Command]:  # it sees itself what begins and ends
        return Step()

    def can_be_asked(self, question: Event) -> bool:  # it knows every form
        return True

    def closed(self, cause: str) -> Step[Command]:  # nobody is there to be told
        return Step()


class _Projection:
    def render(self, batch: Batch) -> Rendered:
        return Rendered(frames=[_told(event=event, turn=batch.turn) for event in batch.events], losses=[])

    def copy(self, request: str | None = None) -> Projection:  # it has no state
        return self


def _projection(_request: str, _view: str) -> Projection:
    return _Projection()
