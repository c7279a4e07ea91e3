"""Redact the steps of a recording on their way into the file, in the order in which they came.

While a text is streamed, its deltas and all steps after them are held back: until the text ends, or for half of a
window of so many characters and µs. Unfinished secrets are held for the whole window. Overdue text is released as
held_text.py describes. Until then a step is only queued, and many texts and frames are searched at once. Nearly all
steps hold no secret, and are returned unchanged. Nothing here reads a clock: the time is that of the steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct, structs

from dragoman.gateway.recording.format import CommandLine, EventLine, FrameLine, Line, StepLine, packed
from dragoman.gateway.recording.redaction.finder import finder as finder_of
from dragoman.gateway.recording.redaction.frame_redactor import FrameRedactor
from dragoman.gateway.recording.redaction.held_text import CHANGED, HeldDelta, HeldText
from dragoman.gateway.recording.redaction.rules import RedactionRules
from dragoman.gateway.recording.redaction.shapes import named
from dragoman.gateway.recording.redaction.spans import Span, placeholders
from dragoman.gateway.recording.redaction.values import ValueRedactor, place_of
from dragoman.mappings.canonical.events import (
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolOutputDelta,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Origin

AnyLine = TypeVar("AnyLine", EventLine, CommandLine)

TextKey = tuple[str, str]
"""Identifies a text that streams: its kind, and the call of a tool, or the tool's name if the call has no id."""

ENTRIES_MAX = 65_536  # entries of steps held after an open text: one for every byte of the window
WEIGHT_MAX = 16 * 1024 * 1024  # bytes of frames among them: of one message as large as can be
COUNTS_MAX = 1024  # kinds times places; their names come from us and from the configuration


class HeldStep(Struct, eq=False, kw_only=True):
    """A queued step: its `deltas` of streamed texts, and its `others`, which are searched when the step is released.

    `items` is the number of frames, events and commands, `weight` the size of the frames. A folded step
    (docs/recording.md, "Text that streams") counts as one entry (`count`), because the window bounds its size. Its
    delta has a piece for each of its rounds.
    """

    step: StepLine
    others: list[EventLine | CommandLine]
    deltas: dict[DeltaKey, HeldDelta] = {}
    items: int
    count: int = 1
    weight: int = 0


DeltaKey = tuple[int, str]
"""Identifies a delta in its step: the id of the event, and the cursor."""


class FindingCount(Struct, frozen=True, kw_only=True):
    """The number of secrets of one kind in one place, such as a field of an event."""

    kind: str
    place: str
    count: int


class Finding(Struct, frozen=True, kw_only=True):
    """A secret that was found: its kind, its place, and the `seq` of its line. The secret itself is never kept."""

    seq: int
    kind: str
    place: str


class FindingCounts:
    """The secrets that were redacted in one recording, counted by kind and place.

    `on_finding` is called with each Finding.
    """

    __slots__ = ("_counts", "_on_finding", "seq")

    def __init__(self, on_finding: Callable[[Finding], None] | None) -> None:
        self._on_finding = on_finding
        self.seq = 0
        """The number of the item whose values are redacted now."""
        self._counts: Counter[tuple[str, str]] = Counter()

    def note(self, kind: str, place: str, seq: int) -> None:
        """Count a secret that was redacted."""
        if self._on_finding is not None:
            self._on_finding(Finding(seq=seq, kind=kind, place=place))
        key = (kind, place)
        self._counts[key if key in self._counts or len(self._counts) < COUNTS_MAX else (kind, "elsewhere")] += 1

    def note_value(self, kind: str, place: str) -> None:
        """Count a secret that was redacted in a value of the item `seq`."""
        self.note(kind, place, self.seq)

    @property
    def total(self) -> int:
        """The number of secrets that were redacted."""
        return self._counts.total()

    def entries(self) -> list[FindingCount]:
        """Return the counts, the most frequent first."""
        return [FindingCount(kind=kind, place=place, count=n) for (kind, place), n in self._counts.most_common()]


