"""What stands for many lines that are alike (docs/recording.md). Each can be taken apart into these lines again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from dragoman.gateway.recording.lines import Cursor, EventLine, FrameLine, Line, Micros
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta, ToolOutputDelta
from dragoman.mappings.canonical.values import Origin

__all__ = ["DELTAS", "FrameRun", "Item", "Round", "Stream", "StreamFrames", "count", "lines_of"]

_ENCODER = msgspec.json.Encoder()

DELTAS = (TextDelta, ReasoningDelta, ToolOutputDelta)
"""Events of which many alike ones are stored as one with many texts."""


class FrameRun(Struct, frozen=True, kw_only=True, gc=False):
    """Frames that came or went at one time, the first is line `seq`: for each word the frame `word.join(around)`.

    Words stand here as they stood on the wire, with their escapes.
    """

    seq: int
    t: Micros
    link: str
    dir: Literal["receive", "send"]
    dialect: str
    around: list[str]
    words: list[str]

    @property
    def texts(self) -> list[str]:
        """The frames."""
        around = self.around
        return [word.join(around) for word in self.words]

    def lines(self) -> list[FrameLine]:
        """Each as a line of its own."""
        return [
            FrameLine(seq=seq, t=self.t, link=self.link, dir=self.dir, dialect=self.dialect, text=text)
            for seq, text in enumerate(self.texts, self.seq)
        ]


class StreamFrames(Struct, frozen=True, kw_only=True, gc=False):
    """Where frames of a Stream stood, and what stood in each `around` its text: two parts, or more if it is said again.

    A part is in pieces where the time of the batch stands in it, in ms since the Unix epoch.
    """

    link: str
    dir: Literal["receive", "send"]
    dialect: str
    around: list[list[str]]

    def around_at(self, at: int) -> list[str]:
        """What stands around the texts of a batch of that time (ns)."""
        time = str(at // 1_000_000)
        return [time.join(pieces) for pieces in self.around]


class Round(Struct, frozen=True, array_like=True, gc=False):
    """Deltas of a Stream that came together: how many, when (`t`, µs), and the time `at` (ns) of their batch."""

    count: Annotated[int, Meta(ge=1)]
    t: Micros
    at: int


class Stream(Struct, frozen=True, kw_only=True, gc=False):
    """Deltas of one text, with the frames that they came and went in. The first line is `seq`, then come round by round
    the frames received, the events, and the frames sent, wire by wire.

    Each event is `event` with the next of the `texts`; the first stands in the session's log at `cursor`.
    """

    seq: int
    cursor: Cursor
    event: TextDelta | ReasoningDelta | ToolOutputDelta
    texts: list[str]
    rounds: list[Round]
    wires: list[StreamFrames] = []
    turn: str = ""
    origin: Origin = Origin()

    @property
    def t(self) -> int:
        """Of its first line."""
        return self.rounds[0].t

    def frames(self, wire: StreamFrames) -> Iterator[str]:
        """Those of one of its wires."""
        quoted = iter(_ENCODER.encode_lines(self.texts).decode().split("\n"))  # JSON has no newline in a text
        for some in self.rounds:
            around = wire.around_at(some.at)
            for text in islice(quoted, some.count):
                yield text.join(around)

    def lines(self) -> Iterator[Line]:
        """Each as a line of its own."""
        wires = [(wire, list(self.frames(wire))) for wire in self.wires]
        received = [(wire, frames) for wire, frames in wires if wire.dir == "receive"]
        sent = [(wire, frames) for wire, frames in wires if wire.dir == "send"]
        epoch, _, position = self.cursor.partition(":")
        event: Any = self.event
        made = type(event) if type(event) is not ToolOutputDelta else partial(ToolOutputDelta, call=event.call)
        seq, first = self.seq, 0
        for some in self.rounds:
            end, cursor = first + some.count, int(position) + first
            for wire, frames in received:
                yield from _frame_lines(seq, some.t, wire, frames[first:end])
                seq += some.count
            for n, text in enumerate(self.texts[first:end]):
                yield EventLine(
                    seq=seq + n,
                    t=some.t,
                    cursor=f"{epoch}:{cursor + n}",
                    event=made(text=text),
                    turn=self.turn,
                    origin=self.origin,
                    at=some.at,
                )
            seq += some.count
            for wire, frames in sent:
                yield from _frame_lines(seq, some.t, wire, frames[first:end])
                seq += some.count
            first = end


def _frame_lines(seq: int, t: int, wire: StreamFrames, texts: Iterable[str]) -> Iterator[FrameLine]:
    for number, text in enumerate(texts, seq):
        yield FrameLine(seq=number, t=t, link=wire.link, dir=wire.dir, dialect=wire.dialect, text=text)


Item = Line | FrameRun | Stream
"""A frame, event or command of a step; or many alike ones."""


def lines_of(items: Iterable[Item]) -> Iterable[Line]:
    """The lines, those of runs each by itself."""
    for line in items:
        if isinstance(line, FrameLine | EventLine):
            yield line
        else:
            yield from line.lines()


def count(line: Item) -> int:
    """How many lines it stands for."""
    if isinstance(line, FrameRun):
        return len(line.words)
    if isinstance(line, Stream):
        return len(line.texts) * (len(line.wires) + 1)
    return 1
