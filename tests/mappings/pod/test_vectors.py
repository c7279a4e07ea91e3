"""Round trips of every vector and every captured line through the canonical form, byte by byte."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.dialect import Step
from tests.mappings.pod.data import CAPTURES, VECTORS, captured, direction_of
from tests.mappings.round_trip import back_and_forth

GOOD = [row for row in VECTORS if row["accept"]]
BAD = [row for row in VECTORS if not row["accept"]]


def names(rows: Iterable[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


@pytest.mark.parametrize("row", GOOD, ids=names(GOOD))
def test_an_accepted_vector_comes_back_as_its_canonical_line(row: dict[str, Any]) -> None:
    step, frames = back_and_forth(direction_of(row["direction"]), row["wire"].encode())
    assert step.faults == []
    assert frames == [row["canonical"].encode()]


@pytest.mark.parametrize("row", GOOD, ids=names(GOOD))
def test_a_canonical_line_comes_back_unchanged(row: dict[str, Any]) -> None:
    frame = row["canonical"].encode()
    step, frames = back_and_forth(direction_of(row["direction"]), frame)
    assert (frames, step.losses) == ([frame], [])


@pytest.mark.parametrize("row", BAD, ids=names(BAD))
def test_a_refused_vector_is_a_fault_or_unmapped(row: dict[str, Any]) -> None:
    step, frames = back_and_forth(direction_of(row["direction"]), row["wire"].encode())
    items = [item for burst in step.bursts for item in burst.items]
    assert frames == []
    assert [type(item) for item in items] == ([] if step.faults else [Unmapped])
    assert all(fault.can_continue for fault in step.faults)


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
