"""Round trips of every vector and captured line through the canonical form, and real refusals of requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.codewhale import DIALECT
from tests.mappings.codewhale.data import CAPTURES, LINES, VECTORS, captured, direction_of
from tests.mappings.round_trip import back_and_forth

THREAD = "thread-00000000-0000-4000-8000-000000000001"

OWN_FORM: dict[str, Any] = {
    "req.positional_params": {"jsonrpc": "2.0", "id": 72, "method": "thread/read", "params": {"thread_id": THREAD}},
    "req.positional_request": {"jsonrpc": "2.0", "id": 73, "method": "healthz", "params": None},
}
"""Messages that a server accepts but no client sends -> the form that we write (docs/dialects/codewhale.md, section
1.1).
"""

CAPTURED_OWN_FORM: dict[str, Any] = {
    '["2.0",12,"healthz",null]': {"jsonrpc": "2.0", "id": 12, "method": "healthz", "params": None},
    '{"id":17,"method":"app/healthz","params":null,"extra":true}': {"id": 17, "method": "app/healthz", "params": None},
}

SORTED = {"res.healthz.sorted_keys", "res.thread.message.seed.sorted_keys"}
"""Vectors of builds that sort all members; we write the declared order, as all other builds do."""

BAD = [row for row in LINES if ".bad." in row["name"]]
GOOD = [row for row in LINES if row not in BAD]


def test_all_vector_files_exist() -> None:
    assert (len(GOOD), len(BAD), len(VECTORS) - len(LINES)) == (115, 5, 5)


def test_each_vector_comes_back_as_it_is_or_in_its_own_form() -> None:
    back = {}
    for row in GOOD:
        step, (frame,) = back_and_forth(direction_of(row["direction"]), row["wire"].encode())
        assert (step.faults, step.losses) == ([], []), row
        is_exact = row["name"] not in OWN_FORM and row["name"] not in SORTED  # in key order too, and compact
        back[row["name"]] = frame.decode() if is_exact else json.loads(frame)
    exact = {row["name"]: row["wire"] for row in GOOD}
    in_order = {name: json.loads(exact[name]) for name in SORTED}
    assert back == exact | in_order | OWN_FORM


def test_each_bad_vector_is_one_fault_that_the_stream_survives() -> None:
    for row in BAD:
        step, frames = back_and_forth(direction_of(row["direction"]), row["wire"].encode())
        assert (frames, [fault.can_continue for fault in step.faults]) == ([], [True]), row


def test_each_written_message_reads_and_writes_the_same() -> None:
    for row in GOOD:
        direction = direction_of(row["direction"])
        (frame,) = back_and_forth(direction, row["wire"].encode())[1]
        step, frames = back_and_forth(direction, frame)
        assert (frames, step.losses) == ([frame], []), row


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_captured_lines_come_back_as_they_are(path: Path) -> None:
    """A line that the real server refused or skipped is refused here too."""
    good = 0
    answers = [json.loads(line) for _, way, line in captured(path) if way == "s2c"]
    refused = 0
    for _, way, line in captured(path):
        step, frames = back_and_forth(direction_of(way), line.encode())
        unknown = [item for burst in step.bursts for item in burst.items if isinstance(item, Unmapped)]
        if step.faults or unknown:
            assert way == "c2s"
            refused += bool(line.strip())
            continue
        assert [json.loads(frame) for frame in frames] == [CAPTURED_OWN_FORM.get(line, json.loads(line))]
        good += 1
    codes = [answer["error"]["code"] for answer in answers if "error" in answer]
    later = sum(
        "goal_record_progress" in a.get("error", {}).get("message", "") or "thread/interrupt" in str(a.get("error"))
        for a in answers
        if a.get("error", {}).get("message", "")[:7] in ("unknown", "unsuppo")
        and ("`nope`" not in a["error"]["message"] and "nope/x" not in a["error"]["message"])
    )
    assert refused == sum(code in (-32700, -32600, -32601, -32602) for code in codes) - later
    assert good >= 16


def test_an_invalid_line_loses_only_that_line() -> None:
    good = next(row["wire"] for row in GOOD if row["name"] == "line.response_delta").encode()
    step, _ = back_and_forth(DIALECT.events, good)
    DIALECT.events.receive([b"{", good], step)
    assert [len(burst.items) for burst in step.bursts] == [1, 1]
    assert [fault.code for fault in step.faults] == ["not_json"]
