"""Read a recording: one file, or all parts of a recording that was rotated, in their order.

Any part opens the whole recording, and so does a folder that contains one session. Parts are found by their names and
identified by their headers. A missing part, and items that could not be written before a part, form a gap, whose
position is reported.

A file is read line by line in bounded memory. The last line is torn if the gateway was killed, and garbage may follow
it if the machine crashed. Unreadable lines are skipped and counted; only a first line that is no header is fatal.
Reading can begin at any time: in a compressed file by its index, in a plain one by binary search, for `t` only grows.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

from msgspec import Struct

from dragoman.gateway.recording import index
from dragoman.gateway.recording.format import (
    LINE_MAX,
    EventLine,
    Header,
    Line,
    LineError,
    RecordingError,
    StepLine,
    VersionError,
    decode_header,
    decode_line,
)
from dragoman.gateway.recording.places import has_recording_name, siblings
from dragoman.gateway.recording.printable import counted
from dragoman.mappings.canonical.events import MessageAppended

CHUNK = 1 << 18  # bytes read at once
NEAR = 1 << 16  # bytes: binary search ends at such a distance, and the rest is read
PROBE = 1 << 20  # bytes of a line that binary search reads at once: each of its steps must cost little
PROBES_MAX = 8  # lines in which a step of binary search looks for a readable one; without one it continues before them


class Missing(Struct, frozen=True):
    """A gap before the item `seq`, in words."""

    seq: int
    text: str


class Problems(Struct):
    """The parts of a recording that could not be read.

    `torn`: the last line of a file is incomplete. `damaged` lines are unreadable, and `unknown` ones are of a kind that
    this program does not know. `blocks` of a compressed file are damaged, and its end may be `cut` off. `missing`
    describes each gap: items that were never recorded, and parts that do not exist.
    """

    missing: list[str] = []
    torn: bool = False
    damaged: int = 0
    unknown: int = 0
    blocks: int = 0
    cut: bool = False

    def __bool__(self) -> bool:
        return bool(str(self))

    def __str__(self) -> str:
        found = ["its last line is torn"] if self.torn else []
        found += ["it ends without its index, so lines may be missing"] if self.cut else []
        found += [f"{counted(self.blocks, 'damaged block')} of lines"] if self.blocks else []
        found += [counted(self.damaged, "damaged line")] if self.damaged else []
        found += [f"{counted(self.unknown, 'line')} of unknown kind"] if self.unknown else []
        return ", ".join(found + self.missing)

    def note_lost(self, what: Literal["block", "end"]) -> None:
        """Count a part of a compressed file that cannot be read."""
        if what == "end":
            self.cut = True
        else:
            self.blocks += 1


# -- a whole recording ----------------------------------------------------------------------------------------


class Reader:
    """A recording, which can be read any number of times. `problems` are those of the last time.

    `header` and `path` are those of its first part. `missing` are the gaps that the headers show.
    """

    def __init__(self, parts: Sequence[PartFile]) -> None:
        self.parts = tuple(parts)
        self.path = parts[0].path
        self.header = parts[0].header
        self.missing = tuple(_missing(parts))
        self.problems = Problems()
        self._progress: Callable[[int], None] = lambda _bytes: None

    @property
    def size(self) -> int:
        """Return the size of all files when they were found, in bytes."""
        return sum(part.size for part in self.parts)

    def report_progress(self, progress: Callable[[int], None]) -> None:
        """Call `progress` with the number of bytes (of `size`) read so far, while the recording is read."""
        self._progress = progress

    def part_of(self, seq: int) -> int:
        """Return the index of the part in which the item `seq` stands, or would stand."""
        return max(bisect_right(self.parts, seq, key=lambda part: part.header.seq) - 1, 0)

    def lines(self, *, t: int = 0) -> Iterator[Line]:
        """Return frames, events and commands one by one, from the first at `t` or later."""
        return (line for step in self.steps(t=t) for line in step.lines() if line.t >= t)

    def events(self) -> Iterator[EventLine]:
        """Return the events of the session's log, each once."""
        return (line for line in self.lines() if isinstance(line, EventLine) and line.logged)

    @property
    def shown_as(self) -> list[str]:
        """The other ids under which clients knew the session."""
        return list(dict.fromkeys(name for part in self.parts for name in part.header.shown_as))

    def steps(self, *, t: int = 0) -> Iterator[StepLine]:
        """Return the StepLines, from the first that has an item at `t` or later."""
        self.problems = Problems([gap.text for gap in self.missing])
        first = self._first_part(t)
        done = sum(part.size for part in self.parts[:first])
        for part in self.parts[first:]:
            yield from part.steps(self.problems, t=t, progress=partial(self._report_progress, done))
            done += part.size

    def _report_progress(self, done: int, read: int) -> None:
        self._progress(done + read)

    def _first_part(self, t: int) -> int:
        """Return the index of the last part that begins before `t`, 0 if none does."""

        def begins_later(part: PartFile) -> bool:
            # Several items have one time: some of them may stand at the end of the part before.
            return (first := next(part.steps(Problems()), None)) is None or first.t >= t

        return bisect_left(self.parts[1:], True, key=begins_later) if t else 0


