"""The lines of a recording on their way into the file: what leaves here has no secrets in it.

Lines leave in the order in which they came. While a text is being streamed its deltas are held back, and with them
what came behind them, until the text ends, or for half of a window of so many characters and µs, and what could still
become a secret for all of it: what is overdue then is given out as blocks.py says. Between two such moments a line
costs no more than being put into a queue, and texts and frames are looked through many at once. Nothing here reads a
clock: time is that of the lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import structs

from dragoman.gateway.recording.lines import EventLine, FrameLine, Line
from dragoman.gateway.recording.redaction.assignments import named
from dragoman.gateway.recording.redaction.blocks import Block, Delta, Given
from dragoman.gateway.recording.redaction.credentials import Cleaner, Credentials
from dragoman.gateway.recording.redaction.finder import finder as finder_of
from dragoman.gateway.recording.redaction.frame_redactor import FrameRedactor
from dragoman.gateway.recording.redaction.ledger import Found, Ledger
from dragoman.gateway.recording.redaction.paths import Paths
from dragoman.gateway.recording.redaction.placeholders import Placeholders
from dragoman.gateway.recording.redaction.rules import Rules
from dragoman.gateway.recording.redaction.shapes import ALWAYS
from dragoman.gateway.recording.redaction.spans import Span
from dragoman.gateway.recording.redaction.values import Values, place_of
from dragoman.gateway.recording.runs import FrameRun, Item, Stream
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

__all__ = ["Redactor"]

BlockKey = tuple[str, str, str]

LINES_MAX = 65_536  # held behind an open text: one for every byte of the window
WEIGHT_MAX = 16 * 1024 * 1024  # bytes of frames among them: of one message as large as can be


Slot = tuple[Line | Stream, ...]
"""The line of a delta; or a stream, or the lines that were made of it."""

WithFrames = FrameLine | FrameRun | Stream


class Redactor:
    """Of one recording. `rules` None redacts nothing but what no recording ever holds; `hear` is told what is found."""

    def __init__(self, rules: Rules | None, salt: bytes, hear: Callable[[Found], None] | None = None) -> None:
        self.ledger = Ledger(hear)
        self._rules = rules
        finder = finder_of(rules.detectors if rules is not None else ALWAYS)
        paths = rules.paths if rules is not None else Paths()
        self._finder = finder
        self._partial = finder_of((*rules.detectors, *named(paths.names))) if paths and rules is not None else finder
        self._mark = Placeholders(salt).mark
        self._seq = 0  # of the line that is being redacted
        self._values = Values(finder, paths, self._mark, lambda kind, place: self.ledger.note(kind, place, self._seq))
        cleaner = Cleaner(self._partial, self._mark, self.ledger.note)
        self._wires: FrameRedactor | Credentials = Credentials(finder, cleaner)
        if rules is not None:
            same = self._partial is finder
            self._wires = FrameRedactor(self._partial, cleaner, paths.names, streams_are_clean=same)
        self._queue: deque[Delta[Slot] | Line | FrameRun] = deque()
        self._blocks: dict[BlockKey, Block[Slot]] = {}
        self._weight = 0
        self._origin = Origin()  # the last that was looked at

    # -- lines come and go -------------------------------------------------------------------------------

    def feed(self, lines: Sequence[Item], now: int = 0) -> list[Item]:
        """More lines, if there are any; those that leave now. Many at once cost less than one by one.

        `now` is in µs, as in the lines.
        """
        if self._rules is None:
            return self._passing(lines)
        queue = self._queue
        for line in lines:
            if type(line) is FrameLine:
                queue.append(line)
                self._weight += len(line.text or "")
            elif type(line) is EventLine:
                self._take(line)
            elif type(line) is Stream:
                self._add(_key_of(line), Delta((line,), "".join(line.texts), line.t, line.texts))
            elif type(line) is FrameRun:
                queue.append(line)
                self._weight += _weight(line)
        if lines:
            now = max(now, lines[-1].t)
        window = self._rules.window_micros
        if len(queue) > LINES_MAX or self._weight > WEIGHT_MAX:
            self._look_at_texts(now, now)
        self._look_at_texts(now - window // 2, now - window)
        return self._leaving()

    def finish(self) -> list[Item]:
        """There will be no more lines: all that are left."""
        self._close(lambda _key: True)
        return self._leaving()

    @property
    def window(self) -> int:
        """How long it holds a text back, in µs."""
        return self._rules.window_micros if self._rules is not None else 0

    @property
    def since(self) -> int | None:
        """When the oldest of what it holds back came, in µs."""
        return min((block.since for block in self._blocks.values() if block.since is not None), default=None)

    def _leaving(self) -> list[Item]:
        queue = self._queue
        leaving, lines = _Leaving(), list[Item]()
        for _ in range(self._steps_done()):
            item = queue.popleft()
            if isinstance(item, Delta):
                for line in item.slot:
                    lines += self._looked_at(line)
            elif isinstance(item, EventLine):
                lines += self._looked_at(self._redacted(item))
            else:
                lines.append(item)
        leaving.add(lines)
        self._weight -= sum([_weight(frame) for frame in leaving.frames if not isinstance(frame, Stream)])
        clean = leaving.clean(self._wires)
        self._finder.forget_large()
        self._partial.forget_large()
        return clean

    def _steps_done(self) -> int:
        """Return how many items stand before the first step of which something is held back: a step leaves whole."""
        queue = self._queue
        done, step = 0, -1
        for number, item in enumerate(queue):
            if item.t != step:
                done, step = number, item.t
            if isinstance(item, Delta) and item.waits:
                return done
        return len(queue)

    def _passing(self, stored: Iterable[Item]) -> list[Item]:
        """Without rules nothing is held back, and streamed text stays as it is."""
        leaving = _Leaving()
        for line in stored:
            leaving.add(self._passed(line))
        return leaving.clean(self._wires)

    def _passed(self, line: Item) -> Sequence[Item]:
        if isinstance(line, EventLine) and type(line.event) not in STREAMED:
            line = self._redacted(line)
        return self._looked_at(line) if isinstance(line, EventLine | Stream) else (line,)

    def _looked_at(self, line: Line | Stream) -> Sequence[Line | Stream]:
        """A request id is a client's own words."""
        if isinstance(line, FrameLine) or line.origin is self._origin:
            return (line,)
        self._seq = line.seq
        origin = self._values.redact(line.origin)
        if origin is line.origin:
            self._origin = origin  # all events of a batch have this one
            return (line,)
        return [
            structs.replace(one, origin=origin, redacted=True) if isinstance(one, EventLine) else one
            for one in _apart(line)
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
        """A delta goes to its block; what ends a block has it decided."""
        event: Any = line.event
        kind = type(event)
        if event is not None and not line.link:
            streamed = STREAMED.get(kind)
            key = RUNS.get(kind) or (streamed(event) if streamed is not None else None)
            if key is not None:
                self._add(key, Delta((line,), event.json if kind is ToolCallArguments else event.text, line.t))
                return
            ends = ENDS.get(kind)
            if ends is not None and self._blocks:
                self._close(lambda key: ends(key, event))
        self._queue.append(line)

    def _add(self, key: BlockKey, delta: Delta[Slot]) -> None:
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = self._block(key)
        self._queue.append(delta)
        block.add(delta)
        if self._rules is not None and block.held > self._rules.window_bytes:
            self._decide(block.give(block.older(characters=self._rules.window_bytes // 2)))

    def _block(self, key: BlockKey) -> Block[Slot]:
        if key[0] == "arguments":
            return Block(self._partial, lambda text: self._values.spans(text, ("arguments",)), self._mark)
        return Block(self._finder, self._values.spans, self._mark)

    def _look_at_texts(self, since: int, until: int) -> None:
        """Of a text that is held since then there leaves what no secret begins in; what came until `until` in any case.

        Looked at more often than that it would cost too much.
        """
        for block in self._blocks.values():
            if block.since is not None and block.since <= since:
                self._decide(block.give(block.older(t=until)))

    def _close(self, which: Callable[[BlockKey], bool]) -> None:
        for key in [key for key in self._blocks if which(key)]:
            self._decide(self._blocks.pop(key).finish())

    def _decide(self, given: Given[Slot]) -> None:
        """These deltas are done; some of them with other texts than they had."""
        for delta, texts in given:
            if texts is not None:
                (line,) = delta.slot
                pieces = iter(texts)
                delta.slot = tuple(
                    self._with_text(one, *next(pieces)) if isinstance(one, EventLine) else one for one in _apart(line)
                )

    def _with_text(self, line: EventLine, text: str, begun: Sequence[Span]) -> EventLine:
        event: Any = line.event
        name = "json" if type(event) is ToolCallArguments else "text"
        for span in begun:
            self.ledger.note(span.kind, place_of(event, name), line.seq)
        if text == getattr(event, name):
            return line
        return structs.replace(line, event=structs.replace(event, **{name: text}), redacted=True)


RUNS: dict[type, BlockKey] = {TextDelta: ("text", "", ""), ReasoningDelta: ("reasoning", "", "")}
"""Deltas of which there is one text at a time."""

STREAMED: dict[type, Callable[[Any], BlockKey | None]] = {
    TextDelta: lambda _event: RUNS[TextDelta],
    ReasoningDelta: lambda _event: RUNS[ReasoningDelta],
    ToolCallArguments: lambda event: None if event.done else ("arguments", event.call, event.name),
    ToolOutputDelta: lambda event: ("output", event.call, ""),
}
"""Deltas, and the text of which they are a part; None for what is no delta."""

ENDS: dict[type, Callable[[BlockKey, Any], bool]] = {
    TextDone: lambda key, _event: key[0] == "text",
    ReasoningStarted: lambda key, _event: key[0] == "reasoning",
    ReasoningDone: lambda key, _event: key[0] == "reasoning",
    ToolCallArguments: lambda key, event: key == ("arguments", event.call, event.name),
    ToolCallFinished: lambda key, event: key[0] in ("arguments", "output") and key[1] == event.call,
    TurnAccepted: lambda _key, _event: True,
    TurnEnded: lambda _key, _event: True,
}
"""Which texts end with such an event."""


class _Leaving:
    """Lines that leave, and where those stand among them that have frames: these are looked through together."""

    def __init__(self) -> None:
        self.frames: list[WithFrames] = []
        self._lines: list[Item] = []
        self._places: list[int] = []

    def add(self, lines: Sequence[Item]) -> None:
        """These leave."""
        for one in lines:
            if type(one) is not EventLine:
                self._places.append(len(self._lines))
                self.frames.append(one)  # type: ignore[arg-type]  # mypy does not narrow by `type(...) is not`
            self._lines.append(one)

    def clean(self, wires: FrameRedactor | Credentials) -> list[Item]:
        """All of them, the frames without what those find in them."""
        changed = wires.redact(self.frames) if self.frames else {}
        for nth in sorted(changed, reverse=True):
            self._lines[self._places[nth] : self._places[nth] + 1] = changed[nth]
        return self._lines


def _key_of(stream: Stream) -> BlockKey:
    """The text of which a stream's events are deltas."""
    event = stream.event
    return ("output", event.call, "") if isinstance(event, ToolOutputDelta) else RUNS[type(event)]


def _apart(line: Line | Stream) -> Iterable[Line]:
    return line.lines() if isinstance(line, Stream) else (line,)


def _weight(frame: FrameLine | FrameRun) -> int:
    return len("".join(frame.words)) if isinstance(frame, FrameRun) else len(frame.text or "")
