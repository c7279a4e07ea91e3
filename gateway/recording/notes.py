"""What happened in a session since its lines were last written: noted at once, and made into lines many at a time.

It is noted by steps: what one read of a connection brought about, for which no time passes. What is alike becomes one
line of the file (a stream, a run) where it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import structs

from gateway.recording.alike import frame_lines
from gateway.recording.lines import EventLine, frame_line
from gateway.recording.note import FramesNote, Note, Step
from gateway.recording.runs import Stored, Stream, count
from gateway.recording.streams import StreamNote, begun
from mappings.canonical import Batch
from mappings.dialect import Frame, Parts

__all__ = ["Notes"]

LINES_MAX, SIZE_MAX = 512, 1 << 20  # lines, and bytes of frames, that are much
FEW = 4  # deltas without frames that are no stream


class Notes:
    """Of one recording, in their order. `count` is how many lines they stand for."""

    def __init__(self) -> None:
        self.count = 0
        self._size = 0  # bytes of their frames, as long as they are few
        self._seq = 1  # of the next line that is made
        self._notes: list[Step | StreamNote] = []
        self._stream: StreamNote | None = None  # the last of them, or what could go on after those that were taken

    def add(self, t: int, step: Sequence[Note]) -> bool:
        """All that happened in a step, at `t` (µs). Whether there is much now, so that it is time to take it."""
        stream = self._stream
        lines = stream.takes(t, step) if stream is not None else 0
        if not lines:
            stream = begun(step)
            lines = stream.takes(t, step) if stream is not None else 0
            stream = self._stream = stream if lines else None
        self.count += lines or sum(map(_lines_of, step))
        if stream is None:
            self._notes.append(Step(t, step))
            if self.count < LINES_MAX:
                self._size += sum([_size(note.frames) for note in step if isinstance(note, FramesNote)])
        elif not self._notes or self._notes[-1] is not stream:
            self._notes.append(stream)
        return self.count >= LINES_MAX or self._size >= SIZE_MAX

    def take(self) -> list[Stored]:
        """The lines of all notes since the last time."""
        notes, self._notes = self._notes, []
        self.count = self._size = 0
        lines: list[Stored] = []
        for note in notes:
            for line in _streamed(note, self._seq) if isinstance(note, StreamNote) else _lines(note, self._seq):
                lines.append(line)
                self._seq = line.seq + count(line)
        return lines


def _streamed(note: StreamNote, seq: int) -> Iterator[Stored]:
    """What is stored of a stream; where its frames are not alike after all it is as any other steps."""
    stream = note.stream(seq)
    if stream is not None:
        yield stream
    else:
        for step in note.steps():
            yield from _lines(step, seq)
            seq += sum(map(_lines_of, step.notes))
    note.clear()


def _lines_of(note: Note) -> int:
    """How many lines a note stands for."""
    if isinstance(note, FramesNote):
        return len(note.frames)
    return len(note.events) if isinstance(note, Batch) else 1


def _lines(step: Step, seq: int) -> Iterator[Stored]:
    """What is stored of a step; the first line has this seq."""
    t = step.t
    for note in step.notes:
        if isinstance(note, FramesNote):
            if len(note.frames) == 1:
                yield frame_line(seq, t, *note.tapped, note.frames[0])
            else:
                yield from frame_lines(seq, t, *note.tapped, note.frames)
            seq += len(note.frames)
        elif isinstance(note, Batch):
            yield from _events(seq, t, note)
            seq += len(note.events)
        else:
            yield structs.replace(note, seq=seq, t=t)
            seq += 1


def _events(seq: int, t: int, batch: Batch) -> Iterator[EventLine | Stream]:
    """Deltas in a row are a stream, even where their frames are not alike."""
    turn, origin, at, position = batch.turn, batch.origin, batch.at, batch.first_seq
    for _, some in groupby(batch.events, type):
        events = list(some)
        part = structs.replace(batch, events=events, first_seq=position)
        stream = begun((part,)) if len(events) >= FEW else None
        if stream is not None and stream.takes(t, (part,)) and (line := stream.stream(seq)) is not None:
            yield line
        else:
            for n, event in enumerate(events):
                cursor = f"{batch.epoch}:{position + n}"
                yield EventLine(seq=seq + n, t=t, cursor=cursor, event=event, turn=turn, origin=origin, at=at)
        seq += len(events)
        position += len(events)


def _size(frames: Sequence[Frame]) -> int:
    try:
        return sum(map(len, frames))  # type: ignore[arg-type]  # most are bytes
    except TypeError:
        return sum(len(part) for frame in frames if isinstance(frame, Parts) for part in frame.parts)