def _missing(parts: Sequence[PartFile]) -> Iterator[Missing]:
    expected = 0
    for part in parts:
        header = part.header
        if header.part == expected + 1:
            yield Missing(header.seq, f"part {expected} is missing")
        elif header.part > expected:
            yield Missing(header.seq, f"parts {expected} to {header.part - 1} are missing")
        if header.lost:
            yield Missing(header.seq, f"{header.lost} lines were not recorded")
        expected = header.part + 1


NAMED_MAX = 3  # files that are named beside one without a session

Report = Callable[[RecordingError | OSError], None]
"""A function that is called with the error of each file in a folder that cannot be read as a recording."""


def _ignore(_error: RecordingError | OSError) -> None: ...


def open_recording(path: Path) -> Reader:
    """Return the recording of which this file is a part, or of the only session in a folder.

    Raise RecordingError if there is none, more than one, or one of another version; OSError if it cannot be read.
    """
    return Reader(_only_session(path) if path.is_dir() else _parts(path))


def _parts(path: Path) -> list[PartFile]:
    """Return all parts of the recording to which this file belongs."""
    named = open_part(path)
    found = {named.header.part: named}
    real = Path(os.path.realpath(path))
    for other in siblings(real, named.header.part):
        if other == real:
            continue
        with suppress(RecordingError, OSError):  # another file, or an empty part of a killed gateway
            part = open_part(other)
            if _identity(part.header) == _identity(named.header):
                found.setdefault(part.header.part, part)
    return [found[number] for number in sorted(found)]


def _identity(header: Header) -> tuple[str, str, int]:
    return header.route, header.session, header.started_at


def _only_session(folder: Path) -> Sequence[PartFile]:

    def refuse(error: RecordingError | OSError) -> None:
        if isinstance(error, VersionError):
            raise error  # it may be the session that is wanted

    found = [recording for recording in recordings_in(folder, refuse) if recording.header.session]
    if len(found) > 1:
        names = " or ".join(recording.path.name for recording in found[:2])
        raise RecordingError(f"{folder} holds several sessions: name a file in it, such as {names}")
    if not found:
        raise RecordingError(f"{folder} holds no recording of a session")
    return found[0].parts


def recordings_in(folder: Path, report: Report = _ignore) -> Iterator[Reader]:
    """Yield the recordings in a folder, in the order of their names. Call `report` for each that cannot be read."""
    known: set[str] = set()
    for path in sorted(folder.iterdir()):
        if os.path.realpath(path) in known or not has_recording_name(path):
            continue
        try:
            parts = _parts(path)
        except (RecordingError, OSError) as error:
            report(error)
            continue
        known.update(os.path.realpath(part.path) for part in parts)
        yield Reader(parts)


class RecordedSession(Struct, frozen=True, kw_only=True):
    """A recorded session: its file, its ids, its route, and what lists of recordings show of it.

    `shown_as` has the other ids under which clients knew it. `began` is in ns since the Unix epoch, `input` is the
    first input or "".
    """

    file: str
    session: str
    shown_as: list[str]
    route: str
    upstream: str
    began: int
    bytes: int
    input: str


def sessions_in(folder: Path, report: Report = _ignore) -> list[RecordedSession]:
    """Return the sessions in a folder, in the order of the names of their files. Call `report` for unreadable files."""
    return [_session(recording) for recording in recordings_in(folder, report) if recording.header.session]


def _session(recording: Reader) -> RecordedSession:
    header = recording.header
    messages = (line.event.message for line in recording.events() if isinstance(line.event, MessageAppended))
    return RecordedSession(
        file=recording.path.name,
        session=header.session,
        shown_as=recording.shown_as,
        route=header.route,
        upstream=header.upstream,
        began=header.started_at,
        bytes=recording.size,
        input=next((message.text for message in messages if message.role == "user"), ""),
    )


