"""Lines and files for tests of recordings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path

from msgspec import structs

from dragoman.gateway.config.model import Recording
from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import (
    UP,
    CommandLine,
    Direction,
    EventLine,
    FrameLine,
    Header,
    Line,
    StepLine,
    decode_line,
    encode,
    encode_lines,
    frame_line,
    packed,
)
from dragoman.gateway.recording.pending import FramesNote, Note, PendingSteps, TapPoint
from dragoman.gateway.recording.reader import Reader
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.mappings.canonical import Batch, Command
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.dialect import Frame
from tests.data_files import DATA

PLAIN = Recording(path="", compress=False)
PACKED = Recording(path="")

FROZEN = DATA / "recordings"
HEADER = Header(gateway="0.1.0", started_at=1_700_000_000_000_000_000, route="test", session="s")


def numbered(count: int, text: str = "word", every: int = 10) -> list[Line]:
    """Return `count` lines, alternately frames and events; every `every` µs, two lines have one time."""
    lines: list[Line] = []
    for seq in range(1, count + 1):
        t = seq // 2 * every
        if seq % 2:
            lines.append(FrameLine(seq=seq, t=t, link="up", dir="receive", dialect="pod", text=f"{text} {seq}"))
        else:
            event = TextDelta(text=f"{text} {seq}")
            lines.append(EventLine(seq=seq, t=t, cursor=f"1:{seq // 2}", turn="t", event=event))
    return lines


def frames_of(recording: Reader) -> list[FrameLine]:
    """Return the frames of a recording."""
    return [line for line in recording.lines() if isinstance(line, FrameLine)]


def commands_of(recording: Reader) -> list[Command]:
    """Return the commands that clients gave."""
    return [line.command for line in recording.lines() if isinstance(line, CommandLine) and line.link != UP]


def written(path: Path, lines: list[Line], header: Header = HEADER) -> Path:
    """Write a plain recording of these lines."""
    path.write_bytes(encode(header) + b"\n" + raw(lines))
    return path


def in_parts(path: Path, lines: list[Line], *ends: int, packed: tuple[int, ...] = ()) -> list[Path]:
    """Write a recording whose parts end after the lines with these seqs. Parts in `packed` are compressed."""
    paths = []
    for number, (begin, end) in enumerate(pairwise((0, *ends, lines[-1].seq))):
        some = [line for line in lines if begin < line.seq <= end]
        name = f"{path.stem}.{number}{path.suffix}" if number else path.name
        header = structs.replace(HEADER, part=number, seq=some[0].seq)
        write, more = (compressed, ".zst") if number in packed else (written, "")
        paths.append(write(path.with_name(name + more), some, header))
    return paths


def compressed(path: Path, lines: list[Line], header: Header = HEADER) -> Path:
    """Write a compressed recording of these lines."""
    raw = [encode(header) + b"\n", *(encode(step) + b"\n" for step in packed(lines))]
    path.write_bytes(b"".join(index.compressed(raw)))
    return path


Item = Line | StepLine
"""A frame, an event or a command, or a StepLine with rounds."""


def frame_at(seq: int, t: int, link: str, dir: Direction, dialect: str, frame: Frame) -> FrameLine:
    """Return the line of a frame with this number and time."""
    return structs.replace(frame_line(link, dir, dialect, frame), seq=seq, t=t)


def steps_of(items: Iterable[Item]) -> list[StepLine]:
    """Return the StepLines of items."""
    steps: list[StepLine] = []
    alone: list[Line] = []
    for item in items:
        if isinstance(item, StepLine):
            steps += [*packed(alone), item]
            alone = []
        else:
            alone.append(item)
    return [*steps, *packed(alone)]


def items_of(steps: Iterable[StepLine]) -> list[Item]:
    """Return the items of steps."""
    return [item for step in steps for item in ([step] if step.rounds else step.lines())]


def released(redactor: Redactor, items: Iterable[Item], now: int = 0) -> list[Item]:
    """Return the items that a redactor releases when it takes these."""
    return items_of(redactor.feed(steps_of(items), now))


def all_released(redactor: Redactor, items: Iterable[Item], now: int = 0) -> list[Item]:
    """Return these items without their secrets: no more will come."""
    return released(redactor, items, now) + items_of(redactor.finish())


def raw(items: Iterable[Item]) -> bytes:
    """Return the lines of a file with these items, as bytes."""
    return encode_lines(steps_of(items))


def read_back(items: Iterable[Item]) -> list[Item]:
    """Return these items as they are read from a file."""
    return items_of(map(decode_line, raw(items).splitlines()))


def decoded(raw: Sequence[bytes]) -> list[Line]:
    """Return the frames, events and commands of the lines of a file, without its header."""
    return [item for line in raw for item in decode_line(line).lines()]


def lines_of(items: Iterable[Item]) -> list[Line]:
    """Return the frames, events and commands of items one by one."""
    return [line for item in items for line in (item.lines() if isinstance(item, StepLine) else (item,))]


def count_of(item: Item) -> int:
    """Return the number of frames, events and commands of an item."""
    return item.count if isinstance(item, StepLine) else 1


def in_one_step(lines: Sequence[Line]) -> list[Item]:
    """Return these lines as one step, numbered anew: frames received, events, frames sent."""
    places = {"receive": 0, "send": 2}
    ordered = sorted(lines, key=lambda line: places[line.dir] if isinstance(line, FrameLine) else 1)
    return [structs.replace(line, seq=seq, t=lines[-1].t) for seq, line in enumerate(ordered, lines[0].seq)]


def in_streams(lines: Sequence[Line], seq: int, position: int) -> list[Item]:
    """Return these lines as a recorder stores them: everything that follows a received frame is in the same step. They
    are numbered anew from `seq`, and in the log from `position`.
    """
    stored: list[Item] = []
    notes, step = PendingSteps(), list[Note]()

    def take() -> None:
        nonlocal seq
        for item in items_of(notes.take()()):
            stored.append(structs.replace(item, seq=seq))
            seq += count_of(item)

    for line, following in zip_longest(lines, lines[1:]):
        if line.redacted or (isinstance(line, FrameLine) and line.text is None):
            take()
            stored.append(structs.replace(line, seq=seq))
            seq += 1
            continue
        if isinstance(line, FrameLine):
            tapped = TAPPED.setdefault((line.link, line.dir), TapPoint(line.link, line.dir, line.dialect))
            step.append(FramesNote(tapped, [(line.text or "").encode()]))
        elif isinstance(line, EventLine) and line.logged:
            step.append(Batch(session="s", epoch=1, first_seq=position, events=[line.event], origin=line.origin))
            position += 1
        else:
            step.append(line)
        together = isinstance(following, FrameLine) and following.dir == "send"
        if not together and (not isinstance(line, FrameLine) or line.dir == "send" or following is None):
            notes.add(line.t, step)
            step = []
    take()
    return stored


TAPPED: dict[tuple[str, str], TapPoint] = {}
