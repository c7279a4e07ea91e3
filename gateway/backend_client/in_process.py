"""A client in this process that sends canonical commands and receives canonical events, without a wire.

To the gateway it is an ordinary link: it has a transport, attaches to a session and receives batches. Its frames are
JSON: a Command in one direction, an InProcessEvent in the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import msgspec
from msgspec import Struct, structs

from dragoman.adapters.base import RECEIVE_HIGH, CloseReason
from dragoman.adapters.inbound import Inbound
from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.dialect import (
    Burst,
    Clock,
    DeltaType,
    Dialect,
    Frame,
    NewId,
    Rendered,
    SessionProjection,
    Step,
    Translator,
)
from dragoman.mappings.errors import DragomanError
from dragoman.mappings.rules import EXACT, Rule, RuleTable

FULL_PAUSE = 0.01  # seconds until an event is offered again to a client without room

ENCODER = msgspec.json.Encoder()


class InProcessEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event for a client in this process, with its `turn` if all clients received it; or the id `attached` of the
    session that is now shown.

    `names` are all ids of that session: `attached`, and those of its backend.
    """

    event: Event | None = None
    turn: str = ""
    attached: str = ""
    names: tuple[str, ...] = ()


EVENT = msgspec.json.Decoder(InProcessEvent)
COMMAND: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


class InProcessTransport(Inbound):
    """The transport of the client in this process.

    `take` is called with each event, and with the reason if the gateway disconnects the client. It returns False if it
    has no room: the transport waits, and the gateway merges text as for any slow client. `send_command` and `end` are
    called in a step of the event loop of their own, never inside a step of a session.
    """

    peer = "inside"

    def __init__(self, take: Callable[[InProcessEvent | DragomanError], bool]) -> None:
        super().__init__(RECEIVE_HIGH)
        self._take = take

    def send_command(self, command: Command) -> None:
        self.push([ENCODER.encode(command)])

    async def send(self, frames: Sequence[bytes]) -> None:
        for incoming in map(EVENT.decode, frames):
            while not self._take(incoming):  # noqa: ASYNC110  # another thread makes room
                await asyncio.sleep(FULL_PAUSE)

    def try_send(self, frames: Sequence[bytes]) -> bool:
        return False  # a direct call would let the client respond within a step of the session

    def peer_can_read(self) -> bool:
        return False

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        if text:
            self._take(DragomanError(f"the gateway disconnected this client: {text}"))
        self.end()


def in_process_dialect(like: Dialect) -> Dialect:
    """Return the dialect of this client. `like` is the backend's: the client may use its names of sessions."""
    return structs.replace(
        like,
        name="inside",
        events=structs.replace(like.events, from_canonical=_whole_events()),
        server=partial(_Translator, like),
        projection=lambda _request, _view: _Projection(),
        has_request_ids=False,
        single_session=False,
        lists_silent=True,
        session_ref=None,
        publication=None,
        served=None,
    )


def _whole_events() -> RuleTable:
    """Return the rules for this client's events: each event arrives whole, so none loses a field."""
    return RuleTable("canonical -> inside", {kind: Rule((kind,), EXACT) for kind in get_args(Event)})


class _Translator(Translator[Command, Event]):
    def __init__(self, like: Dialect, clock: Clock, new_id: NewId, generation: str = "") -> None:
        """Ignore all arguments except `like`: this translator has no state."""
        self._like = like

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        return Step(bursts=[Burst(items=[COMMAND.decode(frame) for frame in frames if isinstance(frame, bytes)])])

    def send(self, items: Sequence[Any]) -> Step[Command]:
        return Step(frames=[ENCODER.encode(InProcessEvent(event=item)) for item in items])

    def attach(self, state: SessionState, request: str) -> Step[Command]:
        names = (state.id, *self._like.public_ids(state.id, state.ids))
        frames = [ENCODER.encode(InProcessEvent(attached=state.id, names=names))]
        if state.turn is not None and state.turn.question is not None:
            frames.append(ENCODER.encode(InProcessEvent(event=state.turn.question.asked, turn=state.turn.id)))
        return Step(frames=frames)

    def can_be_asked(self, question: Event) -> bool:  # it knows every form
        return True


class _Projection:
    def render(self, batch: Batch) -> Rendered:
        wrapped = [InProcessEvent(event=event, turn=batch.turn) for event in batch.events]
        return Rendered(frames=list(map(ENCODER.encode, wrapped)), losses=[])

    def text_writer(self, _delta: DeltaType) -> None:
        """Return None: no fast writer, because each event is sent with its turn."""

    def copy(self, request: str | None = None) -> SessionProjection:  # it has no state
        return self
