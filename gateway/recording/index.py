"""Compressed recordings: independent zstd frames with an index (docs/recording.md).

Each zstd frame holds whole lines and can be decompressed without the others. The index follows in a *skippable* frame,
which every zstd tool ignores: `zstd -dc` of the file gives the plain recording. zstd's own seekable format was not
taken because its table has sizes only; this index has the `seq` and time of each frame. Its last bytes are its length,
so it is found from the end of the file.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import BinaryIO, Literal

import msgspec
import zstandard
from msgspec import Struct

from dragoman.gateway.recording.format import LineError, decode_line
from dragoman.mappings.codec import MALFORMED

MAGIC = b"\x28\xb5\x2f\xfd"  # of a zstd frame
SKIPPABLE = 0x184D2A5D  # one of the sixteen magic numbers that zstd leaves to applications
TAIL = struct.Struct("<I8s")  # length of the index, and OURS
OURS = b"dragoIDX"
BLOCK_SIZE = 256 * 1024  # bytes of lines in a frame: a seek decompresses one, and smaller ones compress worse
LEVEL = 3  # docs/measurements.md, section 5: 0.43 us an event with decoding
CHUNK = 1 << 16
PIECE = 512  # bytes that are decompressed at once: four bytes may expand to a block of 128 KiB, so 16 MiB at most
INDEX_MAX = 64 << 20  # bytes of an index: that of a file of 500 GB
HEAD = struct.Struct("<II")  # of a skippable frame: the magic number, and the size of its content
BEGIN = re.compile(re.escape(MAGIC) + b"|" + re.escape(struct.pack("<I", SKIPPABLE)))  # of a frame
WINDOW_MAX = 128 << 20  # bytes of memory that a frame may require: zstd's own limit without --ultra

Lost = Literal["block", "end"]


class IndexEntry(Struct, frozen=True, array_like=True, gc=False):
    """An entry of the index: offset and size of a zstd frame, and the `seq` and `t` of its first readable line."""

    offset: int
    size: int
    seq: int
    t: int


def find_offset(file: BinaryIO, t: int) -> int:
    """Return the offset of the last frame that can hold the first item at `t` or later."""
    entries = read_index(file)
    # Several items have one time: the first of them may stand at the end of the frame before.
    found = bisect_right(entries, t - 1, key=lambda entry: entry.t) - 1
    return entries[max(found, 0)].offset if entries else 0


def read_index(file: BinaryIO) -> list[IndexEntry]:
    """Return an entry for each zstd frame of a compressed file; none without an index that describes all of it."""
    end = file.seek(0, os.SEEK_END)
    if end < TAIL.size:
        return []
    file.seek(end - TAIL.size)
    length, ours = TAIL.unpack(file.read(TAIL.size))
    if ours != OURS or length > min(end - TAIL.size, INDEX_MAX):
        return []
    file.seek(end - TAIL.size - length)
    try:
        entries = msgspec.json.decode(file.read(length), type=list[IndexEntry])
    except MALFORMED:
        return []
    at = 0
    for entry in entries:
        if entry.offset != at or entry.size <= 0:
            return []
        at += entry.size
    return entries if at + HEAD.size + length + TAIL.size == end else []


def compressed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Return zstd frames of lines (each with its newline, the header first), and at last the index."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    entries: list[IndexEntry] = []
    offset = 0
    first = (0, 0)
    for some in _blocks(lines):
        block = compressor.compress(b"".join(some))
        first = _first(some) or first  # a block without a readable line counts as part of the one before
        entries.append(IndexEntry(offset=offset, size=len(block), seq=first[0], t=first[1]))
        offset += len(block)
        yield block
    table = msgspec.json.encode(entries)
    table += TAIL.pack(len(table), OURS)
    yield HEAD.pack(SKIPPABLE, len(table)) + table


def _blocks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        if size >= BLOCK_SIZE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _first(lines: list[bytes]) -> tuple[int, int] | None:
    """Return the `seq` and `t` of the first readable line."""
    for line in lines:
        try:
            first = decode_line(line)
        except LineError:
            continue
        return first.seq, first.t
    return None


def decompressed(file: BinaryIO, offset: int = 0, lost: Callable[[Lost], None] = lambda _what: None) -> Iterator[bytes]:
    """Return the content of the zstd frames from `offset` on, in chunks. Files that were joined are read as one.

    If a frame is damaged or torn, return what can be read of it, call `lost` with "block", and go on with the next one.
    If the file does not end with an index, call `lost` with "end", because the file may have been cut.
    """
    at: int | None = offset
    has_index = torn = False
    while at is not None and (head := _read(file, at, HEAD.size)):
        magic, size = HEAD.unpack(head) if len(head) == HEAD.size else (0, 0)
        begin, at = at, None
        if magic == SKIPPABLE:
            at = begin + HEAD.size + size
            has_index = _read(file, at - TAIL.size, TAIL.size).endswith(OURS)
            continue
        if head.startswith(MAGIC):
            if torn:
                yield b"\n"  # so that a torn line is not joined with the next line
            at = yield from _frame(file, begin)
        has_index, torn = False, at is None
        if at is None and (at := _next_frame(file, begin + 1)) is not None:
            lost("block")
    if not has_index:
        lost("end")


def _frame(file: BinaryIO, at: int) -> Generator[bytes, None, int | None]:
    """Yield the content of the zstd frame at the offset `at`. Return the offset of the next, None if it is damaged."""
    file.seek(at)
    frame = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX).decompressobj()
    while raw := file.read(PIECE):
        try:
            chunk = frame.decompress(raw)
        except zstandard.ZstdError:
            return None
        if chunk:
            yield chunk
        if frame.eof:
            return file.tell() - len(frame.unused_data)
    return None


def _next_frame(file: BinaryIO, at: int) -> int | None:
    """Return the offset of the first frame from `at` on. The lines of a recording, in UTF-8, cannot contain BEGIN."""
    file.seek(at)
    kept = b""
    while raw := file.read(CHUNK):
        raw = kept + raw
        if (found := BEGIN.search(raw)) is not None:
            return file.tell() - len(raw) + found.start()
        kept = raw[1 - len(MAGIC) :]
    return None


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)
