"""Collect the steps of a recording as notes, many of which are made into StepLines at once.

A step is what one read of a connection brought about. Consecutive steps that may be part of one streamed text are noted
as a TextRun. It is folded into a StepLine with rounds if every frame is the text of its delta, as JSON, with the same
strings around it. That is compared byte by byte, for many frames at once. The strings in frames to clients are mostly
known when the text begins (mappings/alike.py), so these frames are neither kept nor compared. Most of a recording is
such steps; without folding it would be fifteen times as large.

Often a step is one token of one of hundreds of sessions, whose data is not in the processor's cache. So a token adds
only numbers, texts and bytes to a list: no object of its own is kept for it, which the garbage collector would visit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, compress, repeat, takewhile
from operator import floordiv
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import Struct, structs

from dragoman.gateway.recording.format import (
    Direction,
    EventLine,
    FrameLine,
    Line,
    Round,
    StepLine,
    frame_line,
    in_steps,
    readable,
)
from dragoman.mappings.alike import Around, writer_of
from dragoman.mappings.canonical import Batch, Event
from dragoman.mappings.canonical.events import ToolOutputDelta
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Frame, Parts


class TapPoint(NamedTuple):
    """The point at which frames are recorded: one direction of one link, and its dialect."""

    link: str
    dir: Direction
    dialect: str


class FramesNote(Struct, gc=False):
    """Frames observed at one tap point."""

    tapped: TapPoint
    frames: Sequence[Frame]


STREAMED = frozenset(kind for kind in get_args(Event) if kind.streamed)
"""Events that do not end a text that streams."""

Note = FramesNote | Batch | Line
"""Frames, events that were added to the session's log, or another line."""


# -- what is pending -------------------------------------------------------------------------------------------------

LINES_MAX = 512  # items at which the pending steps should be taken
SIZE_MAX = 256 * 1024
"""Bytes of frames at which the pending steps should be taken: what a session holds that `memory` does not count.

It is 512 bytes for each of LINES_MAX items, so only large frames reach it. A step of 16 KiB takes 47 us with it, 88 us
with 1 MiB, which leaves the processor's cache; smaller steps take the same or less.
"""
STREAM_MIN = 4  # deltas at the beginning of a step that are folded


GatheredStep = tuple[int, int, Sequence[Note]]
"""A step that is not a piece of a text: the number of its first item, its time (µs), and its notes."""


class PendingSteps:
    """The steps of one recording that were not written yet, in their order. `count` is the number of their items.

    `searched` is how many bytes of them must be searched for secrets, one after the other. `common` has the facts that
    a further step must share to continue the text of the last step; None if that was not a piece of a text.
    """

    __slots__ = ("_around", "_run", "_seq", "_size", "_steps", "common", "count", "searched")

    def __init__(self) -> None:
        self._around: KnownAround = {}
        self.count = 0
        self.searched = 0
        self.common: TextSource | None = None
        self._size = 0  # bytes of frames and characters of texts, counted up to LINES_MAX items
        self._run: TextRun | None = None  # the last of the steps, if it may be part of a text
        self._steps: list[GatheredStep | TextRun] = []
        self._seq = 1  # of the first item of them

    def add(self, t: int, step: Sequence[Note]) -> bool:
        """Add a step at `t` (µs). Return True if the pending steps should be taken now, because there are many."""
        run = run_of(t, step)
        if run is None:
            self._run = self.common = None
            self._steps.append((self._seq + self.count, t, step))
            for note in step:
                if type(note) is FramesNote:
                    self.count += len(note.frames)
                    size = _size(note.frames)
                    self._size += size
                    self.searched += size
                else:
                    self.count += len(note.events) if type(note) is Batch else 1
        else:
            text, *frames = run.cells[TEXT:]
            self._add_run(run)
            if type(text) is str:
                self.count += len(step)
                size = len(text)
                self._size += size + _size(frames)
                self.searched += size
            else:
                self.count += len(step) * len(text)
                size = len("".join(text))
                self.searched += size
                if self.count < LINES_MAX:
                    self._size += size + sum(map(_size, frames))
        return self.count >= LINES_MAX or self._size >= SIZE_MAX

    def add_texts(self, run: TextRun, size: int) -> None:
        """Add steps each of which is a lone piece of a text. Their frames have `size` bytes in all."""
        texts = run.column(TEXT)
        characters = len("".join(texts))
        self._add_run(run)
        self.searched += characters
        self.count += len(texts) * (1 + len(run.common.tapped))
        self._size += characters + size

    def _add_run(self, run: TextRun) -> None:
        """Add a run, which may continue the one with which the pending steps end."""
        last = self._run
        if last is not None and run.continues(last):
            last.cells += run.cells
            last.around = last.around or run.around
        else:
            run.seq = self._seq + self.count
            self._run, self.common = run, run.common
            self._steps.append(run)

    @property
    def size(self) -> int:
        """Return the bytes of frames and texts that wait, or those that must be searched if they are more."""
        return max(self._size, self.searched)

    @property
    def streams(self) -> bool:
        """Return True if the last steps are a text that streams."""
        return self._run is not None

    def take(self) -> Callable[[], list[StepLine]]:
        """Take all steps since the last call. Return the function that makes StepLines of them, in any thread."""
        steps, self._steps, self._run = self._steps, [], None
        self._seq += self.count
        self.count = self._size = self.searched = 0
        return partial(_make_lines, steps, self._around)