def about_no_session(recording: Reader) -> str:
    """Return a sentence that names the sessions beside a recording of no session; "" if it has a session."""
    if recording.header.session:
        return ""
    with suppress(RecordingError, OSError):  # the folder may be unreadable, or hold other files
        route = recording.header.route
        beside = [other for other in recordings_in(recording.path.parent) if other.header.session]
        names = [other.path.name for other in beside if other.header.route == route][:NAMED_MAX]
        if names:
            return f"{recording.path} holds no session, only frames of its route; sessions are in {', '.join(names)}"
    return f"{recording.path} holds no session, only frames of its route"


# -- one file -------------------------------------------------------------------------------------------------


class PartFile(Struct, frozen=True):
    """A file of a recording, plain or compressed, which can be read any number of times.

    `size` (bytes) is that of the time when it was found. Later the file may grow, or be compressed or deleted.
    """

    path: Path
    header: Header
    compressed: bool
    size: int

    def steps(
        self, problems: Problems, *, t: int = 0, progress: Callable[[int], None] = lambda _bytes: None
    ) -> Iterator[StepLine]:
        """Return its StepLines, from the first that has an item at `t` or later.

        Count lines that cannot be read in `problems`. Call `progress` with the number of bytes read so far.
        """
        with self.path.open("rb") as file:
            for raw, is_whole in _lines(self._chunks(file, t, problems, progress)):
                step = _decoded(raw, problems, is_whole=is_whole)
                if step is not None and step.last_t >= t:
                    yield step

    def _chunks(self, file: BinaryIO, t: int, problems: Problems, progress: Callable[[int], None]) -> Iterator[bytes]:
        if self.compressed:
            offset = index.find_offset(file, t) if t else 0
            chunks = index.decompressed(file, offset, problems.note_lost)
        else:
            file.seek(_offset(file, t) if t else 0)
            chunks = iter(lambda: file.read(CHUNK), b"")
        for chunk in chunks:
            progress(file.tell())
            yield chunk


def open_part(path: Path) -> PartFile:
    """Return a file of a recording.

    Raise RecordingError if it is no recording, or one of another version; OSError if it cannot be read.
    """
    name = str(path)
    known = path.stat()
    if not stat.S_ISREG(known.st_mode):
        raise RecordingError(f"{name} is not a regular file: a recording is read more than once")
    with path.open("rb") as file:
        compressed = file.read(len(index.MAGIC)) == index.MAGIC
        file.seek(0)
        first = _first_line(index.decompressed(file) if compressed else iter(lambda: file.read(CHUNK), b""))
    if not first and compressed:
        raise RecordingError(f"{name} is torn or damaged where it begins: nothing of it can be read")
    if not first:
        raise RecordingError(f"{name} is empty: nothing was recorded")
    return PartFile(path, decode_header(first, name), compressed, known.st_size)


def _first_line(chunks: Iterable[bytes]) -> bytes:
    first = b""
    for chunk in chunks:
        line, newline, _ = chunk.partition(b"\n")
        first += line
        if newline or len(first) > CHUNK:
            break
    return first


def _decoded(raw: bytes, problems: Problems, *, is_whole: bool) -> StepLine | None:
    try:
        return decode_line(raw)
    except LineError as error:
        if error.unknown == "header" or not raw.strip():
            return None  # files that were joined; a blank line
        if error.unknown:
            problems.unknown += 1
        elif is_whole:
            problems.damaged += 1
        else:
            problems.torn = True
        return None


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a file; the flag says whether the line ends with a newline, which an edited file may lack."""
    rest: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if others:
            yield b"".join(rest), True
            for line in others[:-1]:
                yield line, True
            rest, size = [others[-1]], len(others[-1])
        elif size > LINE_MAX:
            rest, size = [b"\0"], 0  # garbage without an end: one byte is kept, so that the line counts as damaged
    if last := b"".join(rest):
        yield last, False


def _offset(file: BinaryIO, t: int) -> int:
    """Return the offset of a line in a plain file such that no item of `t` or later is before it, by binary search."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while high - low > NEAR:
        middle = (low + high) // 2
        found = _line_after(file, middle, high)
        if found is None or found[1].t >= t:
            high = middle
        else:
            low = found[0]
    return low


def _line_after(file: BinaryIO, offset: int, end: int) -> tuple[int, StepLine] | None:
    """Return the first readable line after `offset`, and its own offset; None if the next PROBES_MAX lines are
    unreadable.
    """
    file.seek(offset)
    at = offset + len(file.readline(PROBE))
    for _ in range(PROBES_MAX):
        raw = file.readline(PROBE) if at < end else b""
        if not raw:
            return None
        try:
            return at, decode_line(raw)
        except LineError:
            at += len(raw)
    return None
