"""Round trips of every vector and captured message through the canonical form, and real refusals of requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.pando import DIALECT
from tests.data_files import vectors
from tests.mappings.pando.data import CAPTURES, VECTORS, captured, direction_of, parts, read_of, value
from tests.mappings.pando.translator.test_server import Caller, error
from tests.mappings.round_trip import back_and_forth

INSTANCE = "3f0c9a52-6a1e-4c55-9d0b-8a4f0e7d1c11"
AT = "2026-05-09T21:28:20.123456789Z"

OWN_FORM: dict[str, Any] = {
    "pub.ok.topic_mismatch": [
        "tool.end",
        {
            "instanceId": INSTANCE,
            "projectId": "",
            "topic": "tool.end",
            "timestamp": AT,
            "payload": {"session_id": "", "tool_name": "", "call_id": "", "is_error": False, "result": ""},
        },
    ],
    "pub.ok.minimal": [
        "llm.token",
        {
            "instanceId": "",
            "projectId": "",
            "topic": "llm.token",
            "timestamp": "0001-01-01T00:00:00Z",
            "payload": {"session_id": "", "token": ""},
        },
    ],
    "req.ok.no_id": {"jsonrpc": "2.0", "id": "", "method": "instance.ping", "params": {}},
    "rep.ok.null_both": {"jsonrpc": "2.0", "id": "req-1", "result": {"ok": True}},
    "rep.ok.error_data": {"jsonrpc": "2.0", "id": "req-1", "error": {"code": -32000, "message": "x"}},
}
"""Messages that a peer accepts but never sends -> the form that we write (docs/dialects/pando.md, sections 2, 3 and 5).
"""

BAD = [row for row in VECTORS if ".bad." in row["name"]]
GOOD = [row for row in VECTORS if row not in BAD]
RAW = "15-raw-rpc-edges"


def test_all_vector_files_exist() -> None:
    assert (len(GOOD), len(BAD)) == (94, 8)


def test_each_vector_comes_back_equal_or_in_its_own_form() -> None:
    for row in GOOD:
        direction = direction_of(row["kind"])
        step, frames = back_and_forth(direction, parts(row["frames"]))
        assert step.faults == [], row
        expected = OWN_FORM[row["name"]] if row["name"] in OWN_FORM else value(read_of(row["frames"], direction))
        assert [value(frame) for frame in frames] == [expected], row


def test_each_bad_vector_is_one_fault_that_the_stream_survives() -> None:
    for row in BAD:
        step, frames = back_and_forth(direction_of(row["kind"]), parts(row["frames"]))
        assert (frames, [fault.can_continue for fault in step.faults]) == ([], [True]), row


def test_each_written_message_reads_and_writes_the_same() -> None:
    for row in GOOD:
        direction = direction_of(row["kind"])
        (frame,) = back_and_forth(direction, parts(row["frames"]))[1]
        step, frames = back_and_forth(direction, frame)
        assert (frames, step.losses) == ([frame], []), row


@pytest.mark.parametrize("path", [p for p in CAPTURES if p.stem != RAW], ids=lambda path: path.stem)
def test_captured_messages_come_back_as_they_are(path: Path) -> None:
    good = 0
    for _, way, frames in captured(path):
        direction = direction_of(way)
        step, back = back_and_forth(direction, parts(frames))
        if step.faults:  # the two calls with params of a wrong type
            assert (way, path.stem[:2]) == ("c2s", "05")
            continue
        assert [value(frame) for frame in back] == [value(read_of(frames, direction))]
        good += 1
    assert good >= 10


def test_the_raw_script_is_read_as_the_real_primary_read_it() -> None:
    """A request that the real primary accepted is a command, every other one a fault."""
    path = next(path for path in CAPTURES if path.stem == RAW)
    messages = [(way, frames) for _, way, frames in captured(path)]
    answers = [value(frames[-1].encode()) for way, frames in messages if way == "s2c"]
    refused = sum(answer.get("error", {}).get("code") == -32700 for answer in answers)
    unknown = sum(answer.get("error", {}).get("code") == -32601 for answer in answers)
    read = [back_and_forth(DIALECT.commands, parts(frames, "rpc"))[0] for way, frames in messages if way == "c2s"]
    items = [item for step in read for burst in step.bursts for item in burst.items]
    assert sum(len(step.faults) for step in read) == refused == 5
    assert sum(isinstance(item, Unmapped) for item in items) == unknown == 1
    assert {item.request for item in items} == {answer["id"] for answer in answers}


def test_an_invalid_message_loses_only_that_message() -> None:
    direction = DIALECT.events
    good = next(row["frames"] for row in VECTORS if row["name"] == "pub.llm.token")
    bad = next(row["frames"] for row in VECTORS if row["name"] == "pub.bad.json")
    step, _ = back_and_forth(direction, parts(good))
    direction.receive([parts(bad), parts(good)], step)
    assert [len(burst.items) for burst in step.bursts] == [1, 1]
    assert [fault.code for fault in step.faults] == ["not_json"]


# -- requests that a real pando refuses by itself --------------------------------------------------


REAL = vectors("pando_refusals")


def test_each_request_is_refused_as_the_real_primary_refuses_it() -> None:
    for row in REAL:
        assert Caller().sends(row["body"].encode()) == [error(row["id"], row["code"], row["message"])], row


def test_the_table_has_every_code() -> None:
    assert {row["code"] for row in REAL} == {-32700, -32601, -32000}
