"""The rendering of one session as published messages, the same for all subscribers.

A viewer shows streamed text only after `llm.start`, and may clear its view at each one, so it is sent once a turn. The
projection keeps the description of the session, to publish it after a turn whose messages were rolled back.

While there are no subscribers, the projection updates its state but encodes nothing.
"""

from __future__ import annotations

from dragoman.mappings.alike import MANY, TEXT, encode_alike
from dragoman.mappings.canonical import Batch, Event, events
from dragoman.mappings.canonical.values import Ext, is_chat_message
from dragoman.mappings.dialect import DeltaType, Instance, Rendered, TextWriter
from dragoman.mappings.in_words import ParkedTurn
from dragoman.mappings.pando.from_canonical.context import NOBODY, Context, Messages
from dragoman.mappings.pando.from_canonical.events import FROM_EVENT
from dragoman.mappings.pando.from_canonical.replies import public_ids
from dragoman.mappings.pando.wire import topics as wire
from dragoman.mappings.pando.wire.codecs import ENCODER, EVENTS, TOKEN
from dragoman.mappings.pando.wire.values import rfc3339

ANSWERS = frozenset((events.Pong, events.Reply, events.SessionOpened, events.TurnAccepted))
"""Events that only one caller gets, as a reply on its own link."""


class Projection(Context):
    """The rendering of one session as published messages of this instance."""

    __slots__ = ("_count", "_ids", "_ids_of", "_parked_turn", "_title", "_turn_count")
    alone = False

    def __init__(self, _request: str = "", _view: str = "", instance: Instance = NOBODY) -> None:
        super().__init__(instance)
        self._parked_turn = ParkedTurn()
        self._ids: Ext | None = None
        self._title = ""
        self._count = 0
        self._turn_count = 0
        self._ids_of = ""  # the session whose public id is set

    def render(self, batch: Batch) -> Rendered:
        """Return the messages that publish this batch."""
        if batch.session != self._ids_of or batch.ids is not self._ids:  # computed once a session, not for each token
            self._ids_of, self._ids = batch.session, batch.ids
            (self.session,) = public_ids(batch.session, batch.ids)
        self.now(batch.at)
        if batch.turn != self.turn:
            self.take_error(None)
            self.turn, self.started, self._turn_count = batch.turn, False, 0
        functions, encode, has_subscriber = FROM_EVENT.functions, EVENTS.encode, bool(self.instance.topics)
        shown = self._parked_turn.admit_events(batch.events, self.lose)
        if len(shown) >= MANY and type(shown[0]) in TEXT and self.started:
            alike = encode_alike(shown, TEXT, lambda event: encode(*functions[type(event)](event, self)))
            if alike is not None:
                return Rendered(frames=alike if has_subscriber else [], losses=self.take_losses())
        frames: list[bytes] = []
        for event in shown:
            if type(event) not in ANSWERS:
                messages = functions[type(event)](event, self)
                if has_subscriber:
                    frames += map(encode, messages)
            self._update_description(event)
        return Rendered(frames=frames, losses=self.take_losses())

    def text_writer(self, delta: DeltaType) -> TextWriter | None:
        """Return a fast writer for further text; None for reasoning, and while a question parks the turn."""
        is_shown = self.started and not self._parked_turn.parked and delta is events.TextDelta
        return self._write_text if is_shown else None

    def _write_text(self, text: str, at: int) -> list[bytes]:
        if not self.instance.topics:
            return []
        self.now(at)
        message = wire.LlmToken(payload=wire.LlmToken.Payload(session_id=self.session, token=text), **self.envelope)
        return [b"%b\0%b" % (TOKEN, ENCODER.encode(message))]

    def copy(self, _request: str | None = None) -> Projection:
        """Return an independent copy; all subscribers get the same messages, whoever owns the run."""
        twin = Projection(instance=self.instance)
        for name in ("error", "session", "turn", "started", *self.__slots__):
            setattr(twin, name, getattr(self, name))
        twin._parked_turn = self._parked_turn.copy()
        return twin

    def rolled_back(self) -> Messages:
        """Return the description of the session without the turn's messages."""
        count = max(0, self._count - self._turn_count)
        payload = wire.Session(id=self.session, title=self._title, updated_at=rfc3339(self.at), message_count=count)
        return (wire.SessionUpdate(payload=payload, **self.envelope),)

    def _update_description(self, event: Event) -> None:
        """Update the description of the session after an event."""
        match event:
            case events.SessionUpdated():
                self._title, self._count = event.session.title, event.session.messages
            case events.HistorySnapshot():
                self._count = sum(is_chat_message(item) for item in event.items)
            case events.MessageAppended() if event.message.role == "user":
                self._count += 1
                self._turn_count += 1
                self._title = self._title or event.message.text
            case events.TurnEnded(end="rolled_back"):
                self._count = max(0, self._count - self._turn_count)
            case events.TurnEnded() if event.text:
                self._count += 1
