"""The rendering of one session for smooth clients: every frame of a turn has one request id.

The link that began a turn has a projection with its own request id and gets the 202 response. All other links see the
turn under the turn's UUID (docs/translation.md, rule 3.1). An `error` with a turn's request id would end the turn in
the client, so errors are held until the turn has ended. Every frame is small enough for all known clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from dragoman.mappings.alike import MANY, TEXT_AND_REASONING, encode_alike
from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.canonical.events import (
    ErrorReported,
    QuestionAnswered,
    QuestionAsked,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
)
from dragoman.mappings.dialect import DeltaType, Rendered, TextWriter
from dragoman.mappings.extras import as_json, raw
from dragoman.mappings.in_words import ParkedTurn
from dragoman.mappings.smooth.from_canonical.context import Context, error_event
from dragoman.mappings.smooth.from_canonical.events import FROM_EVENT, PIECES, Piece
from dragoman.mappings.smooth.from_canonical.replies import derived
from dragoman.mappings.smooth.vocabulary import NOT_IN_SEED, UNSHOWN_BY_SEED
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.codecs import EVENTS
from dragoman.mappings.smooth.wire.values import NS_PER_MS

MAX_EVENT = 1_000_000
"""Bytes of the largest frame: Python and Go clients read at most 1 MiB (docs/dialects/smooth.md, section 1)."""

TOO_LARGE = f"above {MAX_EVENT} bytes"
"""The reason for which a part of a message is lost."""

PIECE = 64_000
"""Characters of a text that fits into MAX_EVENT: a frame has it twice, and a character takes up to 6 bytes."""


class Projection(Context):
    """The rendering of one session; `request` is the id of the link's own turn, "" for all other links.

    `view` names the kinds of forms that these clients are asked in words (docs/translation.md, rule 3.3), and the seed
    generation if they speak it. A question in words ends the turn for them with a terminal message. Everything after
    the answer is another turn for them.
    """

    __slots__ = ("_parked_turn",)

    def __init__(self, request: str = "", view: str = "") -> None:
        super().__init__(view=view)
        self.request = request
        self.alone = False
        self._parked_turn = ParkedTurn()

    def render(self, batch: Batch) -> Rendered:
        frames: list[bytes] = []
        if batch.turn != self.turn and self.held:
            self._release_errors(frames)  # a turn without an end
        if batch.turn != self.turn:
            self.turn, self.runs, self.earlier_text = batch.turn, 0, 0
        self.request_id = self.request or self._run_id()
        self.envelope_id = self.request_id or None
        self.timestamp = batch.at // NS_PER_MS
        events: Sequence[Event] = batch.events
        if self.view and (self._parked_turn.parked or len(events) != 1 or type(events[0]) is not TextDelta):
            events = self._in_view(events)  # a single token needs no check, unless the turn is parked
        speaking, encode = FROM_EVENT.speaking, EVENTS.encode
        if speaking.keys().isdisjoint(map(type, events)):  # stops at the first event with a form
            return Rendered(frames=frames, losses=self.take_losses())
        if len(events) >= MANY and type(events[0]) in TEXT_AND_REASONING:
            alike = encode_alike(events, TEXT_AND_REASONING, lambda event: encode(*speaking[type(event)](event, self)))
            if alike is not None:
                return Rendered(frames=[*frames, *alike], losses=self.take_losses() if self.lost else [])
        message: Any
        for event in events:
            function = speaking.get(type(event))
            for message in function(event, self) if function is not None else ():
                if type(message) in SPLIT and len(message.token) > MAX_EVENT:  # is too large: do not encode it
                    frames += fitted(message, event, self)
                elif len(line := encode(message)) <= MAX_EVENT:
                    frames.append(line)
                else:
                    frames += fitted(message, event, self)
        return Rendered(frames=frames, losses=self.take_losses() if self.lost else [])

    def text_writer(self, delta: DeltaType) -> TextWriter | None:
        """Return a fast writer for further pieces of a block; None if `render` must write them or leave them out."""
        if self._parked_turn.parked or (self.seed and delta in UNSHOWN_BY_SEED):
            return None
        return partial(self._write_text, PIECES[delta])

    def _write_text(self, piece: type[Piece], text: str, at: int) -> list[bytes]:
        message = piece(
            request_id=self.envelope_id,
            token=text,
            data=wire.TokenData(request_id=self.request_id, token=text),
            timestamp=at // NS_PER_MS,
        )
        frame = EVENTS.encode(message)
        return [frame] if len(frame) <= MAX_EVENT else [EVENTS.encode(part) for part in _pieces(message)]

    def copy(self, request: str | None = None) -> Projection:
        twin = Projection(self.request if request is None else request, self.view)
        twin.turn, twin.earlier_text, twin.runs, twin.held = self.turn, self.earlier_text, self.runs, self.held
        twin._parked_turn = self._parked_turn.copy()
        return twin

    def _in_view(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events to show these clients now; hold the others while a question in words parks the turn."""
        if self.seed and not UNSHOWN_BY_SEED.isdisjoint(map(type, events)):
            for event in events:
                if type(event) in UNSHOWN_BY_SEED:
                    self.lose(event, why=NOT_IN_SEED)
            events = [event for event in events if type(event) not in UNSHOWN_BY_SEED]
        if not events:
            return events
        last = events[-1]
        in_words = type(last) is QuestionAsked and self.asks_in_words(last.kind)
        if self._parked_turn.parked or in_words:
            shown = self._parked_turn.admit_events(events, self.lose)
            if type(last) is QuestionAsked and last.parked:
                self._parked_turn.parked = in_words  # a further question may have a form of its own
            return shown
        if type(last) is QuestionAnswered and self.asks_in_words(last.kind):
            self.end_run(last)  # happens only in a prelude: the runs before this question's answer have ended
            return ()
        return events

    def _run_id(self) -> str:
        """Return the id of a run that another link began: the turn's id, or one derived from it after a question."""
        return derived(self.turn, f"run {self.runs}") if self.turn and self.runs else self.turn

    def _release_errors(self, frames: list[bytes]) -> None:
        context = Context(at=self.timestamp * NS_PER_MS)
        for event in self.take_held_errors(None):
            frames += [EVENTS.encode(m) for m in FROM_EVENT.functions[ErrorReported](event, context)]


