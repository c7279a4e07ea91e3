"""What happened in a session since its lines were last written: noted at once, and made into lines many at a time.

It is noted by steps: what one read of a connection brought about, for which no time passes. What is alike becomes one
line of the file (a stream, a run) where it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import structs

from dragoman.gateway.recording.alike import frame_lines
from dragoman.gateway.recording.lines import EventLine, frame_line
from dragoman.gateway.recording.note import FramesNote, Note, Step
from dragoman.gateway.recording.runs import Item, Stream, count
from dragoman.gateway.recording.streams import Row, rounds_of, row_of, step_of, stream_of
from dragoman.mappings.canonical import Batch
from dragoman.mappings.dialect import Frame, Parts

__all__ = ["Notes"]

LINES_MAX, SIZE_MAX = 512, 1 << 20  # lines, and bytes of frames, that are much
FEW = 4  # deltas without frames that are no stream


class Notes:
    """Of one recording, in their order. `count` is how many lines they stand for."""

    __slots__ = ("_notes", "_rows", "_seq", "_size", "count")

    def __init__(self) -> None:
        self.count = 0
        self._size = 0  # bytes of their frames and characters of their texts, as long as they are few
        self._rows: list[Row] | None = None  # the last of the notes, if it is rounds
        self._notes: list[Step | list[Row]] = []
        self._seq = 1  # of the next line that is made

    def add(self, t: int, step: Sequence[Note]) -> bool:
        """All that happened in a step, at `t` (µs). Whether there is much now, so that it is time to take it."""
        row = row_of(t, step)
        if row is None:
            self._rows = None
            self._notes.append(Step(t, step))
            self.count += sum(map(_lines_of, step))
            if self.count < LINES_MAX:
                self._size += sum([_size(note.frames) for note in step if isinstance(note, FramesNote)])
        else:
            if self._rows is None:
                self._rows = []
                self._notes.append(self._rows)
            self._rows.append(row)
            if type(text := row[3]) is str:
                self.count += len(step)
                self._size += len(text) + _size(row[11::2])
            else:
                self.count += len(step) * len(text)
                if self.count < LINES_MAX:
                    self._size += sum(map(len, text)) + sum(map(_size, row[11::2]))
        return self.count >= LINES_MAX or self._size >= SIZE_MAX

    @property
    def streams(self) -> bool:
        """Whether the last of them are a text that streams."""
        return self._rows is not None

    def take(self) -> list[Item]:
        """The lines of all notes since the last time."""
        notes, self._notes, self._rows = self._notes, [], None
        self.count = self._size = 0
        lines: list[Item] = []
        for note in notes:
            for line in _lines(note, self._seq) if isinstance(note, Step) else _streams(note, self._seq):
                lines.append(line)
                self._seq = line.seq + count(line)
        return lines


def _streams(rows: Sequence[Row], seq: int) -> Iterator[Item]:
    """What is stored of rounds; where their frames are not alike they are as any other steps."""
    for rounds, columns in rounds_of(rows):
        stream = stream_of(columns, seq)
        if stream is not None:
            yield stream
            seq += count(stream)
            continue
        for step in map(step_of, rounds):
            yield from _lines(step, seq)
            seq += sum(map(_lines_of, step.notes))


def _lines_of(note: Note) -> int:
    """How many lines a note stands for."""
    if isinstance(note, FramesNote):
        return len(note.frames)
    return len(note.events) if isinstance(note, Batch) else 1


def _lines(step: Step, seq: int) -> Iterator[Item]:
    """What is stored of a step; the first line has this seq."""
    t, notes = step.t, step.notes
    if len(notes) > 1:  # frames that were sent stand last in their step
        sent = [note for note in notes if type(note) is FramesNote and note.tapped.dir == "send"]
        if sent:
            others = [note for note in notes if type(note) is not FramesNote or note.tapped.dir != "send"]
            notes = [*others, *sent]
    for note in notes:
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
        row = row_of(t, (part,)) if len(events) >= FEW else None
        if row is not None and (stream := stream_of([(one,) for one in row], seq)) is not None:
            yield stream
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
