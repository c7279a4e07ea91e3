"""The line splitter: whole, byte by byte, in random pieces, with garbage and with lines over the limit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.adapters.lines import ENDLESS, LARGE, LineSplitter, join, line_buffers
from dragoman.adapters.meter import Meter
from dragoman.mappings.dialect import HEAD, Frame, Oversize

ROOMY = 1024
MIB = 1 << 20


def split(pieces: Iterable[bytes], max_line: int = ROOMY) -> list[Frame]:
    splitter = LineSplitter(max_line)
    frames: list[Frame] = []
    for piece in pieces:
        frames += splitter.feed(piece)
    return frames + splitter.finish()


def pieces_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]


def whole(data: bytes) -> list[bytes]:
    return [data]


def single_bytes(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def test_one_read_returns_all_its_lines_in_order() -> None:
    assert split([b'{"a":1}\n{"b":2}\n{"c":3}\n']) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


def test_reading_byte_by_byte_returns_the_same_lines() -> None:
    assert split(single_bytes(b'{"a":1}\n\n{"b":2}\r\n')) == [b'{"a":1}', b'{"b":2}']


def test_a_partial_line_waits_for_its_newline() -> None:
    splitter = LineSplitter(ROOMY)
    assert splitter.feed(b'{"a":') == []
    assert splitter.feed(b'1}\n{"b"') == [b'{"a":1}']
    assert splitter.feed(b":2}\n") == [b'{"b":2}']


def test_an_unterminated_last_line_is_a_frame_at_the_end() -> None:
    assert split([b"one\ntwo"]) == [b"one", b"two"]


def test_no_bytes_are_left_after_the_end() -> None:
    splitter = LineSplitter(ROOMY)
    splitter.feed(b"one")
    assert splitter.finish() == [b"one"]
    assert splitter.finish() == []


@pytest.mark.parametrize("blank", ["", " ", "\t \r", "\x0b\x0c", "\u00a0", " \u2003\u2028 ", "\u3000\x85"])
def test_a_line_of_white_space_is_skipped(blank: str) -> None:
    assert split([f"one\n{blank}\ntwo\n{blank}".encode()]) == [b"one", b"two"]


@pytest.mark.parametrize("around", ["\r", " ", "\t", "\u00a0", "\r\u2003 "])
def test_white_space_around_a_line_is_trimmed(around: str) -> None:
    assert split([f"{around}{{}}{around}\n".encode()]) == [b"{}"]


def test_a_byte_order_mark_is_not_trimmed() -> None:
    assert split(["\ufeff{}\n".encode()]) == ["\ufeff{}".encode()]


def test_white_space_within_a_line_stays() -> None:
    line = '{"text":"a \u2028 b\u00a0"}'.encode()
    assert split([line + b"\n"]) == [line]


def test_a_line_of_invalid_utf8_is_passed_on_unchanged() -> None:
    assert split([b"\xff\xfe\n{}\n\x80"]) == [b"\xff\xfe", b"{}", b"\x80"]


@pytest.mark.parametrize("cut", [whole, single_bytes])
def test_a_line_over_the_limit_loses_only_that_line(cut: Callable[[bytes], list[bytes]]) -> None:
    data = b"good\n" + b"x" * 11 + b"\nnext\n"
    assert split(cut(data), max_line=10) == [b"good", Oversize(size=11, limit=10, head=b"x" * 11), b"next"]


def test_a_line_at_the_limit_is_whole() -> None:
    assert split([b"x" * 10 + b"\n"], max_line=10) == [b"x" * 10]


def test_an_unterminated_line_over_the_limit_is_reported_at_the_end() -> None:
    assert split([b"x" * 8, b"x" * 8], max_line=10) == [Oversize(size=16, limit=10, head=b"x" * 16)]


def test_a_line_without_an_end_is_reported_once_before_its_end() -> None:
    splitter = LineSplitter(10)
    told = [splitter.feed(b"x" * 10) for _ in range(ENDLESS + 3)]
    size = 10 * ENDLESS + 10
    assert told == [*[[]] * ENDLESS, [Oversize(size=size, limit=10, endless=True, head=b"x" * size)], [], []]


def test_the_bytes_of_a_line_over_the_limit_are_not_held() -> None:
    splitter = LineSplitter(MIB)
    megabyte = b"x" * MIB
    tracemalloc.start()
    try:
        for _ in range(ENDLESS):
            splitter.feed(megabyte)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(megabyte)
    refused = Oversize(size=ENDLESS * MIB, limit=MIB, head=megabyte[:HEAD])
    assert splitter.feed(b"\nnext\n") == [refused, b"next"]


def test_a_further_byte_costs_the_same_however_long_its_line_is_already() -> None:
    def seconds(begun: int) -> float:
        splitter = LineSplitter(8 * MIB)
        splitter.feed(b"x" * begun)
        began = process_time()
        for _ in range(1_000):
            splitter.feed(b"x")
        return process_time() - began

    short, long = (min(seconds(begun) for _ in range(3)) for begun in (0, 4 * MIB))
    assert long < 20 * short, "a copy of the line for each byte would take hundreds of times as long"


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0), max_size=12), st.integers(1, 40))
@example(b"\n" * 5 + b"x" * 41, [3], 40)
def test_the_lines_do_not_depend_on_how_the_bytes_were_split(data: bytes, cuts: list[int], max_line: int) -> None:
    assert split(pieces_of(data, cuts), max_line) == split(single_bytes(data), max_line)


PIECES = st.lists(st.sampled_from([b"x", b"y z", b"\n", b"\n", "\u00a0".encode(), b"{}\n"]))


@given(PIECES, st.integers(1, 5), st.lists(st.integers(min_value=0), max_size=4), st.booleans())
def test_lines_split_a_few_at_once_are_the_same_lines(
    pieces: list[bytes], at_once: int, cuts: list[int], early: bool
) -> None:
    splitter = LineSplitter(ROOMY, lines_at_once=at_once)
    frames: list[Frame] = []
    for piece in [*pieces_of(b"".join(pieces), cuts), b"\n"]:
        frames += splitter.feed(piece)
        if splitter.unsplit and early:
            frames += splitter.more()
    while splitter.unsplit:
        frames += splitter.more()
    assert frames == split([b"".join(pieces)])


def test_no_more_lines_than_asked_are_split_at_once() -> None:
    splitter = LineSplitter(ROOMY, lines_at_once=10)
    counts = [len(splitter.feed(b"x\n" * 95))]
    while splitter.unsplit:
        counts.append(len(splitter.more()))
    assert counts == [10] * 9 + [5]


def test_a_flood_of_blank_lines_is_not_split() -> None:
    splitter = LineSplitter(ROOMY, lines_at_once=10)
    assert splitter.feed(b"\n \r\n" * 1000 + b"x\n") == [b"x"]
    assert not splitter.unsplit


@given(st.lists(st.sampled_from([b"{}", b"[1]", b'"\xc3\xa9"', "\u00a0x".encode()]), max_size=20))
def test_joined_frames_are_split_into_the_same_frames(lines: list[bytes]) -> None:
    trimmed = [line.decode().strip().encode() for line in lines]
    assert split([join(lines)]) == trimmed


def test_join_ends_every_frame_with_its_newline() -> None:
    assert join([b"a", b"b"]) == b"a\nb\n"
    assert join([]) == b"".join(line_buffers([])) == b""


@given(st.lists(st.sampled_from([b"", b"one", b"two", b"x" * LARGE, b"y" * (LARGE - 1)]), min_size=1, max_size=6))
def test_lines_in_buffers_are_the_joined_lines(frames: list[bytes]) -> None:
    assert b"".join(line_buffers(frames)) == join(frames)


def test_a_large_line_is_not_copied_and_small_ones_are_one_buffer() -> None:
    large = b"x" * LARGE
    buffers = line_buffers([b"a", b"b", large, b"c", b"d"])
    assert buffers == [b"a\nb\n", large, b"\n", b"c\nd\n"]
    assert buffers[1] is large


def test_the_meter_counts_the_held_bytes_of_the_unfinished_line_alone() -> None:
    meter = Meter()
    splitter = LineSplitter(100, meter)
    sizes = []
    for piece in (b"whole\n", b"begun", b" and more", b" end\nnext", b"x" * 2000, b"x", b"\n", b"left"):
        splitter.feed(piece)
        sizes.append(meter.size)
    assert sizes == [0, 5, 14, 4, HEAD, HEAD, 0, 4]
    splitter.finish()
    assert meter.size == 0


def test_a_cleared_line_is_not_counted_and_never_seen() -> None:
    meter = Meter()
    splitter = LineSplitter(100, meter)
    splitter.feed(b"begun")
    splitter.clear()
    assert (meter.size, splitter.finish()) == (0, [])
