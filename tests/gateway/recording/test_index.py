from __future__ import annotations

import io
import struct
from functools import cache
from pathlib import Path

import pytest
import zstandard

from dragoman.gateway.recording.format import decode_line, encode, packed
from dragoman.gateway.recording.index import (
    INDEX_MAX,
    OURS,
    TAIL,
    IndexEntry,
    compressed,
    decompressed,
    find_offset,
    read_index,
)
from tests.gateway.recording.lines import HEADER, numbered


@cache
def raw_lines() -> list[bytes]:
    """Return the lines of a recording of several blocks."""
    return [encode(HEADER) + b"\n", *(encode(step) + b"\n" for step in packed(numbered(10_000)))]


@cache
def packed_file() -> bytes:
    """Return these lines compressed."""
    return b"".join(compressed(raw_lines()))


def entries() -> list[IndexEntry]:
    """Return the entries of the index of the compressed file."""
    return read_index(io.BytesIO(packed_file()))


def test_compressed_lines_are_read_back_unchanged() -> None:
    assert b"".join(decompressed(io.BytesIO(packed_file()))) == b"".join(raw_lines())


def test_any_zstd_tool_reads_the_lines_and_ignores_the_index() -> None:
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed_file()), read_across_frames=True)
    assert reader.read() == b"".join(raw_lines())


def test_each_block_is_read_without_the_others_and_holds_whole_lines() -> None:
    index = entries()
    assert len(index) > 3
    for block in index[1:]:
        alone = zstandard.ZstdDecompressor().decompress(packed_file()[block.offset : block.offset + block.size])
        line = decode_line(alone.partition(b"\n")[0])
        assert (line.seq, line.t) == (block.seq, block.t)
        assert alone.endswith(b"\n")


def test_a_file_without_its_end_has_no_index() -> None:
    assert read_index(io.BytesIO(packed_file()[:-1])) == []
    assert read_index(io.BytesIO(b"")) == []


def test_an_index_that_points_outside_of_its_file_is_ignored() -> None:
    end = packed_file()[entries()[-1].offset + 10 :]
    assert read_index(io.BytesIO(end)) == []


def test_the_index_finds_the_block_with_the_first_line_of_a_time() -> None:
    index = entries()
    decoded = [decode_line(line) for line in raw_lines()[1:]]
    for t in (*range(0, 50_001, 485), 49_995, 50_000):
        offset = find_offset(io.BytesIO(packed_file()), t)
        found = [entry.offset for entry in index].index(offset)
        first = next(line for line in decoded if line.t >= t)
        assert index[found].seq <= first.seq
        if found + 1 < len(index):
            assert first.seq <= index[found + 1].seq


def test_the_readable_part_of_a_torn_file_is_read() -> None:
    index = entries()
    torn = packed_file()[: index[1].offset + 1000]
    got = b"".join(decompressed(io.BytesIO(torn)))
    whole = zstandard.ZstdDecompressor().decompress(packed_file()[: index[0].size])
    assert got.startswith(whole)
    assert b"".join(raw_lines()).startswith(got)


def test_reading_ends_at_garbage_after_the_frames() -> None:
    assert b"".join(decompressed(io.BytesIO(packed_file() + b"garbage" * 100))) == b"".join(raw_lines())


@pytest.mark.parametrize("begin", [0, 4, 1000])
def test_a_damaged_block_loses_only_that_block_and_is_reported(begin: int) -> None:
    index = entries()
    damaged = bytearray(packed_file())
    damaged[index[1].offset + begin] ^= 0xFF
    lost: list[str] = []
    got = b"".join(decompressed(io.BytesIO(damaged), lost=lost.append))
    assert lost == ["block"]
    decoder = zstandard.ZstdDecompressor()
    first, *others = (
        decoder.decompress(packed_file()[block.offset : block.offset + block.size])
        for block in index
        if block != index[1]
    )
    assert got.startswith(first)
    assert got.endswith(b"\n" + b"".join(others))


@pytest.mark.parametrize("into", [0, 1000])
def test_a_file_cut_between_two_blocks_is_reported(into: int) -> None:
    index = entries()
    lost: list[str] = []
    list(decompressed(io.BytesIO(packed_file()[: index[2].offset + into]), lost=lost.append))
    assert lost == ["end"]


def test_two_files_that_were_joined_are_read_as_one() -> None:
    lost: list[str] = []
    got = b"".join(decompressed(io.BytesIO(packed_file() + packed_file()), lost=lost.append))
    assert (got, lost) == (b"".join(raw_lines()) * 2, [])
    assert read_index(io.BytesIO(packed_file() + packed_file())) == [], "it is one of the second file alone"


def test_a_frame_that_stands_for_many_times_its_size_is_decompressed_in_small_chunks() -> None:
    repeated = struct.pack("<I", 128 * 1024 << 3 | 1 << 1)[:3] + b"x"  # a block that is one byte 131,072 times
    frame = b"\x28\xb5\x2f\xfd\x00\x50" + repeated * 2048
    sizes = [len(chunk) for chunk in decompressed(io.BytesIO(frame))]
    assert sum(sizes) == 2048 * 128 * 1024
    assert max(sizes) <= 17 << 20


def test_an_index_that_is_larger_than_any_real_one_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("w+b") as file:
        file.seek(INDEX_MAX + 1)
        file.write(TAIL.pack(INDEX_MAX + 1, OURS))
        read = 0

        class Counting(io.FileIO):
            def read(self, size: int | None = -1) -> bytes:
                nonlocal read
                data = super().read(size)
                read += len(data)
                return data

        file.flush()
        with Counting(file.name) as counting:
            assert read_index(counting) == []
        assert read == TAIL.size
