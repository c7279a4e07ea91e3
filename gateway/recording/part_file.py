"""One file of a recording, plain or compressed, read line by line in bounded memory.

A gateway that was killed leaves a last line that is torn, and a machine that crashed may leave garbage behind it. What
cannot be read is passed over and counted, never fatal; only a first line that is no header is. Both kinds of file are
entered anywhere: a compressed one by its index, a plain one by halving, for `seq` and `t` only grow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dragoman.gateway.recording import blocks
from dragoman.gateway.recording.format import Header, LineError, RecordingError, StepLine, decode_header, decode_line

__all__ = ["PartFile", "Problems", "open_part"]

CHUNK = 1 << 18  # bytes read at once
LINE_MAX = 128 << 20  # the largest message as JSON in JSON, each byte escaped as six; past it a line is garbage
NEAR = 1 << 16  # bytes: halving ends here, and the rest is read


class Problems:
    """What of a recording could not be read. `torn` is the last line of a file, `damaged` are others, `unknown` of a
    kind that this program does not know. `blocks` of a compressed one are damaged, and its end may be `cut` off.
    `missing` is what was never recorded, or is not there, in words.
    """

    def __init__(self, missing: Iterable[str] = ()) -> None:
        self.torn = False
        self.damaged = 0
        self.unknown = 0
        self.blocks = 0
        self.cut = False
        self.missing = list(missing)

    def __bool__(self) -> bool:
        return self.torn or bool(self.damaged or self.unknown or self.blocks or self.cut or self.missing)

    def __str__(self) -> str:
        said = ["its last line is torn"] if self.torn else []
        said += ["it ends without its index, so lines may be missing"] if self.cut else []
        said += [f"{self.blocks} damaged blocks of lines"] if self.blocks else []
        said += [f"{self.damaged} damaged lines"] if self.damaged else []
        said += [f"{self.unknown} lines of unknown kinds"] if self.unknown else []
        return ", ".join(said + self.missing)

    def lost(self, what: blocks.Lost) -> None:
        """Hear what of a compressed file cannot be read."""
        if what == "end":
            self.cut = True
        else:
            self.blocks += 1


class PartFile:
    """A file that can be read any number of times: a whole recording, or a part of one that was rotated."""

    def __init__(self, path: Path, header: Header, *, zstd: bool) -> None:
        self.path = path
        self.header = header
        self.compressed = zstd

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size

    def steps(
        self, problems: Problems, *, seq: int = 0, t: int = 0, progress: Callable[[int], None] = lambda _bytes: None
    ) -> Iterator[StepLine]:
        """Return its lines from the first that has an item with at least this `seq` and this `t`.

        Lines that cannot be read are counted in `problems`. `progress` hears how many bytes of the file were read.
        """
        with self.path.open("rb") as file:
            for raw in self._raw(self._told(file, self._from(file, seq, t, problems), progress), problems):
                line = self._read(raw, problems)
                if line is not None and line.seq + line.count > seq and line.last_t >= t:
                    yield line

    def _read(self, raw: bytes, problems: Problems) -> StepLine | None:
        try:
            return decode_line(raw)
        except LineError as error:
            if error.unknown == "header" or not raw.strip():
                return None  # files that were joined; a blank line
            if error.unknown:
                problems.unknown += 1
            else:
                problems.damaged += 1
            return None

    def _raw(self, chunks: Iterable[bytes], problems: Problems) -> Iterator[bytes]:
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
                    problems.damaged += 1
                yield from others[:-1]
                rest, size = [others[-1]], len(others[-1])
            elif size > LINE_MAX:
                rest = []  # garbage without an end: nothing of it is kept
        if size:
            last = b"".join(rest)
            if self._is_torn(last, size):
                problems.torn = True
            else:
                yield last

    def _is_torn(self, last: bytes, size: int) -> bool:
        """Whether what stands behind the last newline is no whole line. A file that was edited may lack just that."""
        if size > LINE_MAX:
            return True
        try:
            decode_line(last)
        except LineError as error:
            return not error.unknown
        return False

    def _from(self, file: BinaryIO, seq: int, t: int, problems: Problems) -> Iterator[bytes]:
        if not self.compressed:
            offset = self._halved(file, seq, t) if seq or t else 0
            file.seek(offset)
            return iter(lambda: file.read(CHUNK), b"")
        index = blocks.index_of(file) if seq or t else None
        offset = index[blocks.find_block(index, seq=seq, t=t)].offset if index else 0
        return blocks.decompressed(file, offset, problems.lost)

    @staticmethod
    def _told(file: BinaryIO, chunks: Iterator[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
        for chunk in chunks:
            progress(file.tell())
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

    def _line_behind(self, file: BinaryIO, offset: int, end: int) -> tuple[int, StepLine] | None:
        """The first line that begins behind `offset` and can be read, with its own offset."""
        file.seek(offset)
        at = offset + len(file.readline(LINE_MAX))
        while at < end:
            raw = file.readline(LINE_MAX)
            if not raw:
                return None
            try:
                return at, decode_line(raw)
            except LineError:
                at += len(raw)
        return None


def open_part(path: Path) -> PartFile:
    """A file of a recording.

    RecordingError if it is none, or one of another version; OSError if it cannot be read.
    """
    name = str(path)
    with path.open("rb") as file:
        zstd = file.read(len(blocks.MAGIC)) == blocks.MAGIC
        file.seek(0)
        chunks = blocks.decompressed(file) if zstd else iter(lambda: file.read(CHUNK), b"")
        first = _first_line(chunks)
    if not first and zstd:
        raise RecordingError(f"{name} is torn or damaged where it begins: nothing of it can be read")
    if not first:
        raise RecordingError(f"{name} is empty: nothing was recorded")
    return PartFile(path, decode_header(first, name), zstd=zstd)


def _first_line(chunks: Iterable[bytes]) -> bytes:
    first = b""
    for chunk in chunks:
        line, newline, _ = chunk.partition(b"\n")
        first += line
        if newline or len(first) > CHUNK:
            break
    return first
