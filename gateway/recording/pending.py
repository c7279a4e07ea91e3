"""Steps on their way into a recording: what happened is noted at once, and made into items many at a time.

A step is what one read of a connection brought about. A step that may be part of a streamed text is noted as a row.
Rows in a row are folded into a Stream if every frame is the text of its delta, as JSON, with the same strings around
it. That is compared byte by byte, for many frames at once. Most of a recording is such streams; without folding it
would be fifteen times as large. Other frames of one step that differ in one word are folded into a FrameRun.

Often a step is one token of one of hundreds of sessions, whose data is not in the processor's cache. So a row is noted
without a look at the rows before it; whether it continues them is seen when the steps are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby, repeat
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, structs

from dragoman.gateway.recording.lines import EventLine, FrameLine, frame_line
from dragoman.gateway.recording.runs import FrameRun, Item, Round, Stream, StreamFrames, count
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta, ToolOutputDelta
from dragoman.mappings.dialect import Frame, Parts

__all__ = [
    "LINES_MAX",
    "SIZE_MAX",
    "FramesNote",
    "Note",
    "PendingSteps",
    "TapPoint",
    "frame_lines",
    "rounds_of",
    "row_of",
    "step_of",
    "stream_of",
]


class TapPoint(NamedTuple):
    """The place where frames are recorded: one direction of one link, and its dialect."""

    link: str
    dir: Literal["receive", "send"]
    dialect: str


class FramesNote(Struct, gc=False):
    """Frames observed at one tap point."""

    tapped: TapPoint
    frames: Sequence[Frame]


Note = FramesNote | Batch | EventLine
"""Frames, events that were added to the session's log, or another command or event without its seq and t."""


class Step(Struct, gc=False):
    """One step: what happened at `t` (µs)."""

    t: int
    notes: Sequence[Note]


# -- what is pending -------------------------------------------------------------------------------------------------

LINES_MAX, SIZE_MAX = 512, 1 << 20  # lines, and bytes of frames, that are much
STREAM_MIN = 4  # deltas without frames that are no stream


class PendingSteps:
    """The steps of one recording that were not written yet, in their order. `count` is the number of their items."""

    __slots__ = ("_notes", "_rows", "_seq", "_size", "count")

    def __init__(self) -> None:
        self.count = 0
        self._size = 0  # bytes of their frames and characters of their texts, as long as they are few
        self._rows: list[Row] | None = None  # the last of the notes, if it is rounds
        self._notes: list[Step | list[Row]] = []
        self._seq = 1  # of the next line that is made

    def add(self, t: int, step: Sequence[Note]) -> bool:
        """Add a step at `t` (µs). Return True if so much is pending that it should be taken now."""
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
        """Return True if the last steps are a text that streams."""
        return self._rows is not None

    def take(self) -> list[Item]:
        """Return the items of all steps since the last call."""
        notes, self._notes, self._rows = self._notes, [], None
        self.count = self._size = 0
        lines: list[Item] = []
        for note in notes:
            for line in _lines(note, self._seq) if isinstance(note, Step) else _streams(note, self._seq):
                lines.append(line)
                self._seq = line.seq + (1 if type(line) is EventLine or type(line) is FrameLine else count(line))
        return lines


def _streams(rows: Sequence[Row], seq: int) -> Iterator[Item]:
    """Return rows folded into streams; rows whose frames are not alike become plain steps."""
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
    """Return the number of items of a note."""
    if isinstance(note, FramesNote):
        return len(note.frames)
    return len(note.events) if isinstance(note, Batch) else 1


def _lines(step: Step, seq: int) -> list[Item]:
    """Return the items of a step, numbered from `seq`: frames that were sent stand last."""
    t, notes, items = step.t, step.notes, list[Item]()
    if len(notes) > 1:  # frames that were sent stand last in their step
        sent = [note for note in notes if type(note) is FramesNote and note.tapped.dir == "send"]
        if sent:
            others = [note for note in notes if type(note) is not FramesNote or note.tapped.dir != "send"]
            notes = [*others, *sent]
    for note in notes:
        if isinstance(note, FramesNote):
            if len(note.frames) == 1:
                items.append(frame_line(seq, t, *note.tapped, note.frames[0]))
            else:
                items += frame_lines(seq, t, *note.tapped, note.frames)
            seq += len(note.frames)
        elif isinstance(note, Batch):
            items += _events(seq, t, note)
            seq += len(note.events)
        else:
            items.append(structs.replace(note, seq=seq, t=t))
            seq += 1
    return items