def _make_lines(steps: Sequence[GatheredStep | TextRun], around: KnownAround) -> list[StepLine]:
    """Return the StepLines of gathered steps.

    `around` has the strings around earlier texts; those of these steps are added.
    """
    lines: list[StepLine] = []
    for step in steps:
        for line in _folded(step, around) if isinstance(step, TextRun) else _text_and_rest(*step, around):
            lines += readable(line)
    return lines


def _size(frames: Sequence[Frame]) -> int:
    try:
        return sum(map(len, frames))  # type: ignore[arg-type]  # most are bytes
    except TypeError:
        return sum(len(part) for frame in frames if isinstance(frame, Parts) for part in frame.parts)


def _text_and_rest(seq: int, t: int, notes: Sequence[Note], around: KnownAround) -> list[StepLine]:
    """Return the StepLines of a step. A text with which its events begin is folded, as if it had come alone."""
    batch = next((note for note in notes if type(note) is Batch), None)
    events: Sequence[Event] = batch.events if batch is not None else ()
    length = len([*takewhile(lambda event: type(event) is type(events[0]), events)])
    if batch is None or length < STREAM_MIN or not events[0].streamed:
        return _step_lines(seq, t, notes)
    text, rest = list[Note](), list[Note]()
    for note in notes:
        if type(note) is FramesNote and len(note.frames) >= length:
            text.append(FramesNote(note.tapped, note.frames[:length]))
            if len(note.frames) > length:
                rest.append(FramesNote(note.tapped, note.frames[length:]))
        elif note is batch:
            text.append(structs.replace(batch, events=events[:length]))
            rest.append(structs.replace(batch, events=events[length:], first_seq=batch.first_seq + length))
        else:
            rest.append(note)
    run = run_of(t, text)
    if run is None or (line := _step_with_rounds(run, around)) is None:
        return _step_lines(seq, t, notes)
    return [structs.replace(line, seq=seq), *_step_lines(seq + line.count, t, rest)]


def _step_lines(seq: int, t: int, notes: Sequence[Note]) -> list[StepLine]:
    """Return the StepLines of a step, numbered from `seq`: frames that were sent stand last."""
    entries: list[Line] = []
    sent: list[Line] = []
    for note in notes:
        if isinstance(note, FramesNote):
            lines = sent if note.tapped.dir == "send" else entries
            lines += [frame_line(*note.tapped, frame) for frame in note.frames]
        elif isinstance(note, Batch):
            for position, event in enumerate(note.events, note.first_seq):
                cursor = f"{note.epoch}:{position}"
                entries.append(EventLine(cursor=cursor, event=event, turn=note.turn, origin=note.origin, at=note.at))
        else:
            entries.append(note)
    return in_steps(seq, t, entries + sent)


# -- steps of a streamed text ----------------------------------------------------------------------------------------

