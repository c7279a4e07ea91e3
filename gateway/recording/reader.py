"""Reading a recording, plain or compressed, line by line in bounded memory.

A gateway that was killed leaves a last line that is torn, and a machine that crashed may leave garbage behind it. What
cannot be read is passed over and counted, never fatal; only a first line that is no header is. Both kinds of file are
entered anywhere: a compressed one by its index, a plain one by halving, for `seq` and `t` only grow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from gateway.recording import blocks
from gateway.recording.format import (
    UP,
    EventLine,
    FrameLine,
    Header,
    Line,
    LineError,
    RecordingError,
    decode_header,
    decode_line,
)
from mappings.canonical import Batch, Command, Event
from mappings.canonical.events import QuestionAnswered, QuestionAsked

__all__ = ["Problems", "Recording", "batches", "open_recording"]

CHUNK = 1 << 18  # bytes read at once
LINE_MAX = 128 << 20  # the largest message as JSON in JSON, each byte escaped as six; past it a line is garbage
NEAR = 1 << 16  # bytes: halving ends here, and the rest is read


class Problems:
    """What of a recording could not be read. `torn` is its last line, `damaged` are others, `unknown` of a kind that
    this program does not know.
    """

    def __init__(self) -> None:
        self.torn = False
        self.damaged = 0
        self.unknown = 0

    def __bool__(self) -> bool:
        return self.torn or bool(self.damaged or self.unknown)

    def __str__(self) -> str:
        said = ["its last line is torn"] if self.torn else []
        said += [f"{self.damaged} damaged lines"] if self.damaged else []
        said += [f"{self.unknown} lines of unknown kinds"] if self.unknown else []
        return ", ".join(said)


class Recording:
    """A file that can be read any number of times; `problems` are those of the last time that it was read.

    `progress` hears how many bytes of the file (see `size`) were read so far.
    """

    def __init__(self, path: Path, header: Header, version: int, *, zstd: bool) -> None:
        self.path = path
        self.header = header
        self.version = version
        self.compressed = zstd
        self.problems = Problems()
        self.progress: Callable[[int], None] = lambda _bytes: None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size

    def lines(self, *, seq: int = 0, t: int = 0) -> Iterator[Line]:
        """Its lines in their order, from the first with at least this `seq` and this `t`."""
        self.problems = Problems()
        with self.path.open("rb") as file:
            source = self._from(file, seq, t)
            for raw in self._raw(source):
                line = self._read(raw)
                if line is not None and line.seq >= seq and line.t >= t:
                    yield line

    def events(self, *, seq: int = 0, t: int = 0) -> Iterator[tuple[EventLine, Event]]:
        """The events of the session's log, each once."""
        for line in self.lines(seq=seq, t=t):
            if isinstance(line, EventLine) and line.event is not None and not line.link:
                yield line, line.event

    def commands(self, *, seq: int = 0, t: int = 0) -> Iterator[tuple[EventLine, Command]]:
        """The commands as clients said them."""
        for line in self.lines(seq=seq, t=t):
            if isinstance(line, EventLine) and line.command is not None and line.link != UP:
                yield line, line.command

    def asked(self, *, seq: int = 0, t: int = 0) -> Iterator[tuple[EventLine, Command]]:
        """The commands as the backend was asked them, by clients or by the gateway itself."""
        for line in self.lines(seq=seq, t=t):
            if isinstance(line, EventLine) and line.command is not None and line.link == UP:
                yield line, line.command

    def frames(self, *, seq: int = 0, t: int = 0) -> Iterator[FrameLine]:
        """What stood on the wires."""
        return (line for line in self.lines(seq=seq, t=t) if isinstance(line, FrameLine))

    def _read(self, raw: bytes) -> Line | None:
        try:
            return decode_line(raw, self.version)
        except LineError as error:
            if error.unknown == "header" or not raw.strip():
                return None  # files that were joined; a blank line
            if error.unknown:
                self.problems.unknown += 1
            else:
                self.problems.damaged += 1
            return None

    def _raw(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Whole lines; the last one may be torn, which then shows where it is read."""
        rest: list[bytes] = []
        size = 0
        for chunk in chunks:
            first, *others = chunk.split(b"\n")
            rest.append(first)
            size += len(first)
            if others:
                if size <= LINE_MAX:
                    yield b"".join(rest)
                else:
                    self.problems.damaged += 1
                yield from others[:-1]
                rest, size = [others[-1]], len(others[-1])
            elif size > LINE_MAX:
                rest = []  # garbage without an end: nothing of it is kept
        if size:
            self.problems.torn = self._is_torn(b"".join(rest), size)
            if not self.problems.torn:
                yield b"".join(rest)

    def _is_torn(self, last: bytes, size: int) -> bool:
        """Whether what stands behind the last newline is no whole line. A file that was edited may lack just that."""
        if size > LINE_MAX:
            return True
        try:
            decode_line(last, self.version)
        except LineError as error:
            return not error.unknown
        return False

    def _from(self, file: BinaryIO, seq: int, t: int) -> Iterator[bytes]:
        if not self.compressed:
            offset = self._halved(file, seq, t) if seq or t else 0
            file.seek(offset)
            return self._told(file, iter(lambda: file.read(CHUNK), b""))
        index = blocks.index_of(file) if seq or t else None
        offset = index[blocks.find_block(index, seq=seq, t=t)].offset if index else 0
        return self._told(file, blocks.decompressed(file, offset))

    def _told(self, file: BinaryIO, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.progress(file.tell())
            yield chunk

    def _halved(self, file: BinaryIO, seq: int, t: int) -> int:
        """Where a line begins before which nothing is wanted, at most a little too early."""
        low, high = 0, file.seek(0, os.SEEK_END)
        while high - low > NEAR:
            middle = (low + high) // 2
            found = self._line_behind(file, middle, high)
            if found is None or (found[1].seq >= seq and found[1].t >= t):
                high = middle
            else:
                low = found[0]
        return low

    def _line_behind(self, file: BinaryIO, offset: int, end: int) -> tuple[int, Line] | None:
        """The first line that begins behind `offset` and can be read, with its own offset."""
        file.seek(offset)
        at = offset + len(file.readline(LINE_MAX))
        while at < end:
            raw = file.readline(LINE_MAX)
            if not raw:
                return None
            try:
                return at, decode_line(raw, self.version)
            except LineError:
                at += len(raw)
        return None


def open_recording(path: Path) -> Recording:
    """A recording; RecordingError if the file is none, or is newer than this program. OSError if it cannot be read."""
    name = str(path)
    with path.open("rb") as file:
        zstd = file.read(len(blocks.MAGIC)) == blocks.MAGIC
        file.seek(0)
        chunks = blocks.decompressed(file) if zstd else iter(lambda: file.read(CHUNK), b"")
        first = _first_line(chunks)
    if not first:
        raise RecordingError(f"{name} is empty: nothing was recorded")
    header, version = decode_header(first, name)
    return Recording(path, header, version, zstd=zstd)


def _first_line(chunks: Iterable[bytes]) -> bytes:
    first = b""
    for chunk in chunks:
        line, newline, _ = chunk.partition(b"\n")
        first += line
        if newline or len(first) > CHUNK:
            break
    return first


def batches(session: str, lines: Iterable[EventLine]) -> Iterator[Batch]:
    """The events of the log as they were delivered: what came at one time, of one turn, and up to a question."""
    some: list[Event] = []
    first: EventLine | None = None
    for line in lines:
        if line.event is None or line.link:
            continue
        if first is not None and (_key(line) != _key(first) or _ends(some[-1])):
            yield _batch(session, first, some)
            some, first = [], None
        first = first or line
        some.append(line.event)
    if first is not None:
        yield _batch(session, first, some)


def _ends(event: Event) -> bool:
    """A question is the last of its batch, and so is an answer, for a client's run ends there."""
    return isinstance(event, QuestionAsked | QuestionAnswered)


def _key(line: EventLine) -> Sequence[object]:
    return line.t, line.turn, line.origin, line.at, line.position[0]


def _batch(session: str, first: EventLine, events: list[Event]) -> Batch:
    epoch, seq = first.position
    return Batch(
        session=session, epoch=epoch, first_seq=seq, events=events, turn=first.turn, origin=first.origin, at=first.at
    )
