"""Similar frames are stored as their differences, and are restored byte for byte."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.recording.format import UP, FrameLine, in_steps
from dragoman.gateway.recording.pending import RUN_MIN, frame_lines
from dragoman.mappings.dialect import Frame, Oversize, Parts
from tests.gateway.recording.lines import frame_at, lines_of, raw, read_back

WORDS = ["The", " quick", "", ' "Dragon"', "\n", "木", " 🦀", "\\", " over", " the", " lazy", "dog"]


def pod(word: str) -> bytes:
    data = {"event": "text_delta", "data": {"text": word}}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def smooth(word: str, at: int = 5) -> bytes:
    said = {"requestId": "r", "timestamp": at, "token": word}
    return json.dumps({"type": "stream_token", **said, "data": said}, ensure_ascii=False).encode()


def stored(frames: Sequence[Frame]) -> list[FrameLine]:
    steps = in_steps(1, 2, frame_lines(UP, "receive", "pod", frames))
    return [entry for step in steps for entry in step.entries() if isinstance(entry, FrameLine)]


def as_they_were(frames: Sequence[Frame]) -> list[FrameLine]:
    """Return the stored lines; assert that they stand for exactly these frames, also after reading them back."""
    lines = stored(frames)
    again = read_back(lines)
    expected = [frame_at(seq, 2, UP, "receive", "pod", frame) for seq, frame in enumerate(frames, 1)]
    assert lines_of(lines) == lines_of(again) == expected
    assert [line.seq for line in lines] == [1 + sum(line.count for line in lines[:at]) for at in range(len(lines))]
    return lines


@pytest.mark.parametrize("frames", [[*map(pod, WORDS)], [*map(smooth, WORDS)], tuple(map(pod, WORDS))])
def test_frames_that_differ_in_one_word_are_one_line(frames: Sequence[bytes]) -> None:
    (run,) = as_they_were(frames)
    assert run.words[1:4] == [" quick", "", r" \"Dragon\""]
    assert len(raw([run])) < len(b"".join(frames))


def test_fewer_frames_than_the_minimum_are_not_folded() -> None:
    assert len(as_they_were([pod(word) for word in WORDS[:RUN_MIN]])) == RUN_MIN
    assert as_they_were([]) == []


@pytest.mark.parametrize("at", [0, 1, 17, 98, 99])
def test_an_odd_frame_among_many_costs_few_lines(at: int) -> None:
    frames: list[Frame] = [pod(f"w{n}") for n in range(100)]
    frames[at] = b'{"event":"text_done"}'
    assert len(as_they_were(frames)) < 30


def test_equal_frames_and_frames_of_two_kinds_are_not_folded() -> None:
    assert len(as_they_were([pod("x")] * 20)) == 20
    assert len(as_they_were([pod("x"), smooth("x")] * 20)) == 40
    assert len(as_they_were([smooth(f"w{at}", at) for at in range(20)])) == 20, "their clocks differ too"


@pytest.mark.parametrize(
    "odd",
    [
        b"\xff",
        b"",
        b'{"event":"text_delta","data":{"text":"\xff"}}',
        pod("x") + b"\n",
        b"\n",
        b'"',
        Oversize(9, 8),
        Parts("sub", b"", (b"a", b"b")),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 5, -1])
def test_odd_frames_are_read_back_unchanged(odd: Frame, at: int) -> None:
    frames: list[Frame] = [pod(f"w{n}") for n in range(12)]
    frames[at] = odd
    as_they_were(frames)
    as_they_were([odd] * 12)


@given(
    st.lists(
        st.sampled_from([b'{"a":"x"}', b'{"a":"y"}', b'"', b'"x"', b"x", b'{"a":"x","b":"x"}', b'\\"', b"\n"]),
        max_size=40,
    )
)
def test_any_frames_are_read_back_unchanged(frames: list[bytes]) -> None:
    as_they_were(frames)


@given(st.lists(st.binary(max_size=6), max_size=30), st.binary(max_size=6), st.binary(max_size=6))
def test_any_text_around_words_is_read_back_unchanged(words: list[bytes], before: bytes, behind: bytes) -> None:
    as_they_were([before + b'"' + word + b'"' + behind for word in words])