KNOWN_MAX = 64  # tap points whose last text is known: links of clients come and go
SLICE = 256  # frames that are compared at once: they fit the processor's cache
SAMPLE, LONGEST = 16, 3  # texts of which the longest are looked for in their frames

KnownAround = dict[TapPoint, tuple[Around, FrameLine]]
"""The strings around the last text of each tap point, in pieces around its time: as bytes, and as they are written."""

_encode_lines = msgspec.json.Encoder().encode_lines


class TextSource(NamedTuple):
    """The facts that all steps of one text share. `call` is that of the output of a tool, else None.

    `place` is the number of frames before the delta in a step, 0 or 1. `tapped` has the tap point of each frame.
    """

    epoch: int
    turn: str
    origin: Origin
    kind: type
    call: str | None
    place: int
    tapped: tuple[TapPoint, ...]


TIME, FIRST_SEQ, AT, TEXT, FRAMES = range(5)  # the cells of a step, by their place; the frames are the last ones


class TextRun(Struct, eq=False):
    """Consecutive steps that may be rounds of one text; `seq` is the number of their first item.

    The cells of all steps stand in one list, `width` of each step. An object for each step would be visited by the
    garbage collector. These are the cells of a step with one delta, which was read from one link and sent to another:

        TIME        time of the step (us)                          81204
        FIRST_SEQ   number of the delta in the session's log       17
        AT          time of the delta (ns)                         1700000000081000000
        TEXT        its text                                       "Hel"
        FRAMES      the frame at the first tap point of `common`   b'{"type":"text_delta","data":{"text":"Hel"}}'
        FRAMES + 1  the frame at the second one                    b'{"type":"stream_token", ...'

    With several deltas in a step, the cell of the text and each cell of a frame have a list of as many.

    `around` has the strings around the text at the tap points where they are known beforehand. The frames of a lone
    delta are not kept there: their cells are None.
    """

    common: TextSource
    cells: list[Any]
    around: dict[TapPoint, Around] = {}
    seq: int = 0

    @property
    def width(self) -> int:
        """The number of cells of a step."""
        return FRAMES + len(self.common.tapped)

    def column(self, place: int) -> list[Any]:
        """Return the cells at this place of all steps."""
        return self.cells[place :: self.width]

    def columns(self) -> list[list[Any]]:
        """Return the cells of all steps by their place."""
        cells, width = self.cells, self.width
        return [cells[place::width] for place in range(width)]

    def continues(self, last: TextRun) -> bool:
        """Return True if the steps of this run may follow those of `last` in one run."""
        alike = not self.around or not last.around or self.around == last.around
        return alike and self.common == last.common

    def frames(self, point: TapPoint, column: Sequence[Any]) -> Sequence[Any]:
        """Return the frames at a tap point, whose column of cells is given, with those that were not kept."""
        around = self.around.get(point)
        if around is None:
            return column
        write = writer_of(around)
        return [
            frame if frame is not None else write(text, at)[0]
            for frame, text, at in zip(column, self.column(TEXT), self.column(AT), strict=True)
        ]

    def set_times(self, times: Sequence[int]) -> None:
        self.cells[TIME :: self.width] = times


def run_of(t: int, step: Sequence[Note]) -> TextRun | None:
    """Return a step at `t` (µs) as a run if it may be a round of a stream, else None."""
    place = 0 if type(step[0]) is Batch else 1
    batch = step[place] if place < len(step) else None
    if type(batch) is not Batch:
        return None
    deltas: Sequence[Any] = batch.events
    count, kind = len(deltas), type(deltas[0])
    if not kind.streamed:
        return None
    text: Any
    if count == 1:
        text = deltas[0].text
        if deltas[0].ext is not None:
            return None
    else:
        text = _delta_texts(deltas)
        if text is None:
            return None
    call = deltas[0].call if kind is ToolOutputDelta else None
    tapped, frames = list[TapPoint](), list[Any]()
    for note in step:
        if type(note) is FramesNote and len(note.frames) == count:
            tapped.append(note.tapped)
            frames.append(note.frames[0] if count == 1 else note.frames)
        elif note is not batch:
            return None
    common = TextSource(batch.epoch, batch.turn, batch.origin, kind, call, place, tuple(tapped))
    return TextRun(common, [t, batch.first_seq, batch.at, text, *frames])