# -- frames that are too large (docs/translation.md, rule 3.15) -------------------------------------

SPLIT = frozenset(PIECES.values())
"""Messages whose text may be split."""


def fitted(message: Any, event: Event, context: Context) -> list[bytes]:
    """Return a message of this event that is larger than MAX_EVENT as frames that are not.

    A token is split. A tool's text is cut, marked as cut, and counted as a loss. A terminal message is never cut: the
    turn ends with an error instead.
    """
    match message:
        case wire.StreamToken() | wire.StreamReasoning() | wire.StreamPreamble():
            return [EVENTS.encode(piece) for piece in _pieces(message)]
        case wire.StreamChunk():
            field, event = _cut(event)
            context.lose(event, field, TOO_LARGE)  # it is cut: a sample of the whole takes as long
            (chunk,) = FROM_EVENT.functions[type(event)](event, context)
            return _checked(chunk, event, context)
        case wire.ErrorEvent():
            context.lose(event, "text" if isinstance(event, ErrorReported) else "failure", TOO_LARGE)
            body = msgspec.structs.replace(message.error, message=cut_text(message.error.message))
            data = wire.ErrorEvent.Data(request_id=message.request_id, error=body)
            return _checked(msgspec.structs.replace(message, error=body, data=data), event, context)
        case wire.EventualResponse():
            context.lose(event, "text", TOO_LARGE)
            words = f"the answer is larger than the {MAX_EVENT} bytes that clients read"
            return _checked(error_event(context, "INTERNAL_ERROR", words), event, context)
        case _:
            context.lose(event, why=TOO_LARGE)
            return []


def _checked(message: Any, event: Event, context: Context) -> list[bytes]:
    frame = EVENTS.encode(message)
    if len(frame) <= MAX_EVENT:
        return [frame]
    context.lose(event, why=TOO_LARGE)
    return []


def _pieces(message: Piece) -> list[Any]:
    pieces = [message.token[start : start + PIECE] for start in range(0, len(message.token), PIECE)]
    return [
        msgspec.structs.replace(message, token=piece, data=msgspec.structs.replace(message.data, token=piece))
        for piece in pieces
    ]


def _cut(event: Event) -> tuple[str, Event]:
    """Return the field of a tool's event or a StateSnapshot that is cut, and the event with the cut field."""
    match event:
        case ToolCallArguments():  # they stay a JSON object, for clients that parse them
            return "json", msgspec.structs.replace(event, json=as_json({"cut": cut_text(event.json)}))
        case ToolCallFinished():
            field = "summary" if event.output is None else "output"
            return field, msgspec.structs.replace(event, **{field: cut_text(getattr(event, field) or "")})
        case _:
            return "state", msgspec.structs.replace(event, state=raw({}))


def cut_text(text: str) -> str:
    """Return the beginning of a text that is too long for a frame, with a mark."""
    return f"{text[:PIECE]}\n[cut: {len(text)} characters, {min(len(text), PIECE)} shown]"
