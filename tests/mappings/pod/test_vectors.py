"""Round trips of every vector and every captured line through the canonical form, byte by byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.dialect import Step
from tests.mappings.pod.data import CAPTURES, VECTORS, captured, direction_of
from tests.mappings.round_trip import back_and_forth

GOOD = [row for row in VECTORS if row["accept"]]
BAD = [row for row in VECTORS if not row["accept"]]


def test_all_vectors_exist() -> None:
    assert (len(GOOD), len(BAD)) == (83, 27)


def test_each_accepted_vector_comes_back_as_its_canonical_line() -> None:
    for row in GOOD:
        step, frames = back_and_forth(direction_of(row["direction"]), row["wire"].encode())
        assert (step.faults, frames) == ([], [row["canonical"].encode()]), row


def test_each_canonical_line_comes_back_unchanged() -> None:
    for row in GOOD:
        frame = row["canonical"].encode()
        step, frames = back_and_forth(direction_of(row["direction"]), frame)
        assert (frames, step.losses) == ([frame], []), row


def test_each_refused_vector_is_a_fault_or_unmapped() -> None:
    for row in BAD:
        step, frames = back_and_forth(direction_of(row["direction"]), row["wire"].encode())
        items = [item for burst in step.bursts for item in burst.items]
        assert frames == [], row
        assert [type(item) for item in items] == ([] if step.faults else [Unmapped]), row
        assert all(fault.can_continue for fault in step.faults), row


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_captured_lines_come_back_unchanged(path: Path) -> None:
    lines = [(way, frame) for conn, way, frame in captured(path) if conn != "r" or way == "s2c"]
    assert lines
    for way, frame in lines:
        assert back_and_forth(direction_of(way), frame)[1] == [frame]


def test_each_bad_line_of_the_raw_capture_is_a_fault_or_unmapped() -> None:
    path = next(path for path in CAPTURES if path.stem.startswith("13-"))
    good = b'{"params":{"input":[{"content":"it still works \\ud83d\\ude80"'
    bad = [
        f for conn, way, f in captured(path) if conn == "r" and way == "c2s" and f.strip() and not f.startswith(good)
    ]
    for frame in bad:
        step, frames = back_and_forth(direction_of("c2s"), frame)
        unknown = [item for burst in step.bursts for item in burst.items if isinstance(item, Unmapped)]
        assert (frames, len(step.faults) + len(unknown)) == ([], 1)


def test_an_invalid_line_loses_only_that_line() -> None:
    good = b'{"event":"thinking_start"}'
    step: Step[Any] = Step()
    direction_of("s2c").receive([good, b"{", good], step)
    assert [len(burst.items) for burst in step.bursts] == [2]
    assert [fault.code for fault in step.faults] == ["not_json"]
