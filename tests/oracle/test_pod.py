"""The pod oracle accepts the behaviour of pods, and each of its rules can fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.pod_messages import delta, done, echo, problem, rotated, run_end, say, snapshot, status, took
from tests.oracle import PodOracle

Message = dict[str, Any]

RUNNING, IDLE, PAUSED = status("running"), status("idle"), status("paused")
TURN, TURN_END = say("turn_start", turn=0), say("turn_end", turn=0, result="finished")
CALL, CALL_END = say("llm_call_start", llm_call=0), say("llm_call_end", llm_call=0)
START = (snapshot(), *took("Hi"), say("invoke_start", kind="user_send"), TURN)
FINISHED = run_end("finished")
ALERT = say("alert", level="warn", source="pod", message="x", timestamp_ms=1)


def thinking(*deltas: str, whole: str | None = None) -> tuple[Message, ...]:
    text = "".join(deltas) if whole is None else whole
    return (say("thinking_start"), *(say("thinking_delta", text=d) for d in deltas), say("thinking_done", text=text))


def called(call: str = "c", name: str = "t") -> Message:
    return say("tool_call_start", id=call, name=name)


def fragment(json: str, call: str = "c") -> Message:
    return say("tool_call_args_delta", id=call, json=json)


def whole(arguments: str = "{}", call: str = "c", name: str = "t") -> Message:
    return say("tool_call_done", id=call, name=name, arguments=arguments)


def result(call: str = "c") -> Message:
    return say("tool_result", id=call, summary="s", is_error=False)


def logged(call: str = "c") -> Message:
    item = {"kind": "tool_call", "call_id": call, "name": "t", "arguments": "{}"}
    return {"kind": "assistant_item", "item": item, "ts": 1}


def whole_run(turn: int) -> tuple[Message, ...]:
    """Return the end of a completed run, with the end of its model turn right before it (docs/dialects/pod.md, section
    7).
    """
    return say("turn_end", turn=turn, result="finished"), FINISHED


def told(*messages: Message) -> PodOracle:
    oracle = PodOracle()
    for message in messages:
        oracle.said(message) if "method" in message else oracle.got(message)
    return oracle


COMPLETE = {"method": "list_completions", "params": {"kind": "file", "prefix": ""}}

LEGAL = {
    "a run with all there is": (
        ALERT,
        *START,
        CALL,
        *thinking("a", "b"),
        delta("x"),
        delta("y"),
        done("xy"),
        called(),
        fragment('{"b":'),
        fragment(' 1, "a": 2}'),
        whole('{"a":2,"b":1}'),
        say("usage", input_tokens=1, output_tokens=None),
        CALL_END,
        TURN_END,
        result(),
        say("turn_start", turn=1),
        delta("z"),
        done("z"),
        say("turn_end", turn=1),
        FINISHED,
        IDLE,
        say("shutdown"),
    ),
    "a run that was cut": (
        *START,
        CALL,
        say("thinking_start"),
        problem("internal", "Cancelled"),
        IDLE,
        *took("Again"),
        say("turn_start", turn=1),
        delta("a"),
        done("a"),
        called(),
        run_end("paused"),
        PAUSED,
        RUNNING,
        say("turn_start", turn=2),
        delta("b"),
        done("b"),
        *whole_run(2),
        IDLE,
    ),
    "the lanes in another order": (
        snapshot(),
        echo("Hi"),
        say("invoke_start", kind="user_send"),
        rotated(),
        RUNNING,
        ALERT,
        TURN,
        *whole_run(0),
        say("system_item", item={}),
        IDLE,
    ),
    "a run that nobody asked for": (
        snapshot(),
        RUNNING,
        say("invoke_start", kind="notify"),
        TURN,
        delta("a"),
        done("a"),
        *whole_run(0),
        IDLE,
    ),
    "a status that repeats the snapshot": (snapshot(status="running"), RUNNING, delta("a"), done("a"), FINISHED, IDLE),
    "the remains of a run": (
        snapshot(status="running"),
        delta("b"),
        done("ab"),
        TURN_END,
        CALL_END,
        delta("c"),
        done("c"),
        FINISHED,
        IDLE,
    ),
    "a call of which only the end is seen": (
        snapshot(status="running"),
        fragment("1]}"),
        whole('{"a":[1]}'),
        result(),
        FINISHED,
        IDLE,
    ),
    "a model turn that was cut short gives its number to the next": (
        *START,
        delta("a"),
        done("a"),
        say("error", code="internal", message="Cancelled"),
        IDLE,
        *took("again"),
        say("invoke_start", kind="user_send"),
        TURN,
        *whole_run(0),
        IDLE,
    ),
    "the history told anew": (*START, *whole_run(0), IDLE, rotated(), IDLE, rotated(), RUNNING, delta("a")),
    "a history told anew in a run whose middle was missed": (
        snapshot(),
        *took("Hi"),
        rotated(),
        RUNNING,
        delta("b"),
        done("ab"),
        FINISHED,
        IDLE,
    ),
    "a reasoning block of which only the end is seen": (
        snapshot(status="running"),
        say("thinking_delta", text="b"),
        say("thinking_done", text="ab"),
        FINISHED,
        IDLE,
    ),
    "a reasoning block without words": (*START, *thinking("a", whole="")),
    "a continued stream": (
        *START,
        CALL,
        CALL_END,
        say("llm_continuation", llm_call=0, attempt=1, max_attempts=3, reason="x"),
        say("llm_call_start", llm_call=1),
        delta("a"),
        done("a"),
        *whole_run(0),
        IDLE,
    ),
    "a resumed call": (
        *START,
        called(),
        whole(),
        run_end("paused"),
        PAUSED,
        RUNNING,
        result(),
        say("turn_start", turn=1),
        *whole_run(1),
        IDLE,
    ),
    "the result of a call that the history tells": (
        snapshot(logged(), status="paused"),
        RUNNING,
        result(),
        say("turn_start", turn=1),
        *whole_run(1),
        IDLE,
    ),
    "the result of a call that a rotation tells": (
        snapshot(),
        rotated({"kind": "tool_call", "call_id": "c", "name": "t", "arguments": "{}"}),
        RUNNING,
        result(),
    ),
    "a question that ends the client's run": (
        *START,
        delta("May I?"),
        done("May I?"),
        run_end("paused"),
        PAUSED,
        *took("approve"),
        say("invoke_start", kind="user_send"),
        say("turn_start", turn=1),
        *whole_run(1),
        IDLE,
    ),
    "an input with an invalid workflow": (snapshot(), *took("/x"), problem("invalid_request", "no such"), IDLE),
    "a refusal instead of a snapshot": (problem("invalid_request", "not for you"),),
    "completions": (snapshot(), COMPLETE, say("completions", kind="file", entries=[])),
}


@pytest.mark.parametrize("name", LEGAL)
def test_documented_traffic_of_pods_is_legal(name: str) -> None:
    told(*LEGAL[name])


ILLEGAL = [
    ("alerts, then the snapshot", [IDLE]),
    ("nothing comes after shutdown", [problem("invalid_request", "not for you"), snapshot()]),
    ("one snapshot", [snapshot(), snapshot()]),
    ("nothing comes after shutdown", [snapshot(), say("shutdown"), ALERT]),
    ("a run ends before shutdown", [*START, say("shutdown")]),
    ("completions go to the connection", [snapshot(), say("completions", kind="file", entries=[])]),
    ("no status goes from idle to paused", [snapshot(), PAUSED]),
    ("no status goes from idle to idle", [*START, *whole_run(0), IDLE, IDLE]),
    ("no status goes from running to running", [*START, RUNNING]),
    ("no status goes from paused to idle", [snapshot(status="paused"), IDLE]),
    ("a run ends by run_end or by an error", [*START, IDLE]),
    ("agree on a pause", [*START, run_end("paused"), IDLE]),
    ("agree on a pause", [*START, *whole_run(0), PAUSED]),
    ("user_message stands before its run's content", [*START, echo("Hi")]),
    ("user_message stands before its run's content", [snapshot(), echo("Hi"), echo("Hi")]),
    ("user_message stands before its run's content", [snapshot(), RUNNING, TURN, echo("Hi")]),
    ("text_delta stands in a run", [snapshot(), delta("a")]),
    ("run_end stands in a run", [snapshot(), FINISHED]),
    ("usage stands in a run", [*START, *whole_run(0), IDLE, say("usage", input_tokens=1, output_tokens=1)]),
    ("after run_end comes status, not text_delta", [*START, *whole_run(0), delta("a")]),
    ("after run_end comes status, not run_end", [*START, *whole_run(0), FINISHED]),
    ("turn_start comes before text_delta", [snapshot(), RUNNING, delta("a")]),
    ("turn_start comes before thinking_start", [snapshot(), RUNNING, *thinking("a")]),
    ("turn_start comes before tool_call_start", [snapshot(), RUNNING, called()]),
    ("turn_start: the counter grows", [*START, TURN_END, TURN]),
    ("llm_call_start: the counter grows", [*START, CALL, CALL_END, CALL]),
    ("turn_end ends what began", [*START, TURN_END, TURN_END]),
    ("turn_end has the index of what began", [*START, say("turn_end", turn=1)]),
    ("llm_call_end ends what began", [*START, CALL_END]),
    ("turn_end comes before run_end{finished}", [*START, FINISHED]),
    ("a run ends well with its text block closed", [*START, delta("a"), FINISHED]),
    ("a run ends well with its thinking block closed", [*START, say("thinking_start"), run_end("limit_reached")]),
    ("a run ends well with whole calls", [*START, called(), FINISHED]),
    ("text_done says what its deltas said", [*START, delta("a"), done("ab")]),
    ("text_done closes a text block", [*START, done("a")]),
    ("text_done closes a text block", [*START, say("thinking_start"), done("a")]),
    ("text_done ends as its deltas did", [snapshot(status="running"), delta("x"), done("ab")]),
    ("text_done closes a text block", [snapshot(status="running"), say("thinking_delta", text="a"), done("a")]),
    ("thinking_done says what its deltas said", [*START, *thinking("a", whole="b")]),
    ("thinking_done closes a thinking block", [*START, delta("a"), say("thinking_done", text="a")]),
    ("thinking_delta belongs to an open thinking block", [*START, say("thinking_delta", text="a")]),
    ("text_delta belongs to an open text block", [*START, say("thinking_start"), delta("a")]),
    ("thinking_start while a text block is open", [*START, delta("a"), say("thinking_start")]),
    ("tool_call_start while a thinking block is open", [*START, say("thinking_start"), called()]),
    ("a call starts once", [*START, called(), called()]),
    ("tool_call_args_delta belongs to a call", [*START, fragment("{}")]),
    ("tool_call_args_delta belongs to a call", [*START, called(), whole(), fragment("{}")]),
    ("tool_call_done belongs to a call", [*START, whole()]),
    ("a call keeps its name", [*START, called(), whole(name="u")]),
    ("says what its fragments said", [*START, called(), fragment('{"a": 1}'), whole('{"a":2}')]),
    ("a result answers a whole call, once", [*START, result()]),
    ("a result answers a whole call, once", [*START, called(), result()]),
    ("a result answers a whole call, once", [*START, called(), whole(), result(), result()]),
]


@pytest.mark.parametrize(("rule", "messages"), ILLEGAL)
def test_each_illegal_message_fails_with_its_rule(rule: str, messages: list[Message]) -> None:
    with pytest.raises(AssertionError, match=rule):
        told(*messages)


def test_the_oracle_reports_open_requests_and_runs() -> None:
    assert told(*START).open == ["a run"]
    assert told(snapshot(), echo("Hi")).open == ["a run to come"]
    assert told(*START, *whole_run(0), IDLE).open == []