def _delta_texts(deltas: Sequence[Any]) -> list[str] | None:
    """Return the texts of deltas that differ in nothing else, or None if they do."""
    if len(set(map(type, deltas))) > 1:
        return None
    if type(deltas[0]) is ToolOutputDelta and len({delta.call for delta in deltas}) > 1:
        return None
    texts = [delta.text for delta in deltas if delta.ext is None]
    return texts if len(texts) == len(deltas) else None


def _folded(run: TextRun, known: KnownAround) -> list[StepLine]:
    """Return a run folded into a StepLine with rounds.

    If its frames differ in more than the text, each step gets its own line.
    """
    line = _step_with_rounds(run, known)
    if line is not None:
        return [line]
    steps: list[StepLine] = []
    seq = run.seq
    *columns, taps = *run.columns()[:FRAMES], map(run.frames, run.common.tapped, run.columns()[FRAMES:])
    for t, first_seq, at, text, *frames in zip(*columns, *taps, strict=True):
        steps += _step_lines(seq, t, _notes_of(run.common, first_seq, at, text, frames))
        seq = steps[-1].seq + steps[-1].count
    return steps


def _notes_of(common: TextSource, first_seq: int, at: int, text: Any, frames: Sequence[Any]) -> list[Note]:
    """Return the notes of one step of a run."""
    epoch, turn, origin, kind, call, place, tapped = common
    of_tool = {} if call is None else {"call": call}
    events = [kind(text=part, **of_tool) for part in ([text] if type(text) is str else text)]
    notes: list[Note] = [
        FramesNote(point, [some] if type(text) is str else some) for point, some in zip(tapped, frames, strict=True)
    ]
    batch = Batch(session="", epoch=epoch, first_seq=first_seq, events=events, turn=turn, origin=origin, at=at)
    notes.insert(place, batch)
    return notes


def _step_with_rounds(run: TextRun, known: KnownAround) -> StepLine | None:
    """Fold a run into a StepLine. Return None if its frames differ in more than the text.

    The strings around the text in the run before, `known`, are tried first. The run itself has the strings of frames
    that were not kept.
    """
    epoch, turn, origin, kind, call, place, tapped = run.common
    times, positions, ats, text_cells, *taps = run.columns()
    is_lone = {str}.issuperset(map(type, text_cells))
    counts = [1] * len(text_cells) if is_lone else [1 if type(some) is str else len(some) for some in text_cells]
    if positions[-1] + counts[-1] - positions[0] != sum(counts):  # other events lie between: the log never goes back
        return None
    if len(set(tapped)) < len(tapped):  # one link was sent it twice
        return None
    texts: list[str] = text_cells if is_lone else _flat(text_cells, counts)
    try:
        lines: list[FrameLine] = []
        for point, column in zip(tapped, taps, strict=True):
            if (point.dir == "send") is (len(lines) < place):
                return None
            pieces, line = known.get(point, ((), None))
            found = run.around.get(point)
            if found is None:
                frames = column if is_lone else _flat(column, counts)
                found = _around_all(frames, pieces, texts, ats, counts)
            elif not _are_kept_joined(column, found, text_cells, ats, counts):
                return None
            if found is None:
                return None
            if line is None or found is not pieces:
                around = [[piece.decode() for piece in part] for part in found]
                line = FrameLine(link=point.link, dir=point.dir, dialect=point.dialect, around=around)
                if len(known) >= KNOWN_MAX:
                    known.clear()
                known[point] = found, line
            lines.append(line)
    except (UnicodeDecodeError, TypeError):  # the strings around the text are not UTF-8, or a frame has no bytes
        return None
    event = kind(text="") if call is None else ToolOutputDelta(text="", call=call)
    entry = EventLine(cursor=f"{epoch}:{positions[0]}", event=event, texts=texts, turn=turn, origin=origin)
    return StepLine(seq=run.seq, t=times[0], frames=lines, events=[entry], rounds=list(map(Round, counts, times, ats)))


