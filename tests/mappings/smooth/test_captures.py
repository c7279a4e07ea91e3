"""Real traffic between smooth programs comes back through the canonical form, equal as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dragoman.mappings.dialect import Direction, Step
from dragoman.mappings.smooth.directions import FROM_CLIENT, FROM_SERVER
from tests.data_files import captures
from tests.shared import SHARED, needs_shared

pytestmark = needs_shared

UNDOCUMENTED = {"$.before"}
"""Keys of real clients that this generation does not know: the seed's paging, which every server ignores."""


def frames(way: str) -> Iterator[tuple[str, str]]:
    if SHARED is None:
        return
    for file in captures("smooth"):
        for number, line in enumerate(file.read_text().split("\n"), 1):
            row = json.loads(line) if line else {}
            if row.get("dir") == way and isinstance(row.get("frame"), str):
                yield f"{file.name}:{number}", row["frame"]


def came_back(direction: Direction[Any], frame: str) -> tuple[list[object], set[str]]:
    step: Step[Any] = Step()
    direction.receive([frame.encode()], step)
    assert step.faults == []
    (burst,) = step.bursts
    rendered = direction.write(burst)
    assert rendered.losses == []
    return [json.loads(f) for f in rendered.frames], {loss.field for loss in step.losses}


def test_all_captures_exist() -> None:
    assert len(list(frames("c2s"))) > 40
    assert len(list(frames("s2c"))) > 90


def test_every_captured_event_comes_back_with_its_time_and_request() -> None:
    for where, frame in frames("s2c"):
        back, dropped = came_back(FROM_SERVER, frame)
        assert (back, dropped) == ([json.loads(frame)], set()), where
        value = json.loads(frame)
        step: Step[Any] = Step()
        FROM_SERVER.receive([frame.encode()], step)
        assert step.bursts[0].request == value.get("requestId", ""), where
        assert step.bursts[0].at == value["timestamp"] * 1_000_000, where


def test_every_captured_action_comes_back_without_undocumented_keys() -> None:
    for where, frame in frames("c2s"):
        back, dropped = came_back(FROM_CLIENT, frame)
        assert dropped <= UNDOCUMENTED, where
        expected = {key: value for key, value in json.loads(frame).items() if f"$.{key}" not in dropped}
        assert back == [expected], where
