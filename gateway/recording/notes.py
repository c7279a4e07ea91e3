"""What happened in a session since its lines were last written: noted at once, and made into lines many at a time.

A note costs the traffic next to nothing. What came together becomes one line of the file (a run), as far as it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from msgspec import Struct, structs

from gateway.recording.format import EventLine, EventRun, Stored, frame_line
from gateway.recording.runs import frame_lines
from mappings.canonical import Batch
from mappings.dialect import Frame, Parts

__all__ = ["Notes"]


class _Frames(Struct, gc=False):
    t: int
    link: str
    dir: Literal["receive", "send"]
    dialect: str
    frames: Sequence[Frame]


class _Happened(Struct, gc=False):
    t: int
    batch: Batch


class Notes:
    """Of one recording, in their order. `count` is how many lines they stand for, `size` the bytes of their frames."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._seq = 0  # of the last line that was made
        self._notes: list[_Frames | _Happened | EventLine] = []

    def frames(
        self, t: int, link: str, dir: Literal["receive", "send"], dialect: str, frames: Sequence[Frame]
    ) -> None:  # fmt: skip
        """These frames were received from `link`, or sent to it."""
        self._notes.append(_Frames(t, link, dir, dialect, frames))
        self.count += len(frames)
        self.size += _size(frames)

    def batch(self, t: int, batch: Batch) -> None:
        """These events were added to the session's log."""
        self._notes.append(_Happened(t, batch))
        self.count += len(batch.events)

    def line(self, line: EventLine) -> None:
        """This happened too; its number comes later."""
        self._notes.append(line)
        self.count += 1

    def take(self) -> list[Stored]:
        """The lines of all notes since the last time."""
        notes, self._notes = self._notes, []
        self.count = self.size = 0
        lines: list[Stored] = []
        seq = self._seq + 1
        for note in notes:
            if isinstance(note, _Frames):
                frames = note.frames
                if len(frames) == 1:
                    lines.append(frame_line(seq, note.t, note.link, note.dir, note.dialect, frames[0]))
                else:
                    lines += frame_lines(seq, note.t, note.link, note.dir, note.dialect, frames)
                seq += len(frames)
            elif isinstance(note, _Happened):
                batch = note.batch
                if len(batch.events) == 1:
                    lines.append(_event(seq, note.t, batch))
                else:
                    lines += _events(seq, note.t, batch)
                seq += len(batch.events)
            else:
                lines.append(structs.replace(note, seq=seq))
                seq += 1
        self._seq = seq - 1
        return lines


def _event(seq: int, t: int, batch: Batch) -> EventLine:
    return EventLine(
        seq=seq, t=t, cursor=f"{batch.epoch}:{batch.first_seq}", event=batch.events[0], turn=batch.turn,
        origin=batch.origin, at=batch.at,
    )  # fmt: skip


def _events(seq: int, t: int, batch: Batch) -> Iterator[EventLine | EventRun]:
    """Events of one kind in a row are a run."""
    turn, origin, at = batch.turn, batch.origin, batch.at
    position = batch.first_seq
    if len(set(map(type, batch.events))) == 1:
        cursor = f"{batch.epoch}:{position}"
        yield EventRun(seq=seq, t=t, cursor=cursor, events=batch.events, turn=turn, origin=origin, at=at)
        return
    for _, some in groupby(batch.events, type):
        events, cursor = list(some), f"{batch.epoch}:{position}"
        if len(events) == 1:
            yield EventLine(seq=seq, t=t, cursor=cursor, event=events[0], turn=turn, origin=origin, at=at)
        else:
            yield EventRun(seq=seq, t=t, cursor=cursor, events=events, turn=turn, origin=origin, at=at)
        seq += len(events)
        position += len(events)


def _size(frames: Sequence[Frame]) -> int:
    try:
        return sum(map(len, frames))  # type: ignore[arg-type]  # most are bytes
    except TypeError:
        return sum(len(part) for frame in frames if isinstance(frame, Parts) for part in frame.parts)
