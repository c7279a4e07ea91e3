"""Redact the lines of a recording on their way into the file, in the order in which they came.

While a text is streamed, its deltas and all lines behind them are held back: until the text ends, or for half of a
window of so many characters and µs. Unfinished secrets are held for the whole window. Overdue text is released as
held_text.py describes. Between two such moments a line costs no more than a place in a queue, and many texts and
frames are searched at once. Nothing here reads a clock: the time is that of the lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, structs

from dragoman.gateway.recording.format import EventLine, FrameLine, Item, Line, StepLine
from dragoman.gateway.recording.redaction.finder import finder as finder_of
from dragoman.gateway.recording.redaction.frame_redactor import FrameCleaner, FrameRedactor, Frames
from dragoman.gateway.recording.redaction.held_text import HeldDelta, HeldText, Released
from dragoman.gateway.recording.redaction.rules import JsonPaths, RedactionRules
from dragoman.gateway.recording.redaction.shapes import ALWAYS, named
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

TextKey = tuple[str, str, str]
"""Identifies a text that streams: its kind, and the call and name of a tool."""

LINES_MAX = 65_536  # held behind an open text: one for every byte of the window
WEIGHT_MAX = 16 * 1024 * 1024  # bytes of frames among them: of one message as large as can be
COUNTS_MAX = 1024  # kinds times places; their names come from us and from the configuration

Slot = tuple[Item, ...]
"""The line of a delta; or a stream, or the lines that were made of it."""


class FindingCount(Struct, frozen=True, kw_only=True):
    """How many secrets of this kind stood at this place."""

    kind: str
    place: str
    count: int


class Finding(Struct, frozen=True, kw_only=True):
    """A secret of this kind stood at this place of the line with this seq. The secret itself is never kept."""

    seq: int
    kind: str
    place: str


class FindingCounts:
    """The secrets that were redacted in one recording, counted by kind and place. `hear` is told each one."""

    __slots__ = ("_counts", "_hear")

    def __init__(self, hear: Callable[[Finding], None] | None) -> None:
        self._hear = hear
        self._counts: Counter[tuple[str, str]] = Counter()

    def note(self, kind: str, place: str, seq: int) -> None:
        """Count a secret that was redacted."""
        if self._hear is not None:
            self._hear(Finding(seq=seq, kind=kind, place=place))
        key = (kind, place)
        self._counts[key if key in self._counts or len(self._counts) < COUNTS_MAX else (kind, "elsewhere")] += 1

    @property
    def total(self) -> int:
        """The number of secrets that were redacted."""
        return self._counts.total()

    def entries(self) -> list[FindingCount]:
        """Return the counts, the most frequent first."""
        return [FindingCount(kind=kind, place=place, count=n) for (kind, place), n in self._counts.most_common()]


class Redactor:
    """Redacts one recording. Without `rules` it removes only what no recording ever holds."""

    __slots__ = (
        "_finder",
        "_mark",
        "_origin",
        "_partial",
        "_queue",
        "_redact_frames",
        "_rules",
        "_seq",
        "_texts",
        "_values",
        "_weight",
        "ledger",
    )

    def __init__(
        self, rules: RedactionRules | None, salt: bytes, hear: Callable[[Finding], None] | None = None
    ) -> None:
        self.ledger = FindingCounts(hear)
        self._rules = rules
        finder = finder_of(rules.detectors if rules is not None else ALWAYS)
        paths = rules.paths if rules is not None else JsonPaths()
        self._finder = finder
        self._partial = finder_of((*rules.detectors, *named(paths.names))) if paths and rules is not None else finder
        self._mark = placeholders(salt)
        self._seq = 0  # of the line that is being redacted
        self._values = ValueRedactor(
            finder, paths, self._mark, lambda kind, place: self.ledger.note(kind, place, self._seq)
        )
        cleaner = FrameCleaner(self._partial, self._mark, self.ledger.note)
        self._redact_frames: Callable[[Sequence[Frames]], dict[int, list[Line]]] = cleaner.remove_credentials
        if rules is not None:
            same = self._partial is finder
            self._redact_frames = FrameRedactor(self._partial, cleaner, paths.names, streams_are_clean=same).redact
        self._queue: list[HeldDelta[Slot] | Line] = []  # not a deque, which takes 0.7 KB while it is empty
        self._texts: dict[TextKey, HeldText[Slot]] = {}
        self._weight = 0
        self._origin = Origin()  # the last one that was searched

    # -- lines come and go -------------------------------------------------------------------------------

    def feed(self, lines: Sequence[Item], now: int = 0) -> list[Item]:
        """Take more lines, if there are any, and return those that are released. `now` is in µs, as in the lines.

        Many lines at once cost less than one by one.
        """
        if self._rules is None:
            return self._clean(self._passed(lines))
        queue = self._queue
        for line in lines:
            if type(line) is FrameLine:
                queue.append(line)
                self._weight += len(line.text or "".join(line.words))
            elif type(line) is EventLine:
                self._take(line)
            elif type(line) is StepLine:
                self._add(_key_of(line), HeldDelta((line,), "".join(line.texts), line.t, line.texts))
        if lines:
            now = max(now, lines[-1].t)
        window = self._rules.window_micros
        if len(queue) > LINES_MAX or self._weight > WEIGHT_MAX:
            self._release_texts(now, now)
        self._release_texts(now - window // 2, now - window)
        return self._released()

    def finish(self) -> list[Item]:
        """Return all lines that are left: no more will come."""
        self._close(lambda _key: True)
        return self._released()

    @property
    def held(self) -> int:
        """Bytes of the frames and characters of the texts that are held back."""
        held = self._weight
        for text in self._texts.values():
            held += text.held
        return held

    @property
    def held_lines(self) -> int:
        """Number of the frames, events and commands that are held back."""
        return sum(
            sum(line.count for line in item.slot) if isinstance(item, HeldDelta) else item.count for item in self._queue
        )

    @property
    def window(self) -> int:
        """How long a text is held back, in µs."""
        return self._rules.window_micros if self._rules is not None else 0

    @property
    def since(self) -> int | None:
        """When the oldest text came that is held back, in µs."""
        return min((text.since for text in self._texts.values() if text.since is not None), default=None)

    def _released(self) -> list[Item]:
        """Take the lines of the steps that are decided out of the queue, and redact them."""
        done = self._steps_done()
        items = self._queue[:done]
        del self._queue[:done]
        clean = self._values.are_clean([item for item in items if type(item) is EventLine])
        lines = list[Item]()
        for item in items:
            if isinstance(item, HeldDelta):
                for line in item.slot:
                    lines += self._origin_redacted(line)
            elif isinstance(item, FrameLine):
                lines.append(item)
                self._weight -= len(item.text or "".join(item.words))
            elif clean:
                lines.append(item)
            else:
                lines += self._origin_redacted(self._redacted(item))
        changed = self._clean(lines)
        self._finder.forget_large()
        self._partial.forget_large()
        return changed

    def _steps_done(self) -> int:
        """Return how many items stand before the first step that is partly held back: a step leaves whole."""
        queue = self._queue
        done, step = 0, -1
        for number, item in enumerate(queue):
            if item.t != step:
                done, step = number, item.t
            if isinstance(item, HeldDelta) and item.waits:
                return done
        return len(queue)

    def _clean(self, lines: list[Item]) -> list[Item]:
        """Return the lines with their frames redacted, which are searched together."""
        places = [place for place, line in enumerate(lines) if type(line) is not EventLine]
        if places:
            changed = self._redact_frames([lines[place] for place in places])  # type: ignore[misc]  # mypy does not narrow by `type(...) is not`
            for nth in sorted(changed, reverse=True):
                lines[places[nth] : places[nth] + 1] = changed[nth]
        return lines

    def _passed(self, lines: Sequence[Item]) -> list[Item]:
        """Return lines as they are written without rules: nothing is held back, and streamed text is not searched."""
        events = [line for line in lines if type(line) is EventLine and type(line.event) not in STREAMED]
        searched = set() if self._values.are_clean(events) else set(map(id, events))
        passed = list[Item]()
        for line in lines:
            is_searched = isinstance(line, EventLine) and id(line) in searched
            passed += self._origin_redacted(self._redacted(line) if is_searched else line)  # type: ignore[arg-type]  # an EventLine
        return passed

    def _origin_redacted(self, line: Item) -> Sequence[Item]:
        """Return a line with its origin redacted: clients choose request ids freely."""
        if isinstance(line, FrameLine):
            return (line,)
        before = line.events[0].origin if isinstance(line, StepLine) else line.origin
        if before is self._origin:
            return (line,)
        self._seq = line.seq
        origin = self._values.redact(before)
        if origin is before:
            self._origin = origin  # all events of a batch have this one
            return (line,)
        return [
            structs.replace(one, origin=origin, redacted=True) if isinstance(one, EventLine) else one
            for one in line.lines()
        ]

    def _redacted(self, line: EventLine) -> EventLine:
        self._seq = line.seq
        if line.command is not None:
            command = self._values.redact(line.command)
            return line if command is line.command else structs.replace(line, command=command, redacted=True)
        if line.event is None:
            return line
        event = self._values.redact(line.event)
        return line if event is line.event else structs.replace(line, event=event, redacted=True)

    # -- streamed text -----------------------------------------------------------------------------------

    def _take(self, line: EventLine) -> None:
        """Add a delta to its text, or close the texts that an event ends."""
        event: Any = line.event
        kind = type(event)
        if event is not None and not line.link:
            streamed = STREAMED.get(kind)
            key = SINGLE.get(kind) or (streamed(event) if streamed is not None else None)
            if key is not None:
                text = event.json if kind is ToolCallArguments else "".join(line.texts) or event.text
                self._add(key, HeldDelta((line,), text, line.t, line.texts))
                return
            ends = ENDS.get(kind)
            if ends is not None and self._texts:
                self._close(lambda key: ends(key, event))
        self._queue.append(line)

    def _add(self, key: TextKey, delta: HeldDelta[Slot]) -> None:
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._new_text(key)
        self._queue.append(delta)
        text.add(delta)
        if self._rules is not None and text.held > self._rules.window_bytes:
            self._replace(text.release(text.count_before_last(self._rules.window_bytes // 2)))

    def _new_text(self, key: TextKey) -> HeldText[Slot]:
        if key[0] == "arguments":
            return HeldText(self._partial, lambda text: self._values.spans(text, ("arguments",)), self._mark)
        return HeldText(self._finder, self._values.spans, self._mark)

    def _release_texts(self, since: int, until: int) -> None:
        """Release the decided part of texts that are held since then, and everything that came until `until`.

        More often would cost too much.
        """
        for text in self._texts.values():
            if text.since is not None and text.since <= since:
                self._replace(text.release(text.count_until(until)))

    def _close(self, which: Callable[[TextKey], bool]) -> None:
        for key in [key for key in self._texts if which(key)]:
            self._replace(self._texts.pop(key).finish())

    def _replace(self, released: Released[Slot]) -> None:
        """Give the lines of released deltas their new texts."""
        for delta, texts in released:
            if texts is not None:
                (line,) = delta.slot
                pieces = iter(texts)
                delta.slot = tuple(
                    self._with_text(one, *next(pieces)) if isinstance(one, EventLine) else one for one in line.lines()
                )

    def _with_text(self, line: EventLine, text: str, begun: Sequence[Span]) -> EventLine:
        event: Any = line.event
        name = "json" if type(event) is ToolCallArguments else "text"
        for span in begun:
            self.ledger.note(span.kind, place_of(event, name), line.seq)
        if text == getattr(event, name):
            return line
        return structs.replace(line, event=structs.replace(event, **{name: text}), redacted=True)


SINGLE: dict[type, TextKey] = {TextDelta: ("text", "", ""), ReasoningDelta: ("reasoning", "", "")}
"""Deltas that belong to one text at a time."""

STREAMED: dict[type, Callable[[Any], TextKey | None]] = {
    TextDelta: lambda _event: SINGLE[TextDelta],
    ReasoningDelta: lambda _event: SINGLE[ReasoningDelta],
    ToolCallArguments: lambda event: None if event.done else ("arguments", event.call, event.name),
    ToolOutputDelta: lambda event: ("output", event.call, ""),
}
"""Deltas, and the text to which they belong; None for an event that is no delta."""

ENDS: dict[type, Callable[[TextKey, Any], bool]] = {
    TextDone: lambda key, _event: key[0] == "text",
    ReasoningStarted: lambda key, _event: key[0] == "reasoning",
    ReasoningDone: lambda key, _event: key[0] == "reasoning",
    ToolCallArguments: lambda key, event: key == ("arguments", event.call, event.name),
    ToolCallFinished: lambda key, event: key[0] in ("arguments", "output") and key[1] == event.call,
    TurnAccepted: lambda _key, _event: True,
    TurnEnded: lambda _key, _event: True,
}
"""The texts that end with such an event."""


def _key_of(step: StepLine) -> TextKey:
    """Return the key of the text whose deltas a step with rounds holds."""
    event = step.events[0].event
    return ("output", event.call, "") if isinstance(event, ToolOutputDelta) else SINGLE[type(event)]
