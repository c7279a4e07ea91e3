"""Golden frames: each wire type has a file of frames with their canonical items, in both directions."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.dialect import Burst, Direction, Step
from dragoman.mappings.smooth.directions import FROM_CLIENT, FROM_SERVER
from dragoman.mappings.smooth.wire.actions import AnyAction
from dragoman.mappings.smooth.wire.events import AnyEvent
from tests.data_files import DATA
from tests.smooth_shapes import assert_emitted, assert_strict

GOLDEN = DATA / "golden" / "smooth"


def cases(folder: str) -> list[dict[str, Any]]:
    return [case for file in sorted((GOLDEN / folder).glob("*.json")) for case in json.loads(file.read_text())]


EVENTS, ACTIONS = cases("events"), cases("actions")


def heard(direction: Direction[Any], frame: object) -> Burst[Any]:
    step: Step[Any] = Step()
    direction.receive([json.dumps(frame).encode()], step)
    assert (step.faults, step.losses) == ([], [])
    (burst,) = step.bursts
    return burst


def written(direction: Direction[Any], burst: Burst[Any]) -> list[Any]:
    rendered = direction.write(burst)
    assert rendered.losses == []
    return [json.loads(frame) for frame in rendered.frames]


def revived(item: dict[str, Any], union: object) -> Any:
    """Return a canonical item from its golden JSON."""
    decoder: Any = msgspec.json.Decoder(union)
    return decoder.decode(json.dumps(item))


@pytest.mark.parametrize(("folder", "union"), [("events", AnyEvent), ("actions", AnyAction)])
def test_every_wire_type_has_its_golden_file_and_no_file_is_left_over(folder: str, union: object) -> None:
    tags = {struct.__struct_config__.tag for struct in get_args(union)}
    assert {file.stem for file in (GOLDEN / folder).glob("*.json")} == tags


def test_each_event_is_read_as_its_golden_items() -> None:
    for case in EVENTS:
        burst = heard(FROM_SERVER, case["frame"])
        assert json.loads(msgspec.json.encode(burst.items)) == case["items"], case["claim"]
        assert (burst.request, burst.at) == (case["request"], case["at"]), case["claim"]


def test_each_action_is_read_as_its_golden_items() -> None:
    for case in ACTIONS:
        burst = heard(FROM_CLIENT, case["frame"])
        assert json.loads(msgspec.json.encode(burst.items)) == case["items"], case["claim"]


def test_golden_items_are_written_as_their_event() -> None:
    for case in EVENTS:
        items = [revived(item, Event) for item in case["items"]]
        burst = Burst(items=items, request=case["request"], at=case["at"])
        assert written(FROM_SERVER, burst) == [case["frame"]], case["claim"]


def test_golden_items_are_written_as_their_action() -> None:
    for case in ACTIONS:
        items = [revived(item, Command) for item in case["items"]]
        assert written(FROM_CLIENT, Burst(items=items)) == [case["frame"]], case["claim"]


def test_golden_events_are_strict() -> None:
    for case in EVENTS:
        assert_strict(case["frame"])
        if "timestamp" in case["frame"]:
            assert_emitted(case["frame"])
