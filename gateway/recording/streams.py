"""Streams among what was noted: rounds of frames that came, deltas that they meant, and frames that they went out in.

A round is what one read of a connection brought about. Rounds in a row are a stream if each of their frames is the text
of its delta, as JSON, with the same around it; that is not believed but compared, byte by byte, for many at once when
the notes are taken. Most of what a recording holds is such a stream, and it would be fifteen times as large.

A round is often but one token, of one of hundreds of sessions: nothing that belongs to a session is in the processor's
cache then, and to look at it costs more than anything that is done with it. So a round is noted as a row by itself,
and whether it goes on with the one before is seen later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby, repeat
from typing import Any

import msgspec

from dragoman.gateway.recording.note import FramesNote, Note, Step
from dragoman.gateway.recording.runs import Round, Stream, Wire
from dragoman.mappings.canonical import Batch
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta, ToolOutputDelta

__all__ = ["Row", "rounds_of", "row_of", "step_of", "stream_of"]

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
    """What was noted in a step at `t` (µs) as a row, if it may be a round of a stream. Nothing else is looked at."""
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
        text = _texts(deltas, kind, call)
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
    """Rows in a row that may be rounds of one stream, and these by columns."""
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
    """Rounds as a stream, its first line `seq`; None if their frames are not alike."""
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
        wires: list[Wire] = []
        for (tapped, *_), frames in zip(wired[0::2], wired[1::2], strict=True):
            around = _around(_flat(frames, counts), quoted, stamps, samples)
            if around is None or (tapped.dir == "send") is (len(wires) < places[0]):
                return None
            wires.append(Wire(link=tapped.link, dir=tapped.dir, dialect=tapped.dialect, around=around))
    except UnicodeDecodeError:  # of what stands around
        return None
    event = kinds[0](text="") if calls[0] is None else ToolOutputDelta(text="", call=calls[0])
    return Stream(
        seq=seq, cursor=f"{epochs[0]}:{positions[0]}", event=event, texts=texts, wires=wires, turn=turns[0],
        origin=origins[0], rounds=list(map(Round, counts, times, ats)),
    )  # fmt: skip


def step_of(row: Row) -> Step:
    """What was noted, as it was."""
    t, position, at, text, epoch, turn, origin, kind, call, place, *wired = row
    texts = [text] if type(text) is str else text
    events = [kind(text=text) if call is None else kind(text=text, call=call) for text in texts]
    notes: list[Note] = [
        FramesNote(tapped, [frames] if type(text) is str else frames)
        for tapped, frames in zip(wired[0::2], wired[1::2], strict=True)
    ]
    batch = Batch(session="", epoch=epoch, first_seq=position, events=events, turn=turn, origin=origin, at=at)
    return Step(t, [*notes[:place], batch, *notes[place:]])


def _texts(deltas: Sequence[Any], kind: type, call: str | None) -> list[str] | None:
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
) -> list[list[str]] | None:  # fmt: skip
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
        if b"\n".join(frames[at:end]) != _lines(timed, quoted[at:end], stamps[at:end]):
            return None
    return [[piece.decode() for piece in pieces] for pieces in around]


def _lines(around: Sequence[Sequence[bytes]], quoted: Sequence[bytes], stamps: Sequence[bytes]) -> bytes:
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
