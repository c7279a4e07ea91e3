"""What stands for many lines that are alike (docs/recording.md). Each can be taken apart into these lines again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from dragoman.gateway.recording.lines import Cursor, EventLine, FrameLine, Line, Micros
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta, ToolOutputDelta
from dragoman.mappings.canonical.values import Origin

__all__ = ["EventRun", "FrameRun", "Round", "Stored", "Stream", "Wire", "count", "last_t", "lines_of"]

_ENCODER = msgspec.json.Encoder()


class FrameRun(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind", tag="frames"):
    """Frames that came or went at one time, the first is line `seq`: for each word the frame `word.join(around)`.

    Words stand here as they stood on the wire, with their escapes.
    """

    seq: int
    t: Micros
    link: str
    dir: Literal["receive", "send"]
    dialect: str
    around: Annotated[list[str], Meta(min_length=2)]
    words: Annotated[list[str], Meta(min_length=1)]

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


class Wire(Struct, frozen=True, kw_only=True, gc=False):
    """Where frames of a Stream stood, and what stood in each `around` its text: two parts, or more if it is said again.

    A part is in pieces where the time of the batch stands in it, in ms since the Unix epoch.
    """

    link: str
    dir: Literal["receive", "send"]
    dialect: str
    around: Annotated[list[Annotated[list[str], Meta(min_length=1)]], Meta(min_length=2)]

    def around_at(self, at: int) -> list[str]:
        """What stands around the texts of a batch of that time (ns)."""
        time = str(at // 1_000_000)
        return [time.join(pieces) for pieces in self.around]


class Round(Struct, frozen=True, array_like=True, gc=False):
    """Deltas of a Stream that came together: how many, when (`t`, µs), and the time `at` (ns) of their batch."""

    count: Annotated[int, Meta(ge=1)]
    t: Micros
    at: int


class Stream(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind", tag="stream"):
    """Deltas of one text, with the frames that they came and went in. The first line is `seq`, then come round by round
    the frames received, the events, and the frames sent, wire by wire.

    Each event is `event` with the next of the `texts`; the first stands in the session's log at `cursor`.
    """

    seq: int
    cursor: Cursor
    event: TextDelta | ReasoningDelta | ToolOutputDelta
    texts: Annotated[list[str], Meta(min_length=1)]
    rounds: Annotated[list[Round], Meta(min_length=1)]
    wires: list[Wire] = []
    turn: str = ""
    origin: Origin = Origin()

    def __post_init__(self) -> None:
        """ValueError, which a decoder reports, if it stands for other lines than it says."""
        if self.event.text or self.event.ext is not None:
            raise ValueError("an event that says something itself")
        if sum(some.count for some in self.rounds) != len(self.texts):
            raise ValueError("rounds of another number of texts")
        if len({(wire.link, wire.dir) for wire in self.wires}) != len(self.wires):
            raise ValueError("a wire twice")

    @property
    def t(self) -> int:
        """Of its first line."""
        return self.rounds[0].t

    def frames(self, wire: Wire) -> Iterator[str]:
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
                    seq=seq + n, t=some.t, cursor=f"{epoch}:{cursor + n}", event=made(text=text), turn=self.turn,
                    origin=self.origin, at=some.at,
                )  # fmt: skip
            seq += some.count
            for wire, frames in sent:
                yield from _frame_lines(seq, some.t, wire, frames[first:end])
                seq += some.count
            first = end


def _frame_lines(seq: int, t: int, wire: Wire, texts: Iterable[str]) -> Iterator[FrameLine]:
    for number, text in enumerate(texts, seq):
        yield FrameLine(seq=number, t=t, link=wire.link, dir=wire.dir, dialect=wire.dialect, text=text)


class EventRun(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind", tag="events"):
    """Events of one batch: the first is line `seq` and stands in the session's log at `cursor`.

    Recordings of version 2 have them. Nothing writes them any more.
    """

    seq: int
    t: Micros
    cursor: Cursor
    events: Annotated[list[Event], Meta(min_length=1)]
    turn: str = ""
    origin: Origin = Origin()
    at: int = 0

    def lines(self) -> list[EventLine]:
        """Each as a line of its own."""
        epoch, _, position = self.cursor.partition(":")
        return [
            EventLine(
                seq=self.seq + n, t=self.t, cursor=f"{epoch}:{int(position) + n}", event=event, turn=self.turn,
                origin=self.origin, at=self.at,
            )
            for n, event in enumerate(self.events)
        ]  # fmt: skip


Stored = Line | FrameRun | EventRun | Stream
"""A line of the file."""


def lines_of(stored: Iterable[Stored]) -> Iterable[Line]:
    """The lines, those of runs each by itself."""
    for line in stored:
        if isinstance(line, FrameLine | EventLine):
            yield line
        else:
            yield from line.lines()


def count(line: Stored) -> int:
    """How many lines it stands for."""
    if isinstance(line, FrameRun):
        return len(line.words)
    if isinstance(line, Stream):
        return len(line.texts) * (len(line.wires) + 1)
    return len(line.events) if isinstance(line, EventRun) else 1


def last_t(line: Stored) -> int:
    """When the last of its lines happened."""
    return line.rounds[-1].t if isinstance(line, Stream) else line.t
