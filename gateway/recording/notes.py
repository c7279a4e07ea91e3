"""What happened in a session since its lines were last written: noted at once, and dealt with many at a time.

A note costs the traffic next to nothing. What came together becomes one line of the file (a run), as far as it can;
that is found out when the lines are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from msgspec import Struct, structs

from gateway.recording.format import EventLine, EventRun, FrameLine, Stored, frame_line
from gateway.recording.runs import frame_lines
from mappings.canonical import Batch
from mappings.dialect import Frame

__all__ = ["Notes"]


class _Frames(Struct, gc=False):
    """Several that came or went together."""

    seq: int
    t: int
    link: str
    dir: Literal["receive", "send"]
    dialect: str
    frames: Sequence[Frame]


class _Happened(Struct, gc=False):
    """A batch of several events."""

    seq: int
    t: int
    batch: Batch


class Notes:
    """Of one recording, in their order. `count` is how many lines they stand for."""

    def __init__(self) -> None:
        self.count = 0
        self._seq = 0  # of the last line
        self._notes: list[FrameLine | EventLine | _Frames | _Happened] = []
        self._several = False  # some of them are several lines

    def frames(
        self, t: int, link: str, dir: Literal["receive", "send"], dialect: str, frames: Sequence[Frame]
    ) -> None:  # fmt: skip
        """These frames were received from `link`, or sent to it."""
        number = len(frames)
        if number == 1:
            self._notes.append(frame_line(self._seq + 1, t, link, dir, dialect, frames[0]))
        else:
            self._notes.append(_Frames(self._seq + 1, t, link, dir, dialect, frames))
            self._several = True
        self._seq += number
        self.count += number

    def batch(self, t: int, batch: Batch) -> None:
        """These events were added to the session's log."""
        number = len(batch.events)
        if number == 1:
            cursor, event = f"{batch.epoch}:{batch.first_seq}", batch.events[0]
            turn, origin, at = batch.turn, batch.origin, batch.at
            line = EventLine(seq=self._seq + 1, t=t, cursor=cursor, event=event, turn=turn, origin=origin, at=at)
            self._notes.append(line)
        else:
            self._notes.append(_Happened(self._seq + 1, t, batch))
            self._several = True
        self._seq += number
        self.count += number

    def line(self, line: EventLine) -> None:
        """This happened too; it gets its number here."""
        self._seq += 1
        self.count += 1
        self._notes.append(structs.replace(line, seq=self._seq))

    def take(self) -> Sequence[Stored]:
        """The lines of all notes since the last time."""
        notes, several = self._notes, self._several
        self._notes, self._several, self.count = [], False, 0
        return list(_lines(notes)) if several else notes  # type: ignore[return-value]  # then each is a line


def _lines(notes: Sequence[FrameLine | EventLine | _Frames | _Happened]) -> Iterator[Stored]:
    for note in notes:
        if isinstance(note, _Frames):
            yield from frame_lines(note.seq, note.t, note.link, note.dir, note.dialect, note.frames)
        elif isinstance(note, _Happened):
            yield from _events(note.seq, note.t, note.batch)
        else:
            yield note


def _events(seq: int, t: int, batch: Batch) -> Iterator[EventLine | EventRun]:
    """Events of one kind in a row are a run."""
    turn, origin, at = batch.turn, batch.origin, batch.at
    position = batch.first_seq
    for _, some in groupby(batch.events, type):
        events, cursor = list(some), f"{batch.epoch}:{position}"
        if len(events) == 1:
            yield EventLine(seq=seq, t=t, cursor=cursor, event=events[0], turn=turn, origin=origin, at=at)
        else:
            yield EventRun(seq=seq, t=t, cursor=cursor, events=events, turn=turn, origin=origin, at=at)
        seq += len(events)
        position += len(events)