def _events(seq: int, t: int, batch: Batch) -> list[EventLine | Stream]:
    """Return the events of a batch. Deltas in a row are folded even if their frames are not alike."""
    turn, origin, at, position = batch.turn, batch.origin, batch.at, batch.first_seq
    items: list[EventLine | Stream] = []
    for _, some in groupby(batch.events, type):
        events = list(some)
        part = structs.replace(batch, events=events, first_seq=position)
        row = row_of(t, (part,)) if len(events) >= STREAM_MIN else None
        if row is not None and (stream := stream_of([(one,) for one in row], seq)) is not None:
            items.append(stream)
        else:
            for n, event in enumerate(events):
                cursor = f"{batch.epoch}:{position + n}"
                items.append(EventLine(seq=seq + n, t=t, cursor=cursor, event=event, turn=turn, origin=origin, at=at))
        seq += len(events)
        position += len(events)
    return items


def _size(frames: Sequence[Frame]) -> int:
    try:
        return sum(map(len, frames))  # type: ignore[arg-type]  # most are bytes
    except TypeError:
        return sum(len(part) for frame in frames if isinstance(frame, Parts) for part in frame.parts)


# -- steps of a streamed text ----------------------------------------------------------------------------------------

SLICE = 256  # frames that are compared at once: they fit the processor's cache
SAMPLE, LONGEST = 16, 3  # texts of which the longest are looked for in their frames

DELTAS = frozenset({TextDelta, ReasoningDelta, ToolOutputDelta})

Row = tuple[Any, ...]
"""A round: its t; where it stands in the log, its time and its text; what it has in common with the next one: epoch,
turn, origin, kind and call of the delta, and the place of that in the step; then for each wire where it was tapped, and
the frame. With more than one delta texts and frames are lists.
"""

Columns = Sequence[Sequence[Any]]

_encode_lines = msgspec.json.Encoder().encode_lines


# -- rows ---------------------------------------------------------------------------------------------------


def row_of(t: int, step: Sequence[Note]) -> Row | None:
    """Return a step at `t` (µs) as a row if it may be a round of a stream, else None. Other steps are not examined."""
    place = 0 if type(step[0]) is Batch else 1
    batch = step[place] if place < len(step) else None
    if type(batch) is not Batch:
        return None
    deltas: Sequence[Any] = batch.events
    count, kind = len(deltas), type(deltas[0])
    if kind not in DELTAS:
        return None
    call = deltas[0].call if kind is ToolOutputDelta else None
    text: Any
    if count == 1:
        text = deltas[0].text
        if deltas[0].ext is not None:
            return None
    else:
        text = _delta_texts(deltas, kind, call)
        if text is None:
            return None
    row = [t, batch.first_seq, batch.at, text, batch.epoch, batch.turn, batch.origin, kind, call, place]
    for note in step:
        if type(note) is FramesNote and len(note.frames) == count:
            row += (note.tapped, note.frames[0] if count == 1 else note.frames)
        elif note is not batch:
            return None
    return tuple(row)


def rounds_of(rows: Sequence[Row]) -> Iterator[tuple[Sequence[Row], Columns]]:
    """Return consecutive rows that may be rounds of one stream, each group also by columns."""
    try:
        columns = list(zip(*rows, strict=True))
    except ValueError:  # of another number of wires
        columns = []
    if columns and all(map(_is_one, chain(columns[4:10], columns[10::2]))):
        yield rows, columns  # as nearly always
    else:
        for _, some in groupby(rows, lambda row: (row[4:10], row[10::2])):
            rounds = list(some)
            yield rounds, list(zip(*rounds, strict=True))


def _is_one(column: Sequence[object]) -> bool:
    return column.count(column[0]) == len(column)