def _flat(column: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    """Return the texts or frames of a column, in which a round with several has a list of them."""
    if len(column) == 1 and counts[0] > 1:  # as in bulk, where each read is flushed
        only: list[Any] = column[0]
        return only
    return list(
        chain.from_iterable([(some,) if count == 1 else some for some, count in zip(column, counts, strict=True)])
    )


def _stamps(ats: Sequence[int], counts: Sequence[int]) -> list[bytes]:
    """Return the time of each delta as it stands in frames: ms since the Unix epoch."""
    stamps = _encode_lines([*map(floordiv, ats, repeat(1_000_000))])[:-1].split(b"\n")
    return stamps if len(counts) == counts.count(1) else list(chain.from_iterable(map(repeat, stamps, counts)))


def _samples(quoted: Sequence[bytes]) -> list[int]:
    """Return the numbers of a few long and different texts, which rarely stand in a frame by chance."""
    different = {text: number for number, text in enumerate(quoted)}
    return [different[text] for text in sorted(different, key=len)[-LONGEST:]]


def _are_kept_joined(
    column: Sequence[Any], around: Around, text_cells: Sequence[Any], ats: Sequence[int], counts: Sequence[int]
) -> bool:
    """Return True if each frame that was kept in this column is its text joined by these strings."""
    if column.count(None) == len(column):
        return True
    kept = [cell is not None for cell in column]
    some = [*compress(counts, kept)]
    texts, frames = (_flat([*compress(cells, kept)], some) for cells in (text_cells, column))
    return _are_joined(frames, around, texts, [*compress(ats, kept)], some)


def _around_all(
    frames: Sequence[Any], known: Around, texts: Sequence[str], ats: Sequence[int], counts: Sequence[int]
) -> Around | None:
    """Return the strings around the text of all frames: the `known` ones, or else others; None if they differ."""
    if known and _are_joined(frames, known, texts, ats, counts):
        return known
    found = _around(frames, texts, ats, counts) if {bytes}.issuperset(map(type, frames)) else None
    return found if found is not None and _are_joined(frames, found, texts, ats, counts) else None


def _around(frames: Sequence[bytes], texts: Sequence[str], ats: Sequence[int], counts: Sequence[int]) -> Around | None:
    """Return the strings around the text of one of the frames, in pieces around its time; None if it has no text."""
    quoted = _encode_lines(texts[:SAMPLE]).split(b"\n")[:-1]
    # A text that also occurs elsewhere in its frame splits the frame into more parts than the other texts do.
    number = min(_samples(quoted), key=lambda number: frames[number].count(quoted[number]))
    parts = frames[number].split(quoted[number])
    if len(parts) == 1 or b"\n" in frames[number]:
        return None
    stamp = _stamps(ats, counts)[number]
    return [part.split(stamp) for part in parts]


def _are_joined(
    frames: Sequence[bytes], around: Around, texts: Sequence[str], ats: Sequence[int], counts: Sequence[int]
) -> bool:
    """Return True if each frame is its text joined by these strings, which are in pieces around its time."""
    stamps = _stamps(ats, counts) if max(map(len, around)) > 1 else []
    if stamps and stamps[0] == stamps[-1]:  # as in bulk
        around = [[stamps[0].join(pieces)] for pieces in around]
    first, *others, last = chain.from_iterable(around)
    row = [b""] * (2 * len(others) + 2)
    row[1::2] = [*others, last + b"\n" + first]
    before = [number > 0 for pieces in around for number in range(len(pieces))][1:] if others else []  # True: the time
    for at in range(0, len(frames), SLICE):  # the frames of a slice are made together, because there are very many
        end = at + SLICE
        quoted = _encode_lines(texts[at:end])[:-1]  # JSON has no newline in a text
        if others:
            made, columns = row * len(frames[at:end]), (quoted.split(b"\n"), stamps[at:end])
            for place, number in enumerate(before):
                made[2 * place :: len(row)] = columns[number]
            made[-1] = b""
            joined = b"".join(made)
        else:  # nothing but one text, as most backends send it
            joined = quoted.replace(b"\n", row[-1])
        if b"\n".join(frames[at:end]) != first + joined + last:
            return False
    return True
