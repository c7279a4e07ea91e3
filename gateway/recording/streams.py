"""A stream that is being noted: rounds of frames that came, deltas that they meant, and frames that they went out in.

A round is what one read of a connection brought about. Rounds in a row are a stream if each of their frames is the text
of its delta, as JSON, with the same around it; that is not believed but compared, byte by byte, for many at once when
the notes are taken. Most of what a recording holds is such a stream, and it would be fifteen times as large.

For a round that is but one token everything here counts that is called: it is noted by columns, and with few calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import structs

from gateway.recording.note import FramesNote, Note, Step, Tapped
from gateway.recording.runs import Round, Stream, Wire
from mappings.canonical import Batch
from mappings.canonical.events import ReasoningDelta, TextDelta, ToolOutputDelta
from mappings.dialect import Frame

__all__ = ["StreamNote", "begun"]

SLICE = 256  # frames that are compared at once: they fit the processor's cache
SAMPLE, LONGEST = 16, 3  # texts of which the longest are looked for in their frames

DELTAS = frozenset({TextDelta, ReasoningDelta, ToolOutputDelta})

Around = list[list[bytes]]
"""What stands around the texts of a frame; where its time stands in that, what stands around the time."""

_encode_lines = msgspec.json.Encoder().encode_lines


class StreamNote:
    """Rounds of one text, all of them noted in one order: frames that were received, if any; deltas; frames sent."""

    __slots__ = (
        "_ats", "_batch", "_call", "_columns", "_counts", "_kind", "_origin", "_place", "_position", "_texts",
        "_times", "_turn", "_width",
    )  # fmt: skip

    def __init__(self, step: Sequence[Note], place: int, batch: Batch) -> None:
        delta: Any = batch.events[0]
        self._kind = type(delta)
        self._call = delta.call if self._kind is ToolOutputDelta else None
        self._batch = structs.replace(batch, events=[structs.replace(delta, text="")])
        self._turn, self._origin = batch.turn, batch.origin
        self._position = batch.first_seq  # in the log, of the next event
        self._place = place  # of the deltas in a round
        self._width = len(step)
        self._columns = [_Column(at, note.tapped) for at, note in enumerate(step) if isinstance(note, FramesNote)]
        self._texts: list[str] = []
        self._counts: list[int] = []  # round by round
        self._times: list[int] = []
        self._ats: list[int] = []

    def takes(self, t: int, step: Sequence[Note]) -> int:
        """Take what was noted in a step at `t` (µs), if it is one more round: how many lines it stands for, or 0."""
        batch = step[self._place] if len(step) == self._width else None
        if type(batch) is not Batch or batch.first_seq != self._position or batch.turn != self._turn:
            return 0
        if (batch.origin is not self._origin and batch.origin != self._origin) or batch.epoch != self._batch.epoch:
            return 0
        deltas: Sequence[Any] = batch.events
        count = len(deltas)
        for column in self._columns:
            note = step[column.place]
            if type(note) is not FramesNote or note.tapped is not column.tapped or len(note.frames) != count:
                return 0
        if count == 1:
            delta = deltas[0]
            if type(delta) is not self._kind or delta.ext is not None:
                return 0
            if self._call is not None and delta.call != self._call:
                return 0
            self._texts.append(delta.text)
        elif self._are_alike(deltas):
            self._texts += [delta.text for delta in deltas]
        else:
            return 0
        for column in self._columns:
            column.frames += step[column.place].frames  # type: ignore[union-attr]  # a FramesNote, as was seen
        self._counts.append(count)
        self._times.append(t)
        self._ats.append(batch.at)
        self._position += count
        return count * self._width

    def stream(self, seq: int) -> Stream | None:
        """All that was taken, its first line `seq`; None if its frames are not alike."""
        quoted = _encode_lines(self._texts)[:-1].split(b"\n")  # JSON has no newline in a text
        wires: list[Wire] = []
        for column in self._columns:
            wire = column.wire(quoted, self._counts, self._ats)
            if wire is None:
                return None
            wires.append(wire)
        batch = self._batch
        return Stream(
            seq=seq, cursor=f"{batch.epoch}:{self._position - len(quoted)}", event=batch.events[0],  # type: ignore[arg-type]  # a delta
            texts=self._texts, rounds=list(map(Round, self._counts, self._times, self._ats)), wires=wires,
            turn=batch.turn, origin=batch.origin,
        )  # fmt: skip

    def steps(self) -> Iterator[Step]:
        """All that was taken, as it was."""
        batch = self._batch
        delta: Any = batch.events[0]
        first, position = 0, self._position - len(self._texts)
        for count, t, at in zip(self._counts, self._times, self._ats, strict=True):
            end = first + count
            events = [structs.replace(delta, text=text) for text in self._texts[first:end]]
            notes: list[Note] = [FramesNote(column.tapped, column.frames[first:end]) for column in self._columns]
            notes.insert(self._place, structs.replace(batch, events=events, first_seq=position + first, at=at))
            yield Step(t, notes)
            first = end

    def clear(self) -> None:
        """Forget what was taken: what comes goes on from there."""
        self._texts, self._counts, self._times, self._ats = [], [], [], []
        for column in self._columns:
            column.frames = []

    def _are_alike(self, deltas: Sequence[Any]) -> bool:
        return (
            set(map(type, deltas)) == {self._kind}
            and [delta.ext for delta in deltas].count(None) == len(deltas)
            and (self._call is None or {delta.call for delta in deltas} == {self._call})
        )


def begun(step: Sequence[Note]) -> StreamNote | None:
    """A stream that may begin with what was noted in this step; None if that is no round of one."""
    place = 0 if isinstance(step[0], Batch) else 1
    batch = step[place] if place < len(step) else None
    if not isinstance(batch, Batch) or type(batch.events[0]) not in DELTAS:
        return None
    for number, note in enumerate(step):
        if number != place and (not isinstance(note, FramesNote) or (note.tapped.dir == "send") is (number < place)):
            return None
    return StreamNote(step, place, batch)


# -- frames -------------------------------------------------------------------------------------------------


class _Column:
    """The frames on one wire, noted at the same `place` in each round."""

    __slots__ = ("_around", "frames", "place", "tapped")

    def __init__(self, place: int, tapped: Tapped) -> None:
        self.place = place
        self.tapped = tapped
        self.frames: list[Any] = []
        self._around: Around = []

    def wire(self, quoted: Sequence[bytes], counts: Sequence[int], ats: Sequence[int]) -> Wire | None:
        """What they have around these texts; None if they are not alike. The times (ns) are of so many of them each."""
        times = [b"%d" % (at // 1_000_000) for at in ats]
        if len(times) < len(quoted):
            times = [time for time, count in zip(times, counts, strict=True) for time in [time] * count]
        if not self._are(self._around, quoted, times):
            self._around = _around(self.frames, quoted, times)
            if not self._are(self._around, quoted, times):
                return None
        link, direction, dialect = self.tapped
        around = [[piece.decode() for piece in pieces] for pieces in self._around]
        return Wire(link=link, dir=direction, dialect=dialect, around=around)

    def _are(self, around: Around, quoted: Sequence[bytes], times: Sequence[bytes]) -> bool:
        """Whether this stands around each text, and around its time."""
        if not around:
            return False
        if len(set(times)) == 1:
            around = [[times[0].join(pieces)] for pieces in around]
        frames = self.frames
        return all(
            b"\n".join(frames[at : at + SLICE]) == _lines(around, quoted[at : at + SLICE], times[at : at + SLICE])
            for at in range(0, len(frames), SLICE)
        )


def _around(frames: Sequence[Frame], quoted: Sequence[bytes], times: Sequence[bytes]) -> Around:
    """What the first frames have around their texts, and there around their times; nothing if that cannot be."""
    if not {bytes}.issuperset(map(type, frames)) or b"\n" in b"".join(frames[:SAMPLE]):  # type: ignore[arg-type]  # bytes
        return []
    samples: dict[bytes, tuple[Any, bytes]] = {}
    for text, frame, time in zip(quoted[:SAMPLE], frames, times, strict=False):
        samples[text] = frame, time
    # Where a text is said by chance elsewhere in its frame it cuts that into more parts than others do.
    longest = sorted(samples, key=len)[-LONGEST:]
    text = min(longest, key=lambda text: samples[text][0].count(text))
    frame, time = samples[text]
    parts = frame.split(text)
    return [part.split(time) for part in parts] if len(parts) > 1 and _is_text(frame) else []


def _is_text(frame: bytes) -> bool:
    try:
        frame.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(around: Around, quoted: Sequence[bytes], times: Sequence[bytes]) -> bytes:
    """Frames of these texts and times, one a line. None is made by itself, for there are very many of them."""
    fixed: list[bytes] = []
    slots: list[Sequence[bytes]] = []
    for pieces in around:
        slots += [quoted, *([times] * (len(pieces) - 1))]
        fixed += pieces
    first, *others, last = fixed
    row = [piece for part in (*others, last + b"\n" + first) for piece in (b"", part)]
    rows = row * len(quoted)
    for slot, values in enumerate(slots[1:]):
        rows[2 * slot :: len(row)] = values
    rows[-1] = last
    return first + b"".join(rows)
