"""Closed recordings as independent zstd frames with an index (docs/recording.md).

Each zstd frame holds whole lines and is read without the others. Behind the last one stands our index in a *skippable*
frame, which every zstd tool passes over: `zstd -dc` of the file gives the plain recording. The seekable format that
zstd's contributors keep knows sizes alone; what is looked for here is a seq or a time, so the index names both. Its
last bytes say how long it is, and it is found from the end.
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

__all__ = ["BLOCK", "MAGIC", "Block", "Lost", "compressed", "decompressed", "find_block", "index_of"]

MAGIC = b"\x28\xb5\x2f\xfd"  # of a zstd frame
SKIPPABLE = 0x184D2A5D  # one of the sixteen magic numbers that are left to applications
TAIL = struct.Struct("<I8s")  # length of the index, and that it is ours
OURS = b"dragoIDX"
BLOCK = 256 * 1024  # bytes of lines in a frame: a seek decompresses one, and smaller ones compress worse
LEVEL = 3  # docs/performance.md, section 5: 0.43 us an event with decoding
CHUNK = 1 << 16
HEAD = struct.Struct("<II")  # of a skippable frame: the magic number, and the size of what follows
BEGIN = re.compile(re.escape(MAGIC) + b"|" + re.escape(struct.pack("<I", SKIPPABLE)))  # of a frame
WINDOW_MAX = 128 << 20  # bytes of memory that a frame may ask for: zstd's own bound for what was not made with --ultra

Lost = Literal["block", "end"]


class Block(Struct, frozen=True, array_like=True, gc=False):
    """One zstd frame: where it begins and how long it is; `seq` and `t` of its first line that has them."""

    offset: int
    size: int
    seq: int
    t: int


def compressed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The recording of these lines, each with its newline, header first: zstd frames, then the index, one at a time."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    index: list[Block] = []
    offset = 0
    first = (0, 0)
    for some in _gathered(lines):
        block = compressor.compress(b"".join(some))
        first = _first(some) or first  # where nothing can be read the block before goes on
        index.append(Block(offset=offset, size=len(block), seq=first[0], t=first[1]))
        offset += len(block)
        yield block
    told = msgspec.json.encode(index)
    told += TAIL.pack(len(told), OURS)
    yield HEAD.pack(SKIPPABLE, len(told)) + told


def index_of(file: BinaryIO) -> list[Block] | None:
    """The index of a compressed recording; None if it has none, because its end is not there, or none of all of it."""
    end = file.seek(0, os.SEEK_END)
    if end < TAIL.size:
        return None
    file.seek(end - TAIL.size)
    length, ours = TAIL.unpack(file.read(TAIL.size))
    if ours != OURS or length > end - TAIL.size:
        return None
    file.seek(end - TAIL.size - length)
    try:
        index = msgspec.json.decode(file.read(length), type=list[Block])
    except msgspec.MsgspecError:
        return None
    begins = 0
    for block in index:
        if block.offset != begins or block.size <= 0:
            return None
        begins += block.size
    return index if begins + HEAD.size + length + TAIL.size == end else None  # else it is that of a part of the file


def find_block(index: list[Block], *, seq: int = 0, t: int = 0) -> int:
    """The last block that can hold the first line with at least this seq and this time."""
    by_seq = bisect_right(index, seq, key=lambda block: block.seq) - 1
    # Several lines have one time: the first of them may stand at the end of the block before.
    by_t = bisect_right(index, t - 1, key=lambda block: block.t) - 1
    return max(by_seq, by_t, 0)


def decompressed(file: BinaryIO, offset: int = 0, lost: Callable[[Lost], None] = lambda _what: None) -> Iterator[bytes]:
    """What stands in the zstd frames from `offset` on, in chunks; files that were joined are read as one.

    A frame that is damaged or torn gives what of it can be read, `lost` hears "block", and the next one is looked for.
    It hears "end" where no index stands last, for then the file may have been cut.
    """
    at: int | None = offset
    whole = hurt = False
    while at is not None and (head := _read(file, at, HEAD.size)):
        magic, size = HEAD.unpack(head) if len(head) == HEAD.size else (0, 0)
        begin, at = at, None
        if magic == SKIPPABLE:
            at = begin + HEAD.size + size
            whole = _read(file, at - TAIL.size, TAIL.size).endswith(OURS)
            continue
        if head.startswith(MAGIC):
            if hurt:
                yield b"\n"  # so that the end of what is torn does not become the begin of a line
            at = yield from _frame(file, begin)
        whole, hurt = False, at is None
        if at is None and (at := _next_frame(file, begin + 1)) is not None:
            lost("block")
    if not whole:
        lost("end")


def _frame(file: BinaryIO, at: int) -> Generator[bytes, None, int | None]:
    """What stands in the frame there; where the next one begins, None if this one is damaged or torn."""
    file.seek(at)
    frame = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX).decompressobj()
    while raw := file.read(CHUNK):
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
    """Where the first frame from there on begins. In the lines of a recording, which are UTF-8, no such bytes stand."""
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


def _gathered(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        if size >= BLOCK:
            yield some
            some, size = [], 0
    if some:
        yield some


def _first(lines: list[bytes]) -> tuple[int, int] | None:
    """Seq and time of the first line that can be read."""
    for line in lines:
        try:
            first = decode_line(line)
        except LineError:
            continue
        return first.seq, first.t
    return None
