"""The codewhale oracle accepts the captures of real servers, and each of its rules can fail."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tests.mappings.codewhale.data import CAPTURES, captured
from tests.oracle import codewhale
from tests.oracle.codewhale import HEAD, SEED, CodewhaleOracle

Message = dict[str, Any]

THREAD = "thread-00000000-0000-4000-8000-000000000001"
NAME = "thr_1:turn_1"


def ask(method: str = "healthz", id: Any = 1, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def well(result: Any = None, id: Any = 1) -> Message:
    return {"jsonrpc": "2.0", "id": id, "result": {} if result is None else result}


def no(code: int, message: str, id: Any = 1) -> Message:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": None}}


def bare(kind: str, name: str = NAME, **more: Any) -> Message:
    return {"type": f"response_{kind}", "response_id": name, **more}


def framed(kind: str, **more: Any) -> Message:
    return {"event": f"response_{kind}", "response_id": NAME, **more}


SAY = ask("thread/message", thread_id=THREAD, input="Hi")
START, WORD, END = bare("start"), bare("delta", delta="a"), bare("end")
NONE: Message = dict.fromkeys(("thread", "model", "model_provider", "cwd", "approval_policy", "sandbox"))
DONE: Message = {
    "thread_id": THREAD,
    "status": "accepted",
    "threads": [],
    **NONE,
    "events": [],
    "data": {"turn_id": "turn_1"},
}
OLD: Message = {
    "thread_id": THREAD,
    "status": "accepted",
    "threads": [],
    "data": {},
    "events": [framed("start"), framed("delta", delta="a"), framed("end")],
}
GARBLED: Message = {}
UNREAD = no(-32700, "invalid json: what", None)


def told(*messages: Message, generation: str = HEAD) -> CodewhaleOracle:
    oracle = CodewhaleOracle(generation)
    for message in messages:
        if not message:
            oracle.garbled()
        elif "method" in message:
            oracle.said(message)
        else:
            oracle.got(message)
    return oracle


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_captured_traffic_of_real_servers_is_legal(path: Path) -> None:
    oracle = CodewhaleOracle(SEED if path.stem.startswith("13") else HEAD)
    for _, way, line in captured(path):
        if way == "s2c":
            oracle.got(json.loads(line))
        elif line.strip():
            try:
                oracle.said(dict(json.loads(line)))
            except ValueError:  # no JSON, or no object: an array of members among them
                if line.startswith('["2.0"'):
                    oracle.said(dict(zip(("jsonrpc", "id", "method", "params"), json.loads(line), strict=True)))
                else:
                    oracle.garbled()
    assert oracle.open == []


LEGAL: dict[str, tuple[Message, ...]] = {
    "a turn with thoughts and tools": (
        SAY,
        START,
        WORD,
        END,
        well({**DONE, "events": [framed("delta", delta="hm", channel="reasoning")]}),
    ),
    "a turn without words": (SAY, START, END, well(DONE)),
    "a turn that failed, and one that was refused": (SAY, START, WORD, END, no(-32603, "x"), SAY, no(-32603, "busy")),
    "what was asked while a turn ran": (
        SAY,
        START,
        ask("healthz", 2),
        GARBLED,
        END,
        no(-32603, "turn interrupted"),
        well(None, 2),
        UNREAD,
    ),
    "a request without an id": ({"method": "healthz"}, well(None, None)),
    "ids of any kind": (ask(id=True), well(id=True), ask(id={"a": [1]}), well(id={"a": [1]})),
    "a key twice": (ask(), UNREAD),
    "shutdown": (ask("shutdown"), well({"ok": True, "status": "stopped"})),
}


@pytest.mark.parametrize("name", LEGAL)
def test_documented_traffic_of_servers_is_legal(name: str) -> None:
    assert told(*LEGAL[name]).open == []


def test_the_seed_has_its_text_in_the_result_and_may_print_more_lines_for_prompts() -> None:
    told(SAY, START, END, well(OLD), ask("prompt/run"), START, WORD, END, well(), generation=SEED)


ILLEGAL = [
    ("nothing comes after the answer to shutdown", HEAD, [ask("shutdown"), well(), ask(id=2), well(id=2)]),
    ("a server prints no other lines", HEAD, [SAY, bare("pause")]),
    ("a bare line is no answer", HEAD, [SAY, bare("start", id=1)]),
    ("a line belongs to the message that waits", HEAD, [START]),
    ("a line belongs to the message that waits", HEAD, [ask(), START]),
    ("a line belongs to the message that waits", HEAD, [ask("prompt/run"), START]),
    ("a line belongs to the message that waits", HEAD, [SAY, START, END, well(DONE), WORD]),
    ("a response ends before the next one starts", HEAD, [SAY, START, START]),
    ("a message has one response", HEAD, [SAY, START, END, START]),
    ("a line belongs to the response that started", HEAD, [SAY, WORD]),
    ("a line belongs to the response that started", HEAD, [SAY, START, bare("delta", "thr_1:turn_2", delta="a")]),
    ("a line belongs to the response that started", HEAD, [SAY, START, END, WORD]),
    ("a line belongs to the response that started", HEAD, [SAY, START, END, END]),
    ("a delta has text", HEAD, [SAY, START, bare("delta", delta="")]),
    ("text alone is streamed", HEAD, [SAY, START, bare("delta", delta="hm", channel="reasoning")]),
    ("a release that does not stream", SEED, [SAY, START, WORD]),
    ("an answer says its version", HEAD, [ask(), {"id": 1, "result": {}}]),
    ("an answer is a result or an error", HEAD, [ask(), {"jsonrpc": "2.0", "id": 1}]),
    ("an answer is a result or an error", HEAD, [ask(), {**well(), **no(-32603, "x")}]),
    ("one answer a request", HEAD, [well()]),
    ("one answer a request", HEAD, [ask(), well(), well()]),
    ("a response ends before its answer", HEAD, [SAY, START, well(DONE)]),
    ("an error has its three fields", HEAD, [ask(), {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}]),
    ("what could not be read has no id", HEAD, [ask(), no(-32700, "invalid json: x")]),
    ("a parse error says what it is", HEAD, [GARBLED, no(-32700, "x", None)]),
    ("what is no request is answered by a parse error", HEAD, [GARBLED, well(id=None)]),
    ("answers come in the order of requests", HEAD, [ask(), ask(id=2), well(id=2)]),
    ("answers come in the order of requests", HEAD, [ask(), no(-32603, "x", None)]),
    ("answers come in the order of requests", HEAD, [ask(), well(id=True)]),
    ("an unknown method is named", HEAD, [ask("nope"), no(-32601, "what?")]),
    ("a message that went well was responded to", HEAD, [SAY, well(DONE)]),
    ("a message that went well was accepted", HEAD, [SAY, START, END, well({**DONE, "status": "ok"})]),
    ("a result names the thread", HEAD, [SAY, START, END, well({**DONE, "thread_id": "other"})]),
    ("a message's result has its nulls", HEAD, [SAY, START, END, well({**DONE, "cwd": "/w"})]),
    ("a message's result has its nulls", HEAD, [SAY, START, END, well(OLD)]),
    ("a message's result has no goal", HEAD, [SAY, START, END, well({**DONE, "goal": None})]),
    ("a response is named after its turn", HEAD, [SAY, START, END, well({**DONE, "data": {"turn_id": "turn_2"}})]),
    ("is not said again", HEAD, [SAY, START, WORD, END, well({**DONE, "events": [framed("delta", delta="a")]})]),
    ("the seed leaves out what is none", SEED, [SAY, START, END, well({**OLD, **NONE})]),
    ("the seed's result tells its response", SEED, [SAY, START, END, well({**OLD, "events": []})]),
]


@pytest.mark.parametrize(("rule", "generation", "messages"), ILLEGAL)
def test_each_illegal_message_fails_with_its_rule(rule: str, generation: str, messages: list[Message]) -> None:
    with pytest.raises(AssertionError, match=rule):
        told(*messages, generation=generation)


def test_every_rule_of_the_oracle_is_violated_by_one_test() -> None:
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(codewhale))) if isinstance(node, ast.Call)]
    held = [c.args[1] for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "hold"]
    rules = [str(rule.value) for rule in held if isinstance(rule, ast.Constant)]
    assert len(rules) == len(held) > 20
    assert [rule for rule in rules if not any(broken in rule for broken, _, _ in ILLEGAL)] == []


def test_the_oracle_reports_open_requests_and_runs() -> None:
    assert told(SAY, START, ask("healthz", 2)).open == ["thread/message", "healthz"]