class Redactor:
    """Redacts one recording."""

    __slots__ = (
        "_entries",
        "_finder",
        "_frames",
        "_mark",
        "_origin",
        "_partial",
        "_queue",
        "_rules",
        "_texts",
        "_values",
        "_weight",
        "held_items",
        "ledger",
    )

    def __init__(self, rules: RedactionRules, salt: bytes, on_finding: Callable[[Finding], None] | None = None) -> None:
        self.ledger = FindingCounts(on_finding)
        self._rules = rules
        paths = rules.paths
        finder = self._finder = finder_of(rules.detectors)
        self._partial = finder_of((*rules.detectors, *named(paths.names))) if paths else finder
        self._mark = placeholders(salt)
        self._values = ValueRedactor(finder, paths, self._mark, self.ledger.note_value)
        self._frames = FrameRedactor(
            self._partial, self.ledger.note, paths.names, streams_are_clean=self._partial is finder
        )
        self._queue: list[HeldStep] = []  # not a deque, which takes 0.7 KB while it is empty
        self._texts: dict[TextKey, HeldText] = {}
        self._entries = self._weight = 0  # of the queue
        self.held_items = 0
        """Number of the frames, events and commands that are held back."""
        self._origin = Origin()  # the last one that was searched

    # -- steps come and go -------------------------------------------------------------------------------

    def feed(self, steps: Sequence[StepLine], now: int = 0) -> list[StepLine]:
        """Take more steps, if there are any, and return those that are released. `now` is in µs, as in the steps.

        Many steps at once cost less than one by one.
        """
        for step in steps:
            self._hold(step)
        if steps:
            now = max(now, steps[-1].t)
        window = self._rules.window_micros
        if self._entries > ENTRIES_MAX or self._weight > WEIGHT_MAX:
            self._release_texts(now, now)
        self._release_texts(now - window // 2, now - window)
        return self._released()

    def finish(self) -> list[StepLine]:
        """Return all remaining steps, after the last call of `feed`."""
        self._close(list(self._texts))
        return self._released()

    @property
    def held(self) -> int:
        """Bytes of the frames and characters of the texts that are held back."""
        held = self._weight
        for text in self._texts.values():
            held += text.held
        return held

    @property
    def window(self) -> int:
        """The time for which a text is held back, in µs."""
        return self._rules.window_micros

    @property
    def since(self) -> int | None:
        """The arrival time of the oldest text that is held back, in µs: the first step is held for its delta."""
        return self._queue[0].step.t if self._queue else None

    def _released(self) -> list[StepLine]:
        """Remove the decided steps from the queue, redact them and return them."""
        leaving = self._queue[: self._decided_count()]
        del self._queue[: len(leaving)]
        others = list[EventLine | CommandLine]()
        for held in leaving:
            others += held.others
            self._weight -= held.weight
            self._entries -= held.count
            self.held_items -= held.items
        clean = not others or self._values.are_clean(others)
        for entry in others if clean else ():
            if isinstance(entry, EventLine) and entry.turn:
                self._origin = entry.origin  # it was searched with them
        steps = list[StepLine]()
        for held in leaving:
            is_clean = (clean or not held.others) and not any(map(CHANGED, held.deltas.values()))
            if is_clean and (not held.deltas or self._has_clean_names(held.step)):
                steps.append(held.step)
            else:
                steps += packed(self._redacted_step(held))
        if steps:
            steps = self._frames.redact(steps)
        for finder in {self._finder, self._partial}:
            finder.forget_large()
        return steps

    def _decided_count(self) -> int:
        """Return the number of steps before the first delta whose content is not decided."""
        for number, held in enumerate(self._queue):
            for delta in held.deltas.values():
                if delta.waits:
                    return number
        return len(self._queue)

    def _has_clean_names(self, step: StepLine) -> bool:
        """Return True if no origin and no call in a step holds a secret: peers choose ids and names freely."""
        for event in step.events:
            fields = CALL_NAMES.get(type(event.event))
            if fields and any(self._values.finds(getattr(event.event, field), (field,)) for field in fields):
                return False
            origin = event.origin
            if origin is not self._origin:  # all events of a turn have one
                if self._values.finds(origin.link, ("link",)) or self._values.finds(origin.request, ("request",)):
                    return False
                self._origin = origin
        return True

    def _redacted_step(self, held: HeldStep) -> Iterator[Line]:
        """Yield the entries of a step, with its events and commands redacted."""
        searched = {id(entry.event) for entry in held.others if isinstance(entry, EventLine)}
        stream = _key(held.step.events[0]) if held.step.rounds else None
        for line in held.step.lines():
            if isinstance(line, FrameLine):
                yield line
            elif isinstance(line, CommandLine):
                yield self._redacted(line, "command")
            elif id(line.event) in searched:
                yield self._origin_redacted(self._redacted(line, "event"))
            else:
                texts = held.deltas[stream or _key(line)].changed
                delta = self._with_text(line, *next(texts)) if texts is not None else line
                yield self._origin_redacted(self._call_redacted(delta))

    def _call_redacted(self, entry: EventLine) -> EventLine:
        """Redact the names of the call to which a delta belongs: its text has been redacted."""
        self.ledger.seq = entry.seq
        event: Any = entry.event
        event = self._values.redact(event, CALL_NAMES.get(type(event), ()))
        return entry if event is entry.event else structs.replace(entry, event=event, redacted=True)

    def _origin_redacted(self, entry: EventLine) -> EventLine:
        self.ledger.seq = entry.seq
        origin = self._values.redact(entry.origin)
        return entry if origin is entry.origin else structs.replace(entry, origin=origin, redacted=True)

    def _redacted(self, entry: AnyLine, field: Literal["event", "command"]) -> AnyLine:
        self.ledger.seq = entry.seq
        item = getattr(entry, field)
        redacted = self._values.redact(item)
        return entry if redacted is item else structs.replace(entry, **{field: redacted}, redacted=True)

    # -- streamed text -----------------------------------------------------------------------------------

    def _hold(self, step: StepLine) -> None:
        """Add a step to the queue, and its deltas to their texts."""
        held = HeldStep(step=step, others=[*step.commands], items=step.count)
        self._queue.append(held)
        self.held_items += held.items
        if not step.rounds:
            held.count = held.items
            for frame in step.frames:
                held.weight += len(frame.text or "")
        self._entries += held.count
        self._weight += held.weight
        for entry in step.events:
            self._take(held, entry)

    def _take(self, held: HeldStep, entry: EventLine) -> None:
        """Add a delta to its text, or close the texts that another event ends."""
        event: Any = entry.event
        streamed = STREAMED.get(type(event)) if not entry.link else None
        key = streamed(event) if streamed is not None else None
        if key is not None:
            text = event.json if type(event) is ToolCallArguments else "".join(entry.texts) or event.text
            delta = held.deltas[_key(entry)] = HeldDelta(text, held.step.t, entry.texts)
            held_text = self._texts.get(key) or self._new_text(key)
            held_text.add(delta)
            if held_text.held > self._rules.window_bytes:
                held_text.release(held_text.count_before_last(self._rules.window_bytes // 2))
            return
        held.others.append(entry)
        ends = ENDS.get(type(event))
        if ends is not None and self._texts and not entry.link:
            self._close([key for key in ends(event) or self._texts if key in self._texts])

    def _new_text(self, key: TextKey) -> HeldText:
        if key[0] == "arguments":
            new = HeldText(self._partial, lambda text: self._values.spans(text, ("arguments",)), self._mark)
        else:
            new = HeldText(self._finder, self._values.spans, self._mark)
        self._texts[key] = new
        return new

    def _release_texts(self, since: int, until: int) -> None:
        """Release the decided deltas of each text whose oldest delta came by `since`, and its deltas that came by
        `until`.

        The other texts wait: to search each text more often would cost too much.
        """
        for text in self._texts.values():
            text.release_held_since(since, until)

    def _close(self, keys: Sequence[TextKey]) -> None:
        """Release the texts of these keys, which are complete."""
        for key in keys:
            self._texts.pop(key).finish()

    def _with_text(self, line: EventLine, text: str, begun: Sequence[Span]) -> EventLine:
        event: Any = line.event
        name = "json" if type(event) is ToolCallArguments else "text"
        for span in begun:
            self.ledger.note(span.kind, place_of(event, name), line.seq)
        if text == getattr(event, name):
            return line
        return structs.replace(line, event=structs.replace(event, **{name: text}), redacted=True)


def _key(entry: EventLine) -> DeltaKey:
    return id(entry.event), entry.cursor


CALL_NAMES: dict[type, tuple[str, ...]] = {ToolCallArguments: ("call", "name"), ToolOutputDelta: ("call",)}
"""Type of a delta -> its fields that name its call."""

TEXT: TextKey = ("text", "")
REASONING: TextKey = ("reasoning", "")

STREAMED: dict[type, Callable[[Any], TextKey | None]] = {
    TextDelta: lambda _event: TEXT,
    ReasoningDelta: lambda _event: REASONING,
    ToolCallArguments: lambda event: None if event.done else ("arguments", event.call or event.name),
    ToolOutputDelta: lambda event: ("output", event.call),
}
"""Deltas, and the text to which they belong; None for an event that is no delta."""

ENDS: dict[type, Callable[[Any], Sequence[TextKey]]] = {
    TextDone: lambda _event: [TEXT],
    ReasoningStarted: lambda _event: [REASONING],
    ReasoningDone: lambda _event: [REASONING],
    ToolCallArguments: lambda event: [("arguments", event.call or event.name)],
    ToolCallFinished: lambda event: [("arguments", event.call or event.name), ("output", event.call)],
    TurnAccepted: lambda _event: [],
    TurnEnded: lambda _event: [],
}
"""The texts that end with such an event; an empty list means all of them."""
