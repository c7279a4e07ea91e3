"""The smooth oracle accepts the behaviour of servers, and each of its rules can fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import SmoothOracle

Message = dict[str, Any]


def sends(action: str, request: str | None = "r") -> Message:
    return {"action": action} if request is None else {"action": action, "requestId": request}


def receives(kind: str, request: str | None = "r", **fields: Any) -> Message:
    """Take a received frame with its mirrored fields (docs/dialects/smooth.md, section 2)."""
    ids = {} if request is None else {"requestId": request}
    return {"type": kind, **ids, **fields, "data": {**ids, **fields}, "timestamp": 1}


def pong(request: str = "r") -> Message:
    return {"type": "pong", "requestId": request, "data": {"timestamp": 1}, "timestamp": 1}


def accepted(request: str = "r") -> Message:
    return receives("immediate_response", request, status=202)


def reply(request: str | None = "r") -> Message:
    return receives("immediate_response", request, status=200)


def token(text: str, request: str | None = "r") -> Message:
    return receives("stream_token", request, token=text)


def chunk(name: str, what: str, request: str = "r") -> Message:
    frame = receives("stream_chunk", request, node=name)
    frame["data"]["state"] = {"rawResponse": {what: {"name": name}}}
    return frame


def answer(text: str, request: str = "r") -> Message:
    frame = receives("eventual_response", request, status=200)
    frame["data"]["data"] = {"response": {"responseParts": [text] if text else []}}
    return frame


def error(request: str | None = "r") -> Message:
    return receives("error", request, error={"code": "X", "message": "x"})


def cancelled(request: str = "r") -> Message:
    return receives("cancelled", request, status=499)


def told(*messages: Message) -> SmoothOracle:
    oracle = SmoothOracle()
    for message in messages:
        oracle.said(message) if "action" in message else oracle.got(message)
    return oracle


SEND = sends("send_message")

LEGAL = {
    "a turn with all there is": (
        sends("create_conversation_session", "c"),
        reply("c"),
        SEND,
        accepted(),
        receives("stream_preamble", token="so"),
        receives("stream_reasoning", token="hm"),
        token("a"),
        chunk("t", "toolCall"),
        chunk("t", "toolResult"),
        token("b"),
        answer("ab"),
    ),
    "an answer without the text before a tool call": (
        SEND,
        accepted(),
        token("a"),
        chunk("t", "toolCall"),
        chunk("t", "toolResult"),
        token("b"),
        answer("b"),
    ),
    "an answer without the white space at its end": (token("a", "t"), token(" \n", "t"), answer("a", "t")),
    "an answer whose last call of the model said nothing": (
        token("a", "t"),
        chunk("t", "toolCall", "t"),
        chunk("t", "toolResult", "t"),
        answer("a", "t"),
    ),
    "commands in the middle of a turn": (
        SEND,
        sends("ping", "p"),
        accepted(),
        pong("p"),
        sends("get_session", None),
        token("a"),
        reply(None),
        answer("a"),
    ),
    "a rejected send": (SEND, error()),
    "a rejected send without an id": (sends("send_message", None), error("minted")),
    "a send without an id": (sends("send_message", None), accepted("minted"), answer("", "minted")),
    "a second input while a turn is open": (SEND, accepted(), sends("send_message", "s"), error("s"), answer("")),
    "the same id twice": (SEND, accepted(), SEND, error(None), token("a"), answer("a")),
    "a used id once more": (SEND, accepted(), answer(""), SEND, accepted(), error()),
    "cancel under another id": (SEND, accepted(), sends("cancel", "c"), token("a"), cancelled()),
    "a cancel with nothing to cancel": (sends("cancel", "c"), sends("ping", "p"), pong("p")),
    "a turn of somebody else": (token("a", "t"), chunk("t", "toolCall", "t"), answer("a", "t")),
    "a call that waited for an answer in words": (
        SEND,
        accepted(),
        chunk("t", "toolCall"),
        answer(""),
        SEND,
        accepted(),
        chunk("t", "toolResult"),
        answer(""),
    ),
    "what somebody else resumed": (chunk("t", "toolResult", "t"), answer("", "t")),
    "a turn of somebody else that fails at once": (error("t"),),
    "a confirmation under its turn's id": (
        SEND,
        accepted(),
        receives("write_confirmation_required"),
        chunk("t", "toolCall"),
        sends("confirm_tool_action"),
        reply(),
        chunk("t", "toolResult"),
        answer(""),
    ),
    "a code": (
        SEND,
        accepted(),
        receives("otp_verification_required"),
        receives("otp_sent"),
        answer(""),
        sends("verify_otp"),
        receives("otp_invalid"),
        sends("verify_otp"),
        receives("otp_verified"),
    ),
    "a form that was filled in wrong": (
        SEND,
        accepted(),
        receives("interaction_required"),
        sends("submit_interaction"),
        receives("interaction_invalid"),
        sends("submit_interaction"),
        reply(),
        answer(""),
    ),
    "pushes that nobody asked for": (receives("keepalive"), receives("whatever", None), error(None)),
}


def test_a_counted_gap_excuses_the_tokens_of_one_turn() -> None:
    oracle = SmoothOracle()
    oracle.gaps = 1
    for frame in (token("world"), answer("hello world")):
        oracle.got(frame)
    oracle.got(token("world", "t2"))
    with pytest.raises(AssertionError, match="the tokens of a turn are its answer"):
        oracle.got(answer("hello world", "t2"))


def test_a_line_before_the_answer_may_report_the_lost_context() -> None:
    oracle = SmoothOracle()
    oracle.forgotten = True
    for frame in (token("[it forgot]\n\n"), token("hello"), answer("hello"), token("[it forgot]\n\n", "t2")):
        oracle.got(frame)
    with pytest.raises(AssertionError, match="the tokens of a turn are its answer"):
        oracle.got(answer("", "t2"))


@pytest.mark.parametrize("name", LEGAL)
def test_documented_traffic_of_servers_is_legal(name: str) -> None:
    told(*LEGAL[name])


def without(frame: Message, key: str) -> Message:
    return {**frame, "data": {name: value for name, value in frame["data"].items() if name != key}}


ILLEGAL = [
    ("timestamp is an integer", [{**pong(), "timestamp": 1.5}]),
    ("requestId is mirrored", [SEND, accepted(), without(token("a"), "requestId")]),
    ("token is mirrored", [SEND, accepted(), without(token("a"), "token")]),
    ("node is mirrored", [SEND, accepted(), without(chunk("t", "toolCall"), "node")]),
    ("status is mirrored", [SEND, accepted(), without(cancelled(), "status")]),
    ("error is mirrored", [SEND, without(error(), "error")]),
    ("timestamp is mirrored", [sends("ping"), {**pong(), "data": {"timestamp": 2}}]),
    ("a 202 answers", [accepted()]),
    ("a 202 answers", [SEND, accepted(), answer(""), accepted()]),
    ("a 202 answers", [sends("ping"), accepted()]),
    ("one turn at a time", [SEND, accepted(), sends("send_message", "s"), accepted("s")]),
    ("stands under a turn's id", [token("a", None)]),
    ("the 202 comes before stream_token", [SEND, token("a")]),
    ("the 202 comes before eventual_response", [SEND, answer("")]),
    ("nothing of a turn after its end: stream_token", [SEND, accepted(), answer(""), token("a")]),
    ("nothing of a turn after its end: stream_token", [SEND, accepted(), error(), token("a")]),
    ("nothing of a turn after its end: stream_token", [SEND, error(), token("a")]),
    ("nothing of a turn after its end: cancelled", [SEND, accepted(), cancelled(), cancelled()]),
    ("nothing of a turn after its end: eventual_response", [token("a", "t"), answer("a", "t"), answer("a", "t")]),
    ("an error answers one command, or ends one turn", [SEND, accepted(), answer(""), error()]),
    ("an error answers one command, or ends one turn", [sends("ping"), pong(), error()]),
    ("stream_token answers no command", [sends("ping"), token("a")]),
    ("a tool's result comes after its call", [SEND, accepted(), chunk("t", "toolResult")]),
    (
        "a tool's result comes after its call",
        [SEND, accepted(), chunk("t", "toolCall"), chunk("t", "toolResult"), chunk("t", "toolResult")],
    ),
    ("the tokens of a turn are its answer", [SEND, accepted(), token("a"), answer("ab")]),
    ("the tokens of a turn are its answer", [token("b", "t"), answer("ab", "t")]),
    ("the tokens of a turn are its answer", [token("a", "t"), token("b", "t"), answer("b", "t")]),
    (
        "the tokens of a turn are its answer",
        [SEND, accepted(), token("a"), chunk("t", "toolCall"), chunk("t", "toolResult"), token("b"), answer("a")],
    ),
    (
        "the tokens of a turn are its answer",
        [SEND, accepted(), token("a"), chunk("t", "toolCall"), chunk("t", "toolResult"), token("b"), answer("")],
    ),
    ("immediate_response answers a command", [reply()]),
    ("immediate_response answers a command", [sends("get_session"), reply("other")]),
    ("immediate_response answers a command", [sends("get_session"), reply(), reply()]),
    ("immediate_response answers a command", [sends("ping"), reply()]),
    ("pong answers a command", [sends("get_session"), pong()]),
    ("otp_verified answers a command", [sends("ping"), receives("otp_verified")]),
    ("interaction_invalid answers a command", [receives("interaction_invalid")]),
]


@pytest.mark.parametrize(("rule", "messages"), ILLEGAL)
def test_each_illegal_message_fails_with_its_rule(rule: str, messages: list[Message]) -> None:
    with pytest.raises(AssertionError, match=rule):
        told(*messages)


def test_a_failure_shows_what_came_before() -> None:
    with pytest.raises(AssertionError, match=r'(?s)> .*"send_message".*< .*"token": "a"'):
        told(SEND, token("a"))


def test_the_oracle_reports_open_requests_and_runs() -> None:
    assert told(SEND, accepted(), token("b", "t"), sends("ping", "p"), sends("cancel", "c")).open == [
        "r",
        "t",
        "ping p",
    ]
    assert told(SEND, accepted(), answer("")).open == []
