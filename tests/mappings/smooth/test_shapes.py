"""The strict shapes agree with the schemas: on real and golden frames, and on each with one error."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.data_files import captured_smooth
from tests.mappings.smooth.test_directions import EVENTS
from tests.shared import SHARED, needs_shared
from tests.smooth_shapes import REPLIES, SHAPES, assert_emitted, assert_strict, faults

GOLDEN: list[Any] = [case["frame"] for case in EVENTS]
CHANGES: tuple[object, ...] = (None, 7, "x", True, [], {}, -1, 0.25)
RESPONSES = {
    "create": "create-conversation-session",
    "get_session": "get-session",
    "history": "get-messages",
    "response": "send-message",
}


@cache
def schemas() -> Path:
    assert SHARED is not None
    return SHARED / "smooth-operator" / "spec"


@cache
def validator(path: str, definition: str = "") -> Any:
    schema = json.loads((schemas() / path).read_text())
    if definition:
        schema = {"$defs": schema["$defs"], "$ref": f"#/$defs/{definition}"}
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker(["uuid"]))


def allowed(kind: str, frame: object) -> bool:
    return bool(validator(f"events/{kind.replace('_', '-')}.schema.json").is_valid(frame))


def mutants(value: Any) -> Iterator[Any]:
    """Yield `value` with one error: an extra or missing key, or a value of another kind."""
    for path in list(places(value)):
        for change in CHANGES:
            changed = copy.deepcopy(value)
            if path:
                put(changed, path, change)
                yield changed
        if isinstance(at(value, path), dict):
            more = copy.deepcopy(value)
            at(more, path)["undocumented"] = 1
            yield more
        if path and isinstance(path[-1], str):
            fewer = copy.deepcopy(value)
            del at(fewer, path[:-1])[path[-1]]
            yield fewer


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places(member, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    at(value, path[:-1])[path[-1]] = new


@needs_shared
def test_there_is_a_shape_for_each_event_of_the_schemas() -> None:
    names = {file.name.removesuffix(".schema.json").replace("-", "_") for file in (schemas() / "events").iterdir()}
    assert names == set(SHAPES)


@needs_shared
@pytest.mark.parametrize("frame", GOLDEN, ids=lambda frame: frame["type"])
def test_shape_and_schema_agree_on_a_golden_frame_and_on_all_its_mutants(frame: dict[str, Any]) -> None:
    kind = frame["type"]
    assert allowed(kind, frame)
    wrong = 0
    for mutant in mutants(frame):
        found = list(faults(SHAPES[kind], mutant))
        assert allowed(kind, mutant) == (not found), (mutant, found)
        wrong += bool(found)
    assert wrong > 5


@needs_shared
def test_shape_and_schema_agree_on_captured_frames_and_their_mutants() -> None:
    seen = set()
    for line in captured_smooth("s2c"):
        frame = json.loads(line)
        kind = frame["type"]
        assert_emitted(frame)
        assert allowed(kind, frame), line
        outline = json.dumps(sorted(map(repr, places(frame))))
        if outline in seen:
            continue
        seen.add(outline)
        for mutant in mutants(frame):
            assert allowed(kind, mutant) == (not any(faults(SHAPES[kind], mutant))), (line, mutant)


SESSION = dict.fromkeys(
    ("sessionId", "conversationId", "agentId", "userParticipantId", "agentParticipantId"),
    "0b0e9b0e-0000-4000-8000-00000000000a",
)
PERSON = {"id": SESSION["agentId"], "type": "human", "name": "Ada"}
RECORD = {
    "id": SESSION["agentId"],
    "direction": "inbound",
    "content": {"text": "?", "structuredResponse": {"a": 1}},
    "from": PERSON,
    "to": PERSON,
    "createdAt": "1970-01-01T00:00:00Z",
}
SAMPLES = {
    "create": SESSION | {"agentName": "smooth-agent"},
    "get_session": SESSION | {"agentName": "smooth-agent", "threadId": "t", "status": "idle"},
    "history": {"messages": [RECORD], "nextCursor": None, "hasMore": False},
    "response": {
        "responseParts": ["a"],
        "customerHappinessScore": 0.5,
        "needsSatisfactionScore": 0.5,
        "requestSummary": "",
        "resolutionStatus": "in_progress",
        "suggestedNextActions": ["b"],
    },
}


@needs_shared
@pytest.mark.parametrize("kind", SAMPLES)
def test_shape_and_schema_agree_on_a_reply_and_on_all_its_mutants(kind: str) -> None:
    schema = validator(
        f"actions/{RESPONSES[kind]}.schema.json", "GeneralAgentResponse" if kind == "response" else "Response"
    )
    assert schema.is_valid(SAMPLES[kind])
    for mutant in mutants(SAMPLES[kind]):
        if isinstance(mutant.get("messages"), list) and any(bad_time(record) for record in mutant["messages"]):
            continue  # the schema's own checker of times is not installed
        assert schema.is_valid(mutant) == (not any(faults(REPLIES[kind], mutant))), mutant


def bad_time(record: object) -> bool:
    return isinstance(record, dict) and record.get("createdAt", RECORD["createdAt"]) != RECORD["createdAt"]


def test_a_shape_sees_each_kind_of_fault() -> None:
    pong = {"type": "pong", "data": {"timestamp": 1}}
    assert_strict(pong)
    for wrong in (
        pong | {"more": 1},
        pong | {"data": {}},
        pong | {"data": {"timestamp": "1"}},
        pong | {"data": {"timestamp": True}},
        pong | {"type": "confetti"},
    ):
        with pytest.raises(AssertionError):
            assert_strict(wrong)


def test_a_mirrored_field_that_differs_is_refused() -> None:
    token = {"type": "stream_token", "requestId": "r", "token": "a", "data": {"requestId": "r", "token": "b"}}
    assert_strict(token)
    with pytest.raises(AssertionError, match="token is not mirrored"):
        assert_emitted(token | {"timestamp": 1})