def stream_of(columns: Columns, seq: int) -> Stream | None:
    """Fold rounds into a stream whose first item is `seq`. Return None if their frames are not alike."""
    times, positions, ats, said, epochs, turns, origins, kinds, calls, places, *wired = columns
    counts = [1 if type(some) is str else len(some) for some in said]
    if list(positions) != list(accumulate(counts[:-1], initial=positions[0])):
        return None
    if len({tapped for tapped, *_ in wired[0::2]}) < len(wired) // 2:  # one link was told of it twice
        return None
    texts: list[str] = _flat(said, counts)
    try:
        quoted = _encode_lines(texts)[:-1].split(b"\n")  # JSON has no newline in a text
        stamps = _stamps(ats, counts)
        samples = _samples(quoted)
        wires: list[StreamFrames] = []
        for (tapped, *_), frames in zip(wired[0::2], wired[1::2], strict=True):
            around = _around(_flat(frames, counts), quoted, stamps, samples)
            if around is None or (tapped.dir == "send") is (len(wires) < places[0]):
                return None
            wires.append(StreamFrames(link=tapped.link, dir=tapped.dir, dialect=tapped.dialect, around=around))
    except UnicodeDecodeError:  # of what stands around
        return None
    event = kinds[0](text="") if calls[0] is None else ToolOutputDelta(text="", call=calls[0])
    return Stream(
        seq=seq,
        cursor=f"{epochs[0]}:{positions[0]}",
        event=event,
        texts=texts,
        wires=wires,
        turn=turns[0],
        origin=origins[0],
        rounds=list(map(Round, counts, times, ats)),
    )


def step_of(row: Row) -> Step:
    """Return the step of a row."""
    t, position, at, text, epoch, turn, origin, kind, call, place, *wired = row
    texts = [text] if type(text) is str else text
    events = [kind(text=text) if call is None else kind(text=text, call=call) for text in texts]
    notes: list[Note] = [
        FramesNote(tapped, [frames] if type(text) is str else frames)
        for tapped, frames in zip(wired[0::2], wired[1::2], strict=True)
    ]
    batch = Batch(session="", epoch=epoch, first_seq=position, events=events, turn=turn, origin=origin, at=at)
    return Step(t, [*notes[:place], batch, *notes[place:]])


def _delta_texts(deltas: Sequence[Any], kind: type, call: str | None) -> list[str] | None:
    """What deltas say that differ in nothing else; None if they do."""
    if len(set(map(type, deltas))) > 1 or [delta.ext for delta in deltas].count(None) != len(deltas):
        return None
    if kind is ToolOutputDelta and {delta.call for delta in deltas} != {call}:
        return None
    return [delta.text for delta in deltas]


