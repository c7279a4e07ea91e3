"""The rendering of one session for one codewhale client, which sees only its own turn live.

The source is docs/translation.md, rule 3.17. Text is streamed in bare lines. Everything else is held for the `events`
of the result. An error has no `events`, so after a failure it is counted as lost. `request` is the request id of the
client's own turn. With a `view` and no `request`, the turn is another client's, and this client reads it in the
history. Without both (`translate`), every turn is shown.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from dragoman.mappings.alike import MANY, TEXT, encode_alike
from dragoman.mappings.canonical import Batch, Event, events
from dragoman.mappings.codewhale.from_canonical.context import Context, bundled
from dragoman.mappings.codewhale.from_canonical.events import FROM_EVENT, accepted
from dragoman.mappings.codewhale.ids import named_thread, thread_id
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED
from dragoman.mappings.codewhale.wire import frames, lines, results
from dragoman.mappings.codewhale.wire.codecs import EVENTS
from dragoman.mappings.codewhale.wire.frames import FrameBase
from dragoman.mappings.dialect import DeltaType, Rendered, TextWriter
from dragoman.mappings.in_words import ParkedTurn

FRAMES_MAX = 10_000
"""EventFrames of one result; further ones are counted as lost.

So many take 1.4 MB beside their texts, and 3 ms to write.
"""

UNSEEN = frozenset(
    (
        events.ReasoningDelta,
        events.ToolCallArguments,
        events.ToolCallFinished,
        events.ToolOutputDelta,
        events.McpStartup,
        events.GoalUpdated,
        events.ErrorReported,
        events.Gap,
        events.LifecycleReport,
    )
)
"""Events of a turn whose content is not in the result of thread/read."""


class Projection(Context):
    """The rendering of one session: for the client that began the turn, or for all other clients."""

    alone = False

    def __init__(self, request: str = "", view: str = "") -> None:
        super().__init__(request=request, generation=SEED if view == SEED else HEAD)
        self._view = view
        self.thread = named_thread(request)
        self._hidden = bool(view) and not request
        self._parked_turn = ParkedTurn()
        self._frames: list[tuple[FrameBase, Event]] = []  # held for the result, each with its event
        self._over = False  # True once the client has its result
        self._bytes = 0  # length of the user's input, which the seed generation uses in response ids

    def render(self, batch: Batch) -> Rendered:
        """Return the lines that show this batch."""
        if self._hidden:
            for event in self._parked_turn.admit_events(batch.events, self.lose):
                self._count_unseen(event)
            return Rendered(frames=[], losses=self.take_losses())
        self.session, self.at = batch.session, batch.at
        if batch.turn != self.turn:
            self.turn, self._bytes = batch.turn, 0
            self._begin_run()
            self._set_response_id()
        shown = self._parked_turn.admit_events(batch.events, self.lose)
        functions = FROM_EVENT.functions
        if len(shown) >= MANY and type(shown[0]) in TEXT and self.streams and self.started and not self._over:
            alike = encode_alike(shown, TEXT, lambda event: EVENTS.encode(*functions[type(event)](event, self)))
            if alike is not None:
                return Rendered(frames=alike, losses=self.take_losses())
        out: list[Any] = []
        for event in shown:
            self._note_event(event)
            if self._over:
                self._count_unseen(event)
                continue
            for message in functions[type(event)](event, self):
                self._write(message, event, out)
            if type(event) is events.QuestionAsked and event.parked:
                self._write(self.answer(accepted(self)), event, out)
        return Rendered(frames=bundled(out), losses=self.take_losses())

    def text_writer(self, delta: DeltaType) -> TextWriter | None:
        """Return a fast writer for further text; None if `render` must write it, as it does with reasoning."""
        if self._parked_turn.parked or delta is not events.TextDelta:
            return None
        if self._hidden:
            return hide_text
        return self._write_text if self.streams and self.started and not self._over else None

    def _write_text(self, text: str, at: int) -> list[bytes]:
        self.at = at
        return [EVENTS.encode(lines.ResponseDelta(response_id=self.response_id, delta=text))]

    def copy(self, request: str | None = None) -> Projection:
        twin = Projection(self.request if request is None else request, self._view)
        for name in ("session", "turn", "at", "response_id", "started", "ended", "_over", "_bytes"):
            setattr(twin, name, getattr(self, name))
        twin._parked_turn, twin._frames = self._parked_turn.copy(), self._frames.copy()
        if twin.request != self.request:  # another link owns the next run of this turn
            twin._begin_run()
        return twin

    # -- the response that is open ----------------------------------------------------------------------

    def _begin_run(self) -> None:
        """Reset the state for a new response."""
        self.started = self.ended = self._over = False

    def _set_response_id(self) -> None:
        """Set the id of the response. It ends with the id of the turn, in the seed with the length of the input."""
        thread = self.thread or thread_id(self.session)
        self.response_id = f"{self.session}:{self.turn}" if self.streams else f"{thread}:{self._bytes}"

    def _count_unseen(self, event: Event) -> None:
        """Count an event that this client does not see, except a Gap with `context`, which its next turn reports."""
        if isinstance(event, events.Gap) and event.context:
            return
        if type(event) in UNSEEN:
            self.lose(event, why="another client began this turn: it is read in the history")
        elif type(event) is events.HistorySnapshot or not FROM_EVENT.entries[type(event)].produces:
            FROM_EVENT.functions[type(event)](event, self)  # writes nothing, and counts what has no form

    def _note_event(self, event: Event) -> None:
        if isinstance(event, events.MessageAppended) and event.message.role == "user":
            self._bytes = len(event.message.text.encode())
            self._set_response_id()
        elif isinstance(event, events.QuestionAnswered) and not self.request:
            self._begin_run()

    def _write(self, message: Any, event: Event, out: list[Any]) -> None:
        """Append a line to `out`; hold an EventFrame for the answer."""
        if isinstance(message, FrameBase):
            if len(self._frames) < FRAMES_MAX:
                self._frames.append((message, event))
            else:
                self.lose(event, why=f"more than {FRAMES_MAX} frames in one result")
            return
        if isinstance(message, results.Answer):
            held, self._frames, self._over = self._frames, [], True
            if message.error is UNSET:
                out += [frame for frame, _ in held]
            else:
                for frame, lost in held:
                    if not (isinstance(frame, frames.Error) and frame.message == message.error.message):
                        self.lose(lost, why="an error has no events")
        out.append(message)


def hide_text(_text: str, _at: int) -> list[bytes]:
    """Return no lines: clients read the text of another client's turn in the history."""
    return []
