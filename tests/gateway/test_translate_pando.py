"""The command `dragoman translate` for pando: each line is a JSON array of the ZeroMQ frames of a message, as
strings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_translate import Done, translated
from tests.mappings.pando.data import CAPTURES, VECTORS, captured, direction_of, read_of, value
from tests.pando_frame_check import check_published
from tests.smooth_frame_check import check

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
BOTH = [(), ("--commands",)]
RAW = "15-raw-rpc-edges"  # a script that sends what no client does: in tests/mappings/pando/translator/test_server.py


def lines(rows: list[list[str]]) -> list[bytes]:
    return [json.dumps(frames).encode() for frames in rows]


def said(line: bytes) -> Any:
    """Return the content of a line as JSON."""
    frames = json.loads(line)
    assert len(frames) == 1 or (len(frames) == 2 and not frames[0])
    return value(frames[-1].encode())


def rows_of(options: tuple[str, ...]) -> list[dict[str, Any]]:
    return [row for row in VECTORS if (row["kind"] == "rpc_request") == bool(options)]


@pytest.mark.parametrize("options", BOTH)
def test_every_vector_comes_back_equal_or_in_its_own_form_or_is_a_bad_line(options: tuple[str, ...]) -> None:
    rows = rows_of(options)
    done = translated("pando", "pando", lines([row["frames"] for row in rows]), *options)
    assert done.bad() == {number for number, row in enumerate(rows, 1) if row in BAD}
    good = [row for row in rows if row not in BAD]
    for row, line in zip(good, done.lines, strict=True):
        expected = OWN_FORM.get(row["name"]) or value(read_of(row["frames"], direction_of(row["kind"])))
        assert said(line) == expected, row["name"]
    assert done.code == (1 if done.bad() else 0)


@pytest.mark.parametrize("options", BOTH)
@pytest.mark.parametrize("path", [path for path in CAPTURES if path.stem != RAW], ids=lambda path: path.stem)
def test_captured_messages_come_back_equal(path: Path, options: tuple[str, ...]) -> None:
    messages = [frames for _, way, frames in captured(path) if (way == "c2s") == bool(options)]
    done = translated("pando", "pando", lines(messages), *options)
    good = [frames for number, frames in enumerate(messages, 1) if number not in done.bad()]
    assert len(done.bad()) <= 2, "calls with params of a wrong type"
    direction = direction_of("c2s" if options else "s2c")
    assert [said(line) for line in done.lines] == [value(read_of(frames, direction)) for frames in good]


@pytest.mark.parametrize("text", ["{", '"a"', "[1]", '["a"]', "[]", '["\\ud800"]'])
def test_an_invalid_line_is_reported_and_the_rest_translated(text: str) -> None:
    good = next(row["frames"] for row in VECTORS if row["name"] == "pub.llm.token")
    done = translated("pando", "pando", [text.encode(), *lines([good])])
    assert (done.bad(), len(done.lines), done.code) == ({1}, 1, 1)


def published(path: Path) -> list[list[str]]:
    """Return the messages that a subscriber to everything received."""
    return [frames for conn, way, frames in captured(path) if way == "pub" and conn == "a"]


def tokens(path: Path) -> str:
    messages = [value(frames[0].encode()) for frames in published(path)]
    return "".join(envelope["payload"]["token"] for topic, envelope in messages if topic == "llm.token")


def ended(path: Path) -> int:
    return sum(frames[0].startswith("llm.end\0") for frames in published(path))


@pytest.mark.parametrize("stem", ["02-streamed-turns", "04-parallel-tools"])
def test_the_text_of_captured_turns_reaches_smooth_and_pod_completely(stem: str) -> None:
    path = next(path for path in CAPTURES if path.stem == stem)
    smooth, pod = translate(path, "smooth"), translate(path, "pod")
    frames = [json.loads(line) for line in smooth.lines]
    for frame in frames:
        check(frame)
    assert "".join(f["token"] for f in frames if f["type"] == "stream_token") == tokens(path)
    assert sum(f["type"] == "eventual_response" for f in frames) == ended(path)
    events = [json.loads(line) for line in pod.lines]
    assert "".join(e["data"]["text"] for e in events if e["event"] == "text_delta") == tokens(path)
    assert sum(e["event"] == "run_end" for e in events) == ended(path)


def translate(path: Path, target: str) -> Done:
    done = translated("pando", target, lines(published(path)))
    assert done.bad() == set()
    return done


@pytest.mark.parametrize("options", BOTH)
@pytest.mark.parametrize("target", ["smooth", "pod"])
def test_only_malformed_and_unknown_vectors_are_bad_lines_in_other_dialects(
    target: str, options: tuple[str, ...]
) -> None:
    rows = rows_of(options)
    done = translated("pando", target, lines([row["frames"] for row in rows]), *options)
    told = {report["line"] for report in done.reports if report.get("error") not in (None, "unknown")}
    empty = {number for number, row in enumerate(rows, 1) if row["name"].startswith("req.message.send") and options}
    bad = {number for number, row in enumerate(rows, 1) if row in BAD}
    assert bad <= told <= bad | empty, [rows[number - 1]["name"] for number in told ^ bad]
    assert done.lines


@pytest.mark.parametrize("capture", sorted((CAPTURES[0].parents[1] / "pod").glob("*.jsonl")), ids=lambda p: p.stem)
def test_events_of_a_pod_are_published_in_the_form_of_a_primary(capture: Path) -> None:
    rows = [json.loads(line) for line in capture.read_text("utf-8").split("\n") if line][1:]
    told = [row["frame"].encode() for row in rows if row["dir"] == "s2c" and row["conn"] == "a"]
    done = translated("pod", "pando", told)
    frames = [json.loads(line) for line in done.lines]
    envelopes = [check_published([frame[0].encode()]) for frame in frames if len(frame) == 1]
    spoken = [message["data"]["text"] for message in map(json.loads, told) if message["event"] == "text_delta"]
    tokens = [e["payload"]["token"] for e in envelopes if e["topic"] == "llm.token"]
    assert "".join(tokens).startswith("".join(spoken)), "and what of a text came with its end alone"
