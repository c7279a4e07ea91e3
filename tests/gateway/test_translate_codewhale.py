"""The command `dragoman translate` for codewhale: each line is one of its stdin or stdout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.test_translate import translated
from tests.mappings.codewhale.data import CAPTURES, LINES, captured
from tests.players.capture_readers import Turn, turns_of
from tests.players.captures import messages
from tests.smooth_frame_check import check

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

BOTH = [("server_to_client", ()), ("client_to_server", ("--commands",))]
REFUSED = (-32700, -32600, -32601, -32602)
"""Codes with which a real server refuses a single line, whatever came before."""

both = pytest.mark.parametrize(("direction", "options"), BOTH)


def rows_of(direction: str) -> list[dict[str, Any]]:
    return [row for row in LINES if row["direction"] == direction]


def bad(row: dict[str, Any]) -> bool:
    return ".bad." in row["name"]


DECLARED = {
    "res.healthz.sorted_keys": {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"status": "ok", "service": "deepseek-app-server", "transport": "stdio"},
    },
    "res.thread.message.seed.sorted_keys": {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "thread_id": "t",
            "status": "accepted",
            "threads": [],
            "events": [
                {"event": "response_start", "response_id": "t:5"},
                {"event": "response_delta", "response_id": "t:5", "delta": "queued"},
                {"event": "response_end", "response_id": "t:5"},
            ],
            "data": {},
        },
    },
}
"""Lines of builds that sort keys, in the order that all other builds write
(docs/dialects/codewhale.md, section 1.3).
"""


def canonical(row: dict[str, Any]) -> str:
    """Return the expected line: the line itself if a peer emits it, else the form in which a peer emits it."""
    own = OWN_FORM.get(row["name"]) or DECLARED.get(row["name"])
    return str(row["wire"]) if own is None else compact(own)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@both
def test_every_vector_comes_back_byte_for_byte_or_in_its_own_form_or_is_a_bad_line(
    direction: str, options: tuple[str, ...]
) -> None:
    rows = rows_of(direction)
    done = translated("codewhale", "codewhale", [row["wire"].encode() for row in rows], *options)
    blank = {number for number, row in enumerate(rows, 1) if not row["wire"].strip()}
    assert done.bad() == {number for number, row in enumerate(rows, 1) if bad(row)} - blank, "servers skip blank lines"
    assert [line.decode() for line in done.lines] == [canonical(row) for row in rows if not bad(row)]
    assert done.code == (1 if done.bad() else 0)


# -- captured lines ----------------------------------------------------------------------------------


def lines_of(way: str) -> list[str]:
    """Return every line of this direction in a capture."""
    return [line for path in CAPTURES for _, to, line in captured(path) if to == way]


def test_every_captured_line_of_a_server_comes_back_byte_for_byte() -> None:
    said = lines_of("s2c")
    done = translated("codewhale", "codewhale", [line.encode() for line in said])
    assert len(said) > 400
    assert [line.decode() for line in done.lines] == said
    assert (done.reports, done.code) == ([], 0)


def test_every_captured_request_comes_back_or_is_one_that_the_real_server_refused() -> None:
    said = [line for line in lines_of("c2s") if line.strip()]
    done = translated("codewhale", "codewhale", [line.encode() for line in said], "--commands")
    good = [line for number, line in enumerate(said, 1) if number not in done.bad()]
    assert [json.loads(line) for line in done.lines] == [CAPTURED_OWN_FORM.get(line, json.loads(line)) for line in good]
    answers = [json.loads(line) for line in lines_of("s2c")]
    refusals = [a["error"] for a in answers if a.get("error", {}).get("code") in REFUSED]
    of_the_seed = [e for e in refusals if "thread/interrupt" in e["message"] or "`goal_record" in e["message"][:38]]
    assert len(of_the_seed) == 2, "what came later: good lines for us"
    assert len(done.bad()) == len(refusals) - len(of_the_seed)


def test_blank_lines_are_not_reported() -> None:
    done = translated("codewhale", "codewhale", [b"   ", b"", b"\t\r", b'{"id":1,"method":"healthz"}\r'], "--commands")
    assert (done.lines, done.reports, done.code) == ([b'{"id":1,"method":"healthz"}'], [], 0)


# -- to other dialects -------------------------------------------------------------------------------

PLAYED = ("02", "04", "05")
ENDS = {
    "smooth": {"completed": "eventual_response", "failed": "error", "cancelled": "cancelled"},
    "pod": {"completed": "finished", "failed": "failed", "cancelled": "Cancelled"},
    "pando": dict.fromkeys(("completed", "failed", "cancelled"), "llm.end"),
}


def shown(target: str, lines: list[bytes]) -> tuple[str, list[str]]:
    """Return the text that clients of a dialect receive, and how each turn ends."""
    text, ends = "", []
    for line in map(json.loads, lines):
        match target:
            case "smooth":
                check(line)
                text += line.get("token", "")
                ends += [line["type"]] if line["type"] in ENDS[target].values() and _of_a_turn(line) else []
            case "pod":
                data = line.get("data", {})
                text += data["text"] if line["event"] == "text_delta" else ""
                if line["event"] == "run_end":
                    ends.append(data["result"])
                elif line["event"] == "error":
                    ends.append("Cancelled" if data["message"] == "Cancelled" else "failed")
            case "pando" if len(line) == 1:
                payload = json.loads(line[0].partition("\0")[2])["payload"]
                topic = line[0].partition("\0")[0]
                text += payload["token"] if topic == "llm.token" else ""
                ends += [topic] if topic == "llm.end" else []
    return text, ends


def _of_a_turn(frame: dict[str, Any]) -> bool:
    """Return True if the event has the id of a turn, which counts from 0, and not the id of a request."""
    return str(frame.get("requestId", "")).startswith("00000000-")


@pytest.mark.parametrize("target", ENDS)
def test_the_captured_turns_have_their_text_and_their_ends_in_other_dialects(target: str) -> None:
    turns: list[Turn] = []
    told: list[bytes] = []
    for number in PLAYED:
        wire = [message for message in messages("codewhale", number) if not _refuses(message.text)]
        answered = {message.value.get("id") for message in wire if message.way == "got"}
        asked = [m for m in wire if m.way == "got" or (isinstance(m.value, dict) and m.value["id"] in answered)]
        turns += turns_of("codewhale", ((message.way, message.value) for message in asked))
        told += [message.text.encode() for message in wire if message.way == "got"]
    done = translated("codewhale", target, told)
    text = "".join(turn.text for turn in turns)
    assert shown(target, done.lines) == (text, [ENDS[target][turn.end] for turn in turns])
    assert done.bad() == set()


def _refuses(line: str) -> bool:
    """Return True for an answer to a request that was no turn: pod clients see it as an error that resembles a turn's
    end.
    """
    return "runtime API returned" in line or '"code":-32700' in line