def _flat(column: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    """What was noted round by round, one of a kind or a list of so many."""
    if max(counts) == 1:
        return list(column)
    return list(
        chain.from_iterable([(some,) if count == 1 else some for some, count in zip(column, counts, strict=True)])
    )


def _stamps(ats: Sequence[int], counts: Sequence[int]) -> list[bytes]:
    """The time of each delta as frames tell it: ms since the Unix epoch."""
    stamps = _encode_lines([at // 1_000_000 for at in ats])[:-1].split(b"\n")
    return stamps if max(counts) == 1 else list(chain.from_iterable(map(repeat, stamps, counts)))


# -- frames -------------------------------------------------------------------------------------------------


def _samples(quoted: Sequence[bytes]) -> list[int]:
    """The numbers of some texts to look for in their frames: different ones, and long, so that they are rarely there
    by chance.
    """
    different = {text: number for number, text in enumerate(quoted[:SAMPLE])}
    return [different[text] for text in sorted(different, key=len)[-LONGEST:]]


def _around(
    frames: Sequence[Any], quoted: Sequence[bytes], stamps: Sequence[bytes], samples: Sequence[int]
) -> list[list[str]] | None:
    """What stands in each of these frames around its text, and there around its time; None if it is not alike in all.

    UnicodeDecodeError if that is no UTF-8.
    """
    if not {bytes}.issuperset(map(type, frames)):
        return None
    # Where a text is said by chance elsewhere in its frame it cuts that into more parts than others do.
    number = min(samples, key=lambda number: frames[number].count(quoted[number]))
    parts = frames[number].split(quoted[number])
    if len(parts) == 1 or b"\n" in frames[number]:
        return None
    around = [part.split(stamps[number]) for part in parts]
    timed = around
    if stamps[0] == stamps[-1]:
        timed = [[stamps[0].join(pieces)] for pieces in around]
    for at in range(0, len(frames), SLICE):
        end = at + SLICE
        if b"\n".join(frames[at:end]) != _joined(timed, quoted[at:end], stamps[at:end]):
            return None
    return [[piece.decode() for piece in pieces] for pieces in around]


def _joined(around: Sequence[Sequence[bytes]], quoted: Sequence[bytes], stamps: Sequence[bytes]) -> bytes:
    """Frames of these texts and times, one a line. None is made by itself, for there are very many of them."""
    fixed: list[bytes] = []
    slots: list[Sequence[bytes]] = []
    for pieces in around:
        slots += [quoted, *([stamps] * (len(pieces) - 1))]
        fixed += pieces
    first, *others, last = fixed
    row = [piece for part in (*others, last + b"\n" + first) for piece in (b"", part)]
    rows = row * len(quoted)
    for slot, values in enumerate(slots[1:]):
        rows[2 * slot :: len(row)] = values
    rows[-1] = last
    return first + b"".join(rows)


# -- alike frames of one step ----------------------------------------------------------------------------------------

RUN_MIN = 8  # frames of which no run is looked for among others
HALVINGS = 5  # until an odd frame among many has been found, or it is seen that many are odd

Direction = Literal["receive", "send"]


class _Alike(Struct, gc=False):
    """Each frame is its word, joined by what stands around it."""

    around: list[str]
    words: list[str]


def frame_lines(
    seq: int, t: int, link: str, dir: Direction, dialect: str, frames: Sequence[Frame]
) -> Iterator[FrameLine | FrameRun]:
    """The lines of frames that came or went together, as an adapter gave or takes them; the first has this seq."""
    for some in _stretches(frames, HALVINGS):
        if isinstance(some, _Alike):
            yield FrameRun(seq=seq, t=t, link=link, dir=dir, dialect=dialect, around=some.around, words=some.words)
            seq += len(some.words)
            continue
        for frame in some:
            yield frame_line(seq, t, link, dir, dialect, frame)
            seq += 1


def _stretches(frames: Sequence[Frame], halvings: int) -> Iterator[_Alike | Sequence[Frame]]:
    """These frames, as many at once as are alike."""
    alike = _alike(frames) if len(frames) > RUN_MIN else None
    if alike is not None:
        yield alike
    elif halvings and len(frames) > RUN_MIN:
        middle = len(frames) // 2
        yield from _stretches(frames[:middle], halvings - 1)
        yield from _stretches(frames[middle:], halvings - 1)
    else:
        yield frames


def _alike(frames: Sequence[Frame]) -> _Alike | None:
    first = frames[0]
    other = frames[1] if frames[1] != first else frames[-1]
    if not isinstance(first, bytes) or not isinstance(other, bytes):
        return None
    around = _around_word(first.split(b'"'), other.split(b'"'))
    if around is None:
        return None
    try:
        words = _words(frames, around)  # type: ignore[arg-type]  # what is no bytes is seen there
        return _Alike(_as_texts(around), _as_texts(words)) if words is not None else None
    except (TypeError, ValueError):
        return None


def _words(frames: Sequence[bytes], around: Sequence[bytes]) -> Sequence[bytes] | None:
    """The word of each frame, if that is all in which they differ; TypeError if one is no bytes."""
    start, times, fixed = len(around[0]), len(around) - 1, sum(map(len, around))
    if times > 1:
        words = [frame[start : start + (len(frame) - fixed) // times] for frame in frames]
        return words if [word.join(around) for word in words] == list(frames) else None
    before, after = around  # which are found faster in all of the frames at once
    text = b"\n".join(frames)
    if not (text.startswith(before) and text.endswith(after)):
        return None
    words = text[start : len(text) - len(after)].split(after + b"\n" + before)
    return words if len(words) == len(frames) == text.count(b"\n") + 1 else None


def _around_word(one: list[bytes], other: list[bytes]) -> list[bytes] | None:
    """What two frames, split at their quotes, have in common around the one word that differs, said once or more."""
    if len(one) != len(other):
        return None
    slots = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
    if not slots or len({one[at] for at in slots}) > 1:
        return None
    starts, ends = [0, *(at + 1 for at in slots)], [*slots, len(one)]
    parts = [b'"'.join(one[start:end]) for start, end in zip(starts, ends, strict=True)]
    last = len(parts) - 1
    return [(b'"' if at else b"") + part + (b'"' if at < last else b"") for at, part in enumerate(parts)]


def _as_texts(parts: Sequence[bytes]) -> list[str]:
    """Each as text; ValueError if one has a newline in it, or is no UTF-8."""
    texts = b"\n".join(parts).decode().split("\n")
    if len(texts) != len(parts):
        raise ValueError("a newline")
    return texts
