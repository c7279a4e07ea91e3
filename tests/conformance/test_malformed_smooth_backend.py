"""Malformed messages of smooth servers, with the gateway as their client
(docs/dialects/smooth.md, sections 1, 2, 4, 6, 8 and 11).

Three clients observe: the one that began the turn, another of the same session, and one of another session. They
receive only legal frames and one terminal of each turn, and dropped messages are counted. The connection to the server
stays, and carries the next turn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct

from dragoman.gateway.app import App
from dragoman.gateway.endpoint import parse
from tests.conformance.fake_smooth import FakeSmooth, ended, of_turn
from tests.conformance.malformed_input import (
    ABSENT,
    GOOD,
    MAX_MESSAGE,
    Frame,
    SmoothBystander,
    fits,
    listening,
)
from tests.pairs.gateway import TERMINALS

State = Literal["hold", "mute"]
"""The turn of the asker: `hold` was accepted, `mute` has no answer yet."""


class HangsUp(Struct, frozen=True):
    """A step of a server that closes the connection."""

    code: int


class Row(Struct, frozen=True, kw_only=True):
    """Frames that the server sends in an open turn, the frames that the asking client receives, and the number of
    faults and losses. With `own` no other client of the session receives anything. With `again` the connection ends
    and is made again.
    """

    name: str
    say: Sequence[Any]
    told: Any = ()
    state: State = "hold"
    counted: int | None = 0
    own: bool = False
    again: bool = False


def row(name: str, *say: Any, **others: Any) -> Row:
    return Row(name=name, say=say, **others)


def without(frame: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in frame.items() if key not in keys}


def token(text: str, request: object = "turn") -> dict[str, Any]:
    return {"type": "stream_token", "requestId": request, "token": text, "data": {"requestId": request, "token": text}}


def answer(text: str, request: object = "turn") -> dict[str, Any]:
    """Return the end of a turn whose whole visible text is `text` (docs/translation.md, rule 3.7)."""
    response = {"responseParts": lambda parts: "".join(parts) == text}
    return {"type": "eventual_response", "requestId": request, "data": {"data": {"response": response}}}


def error(code: str, request: object = "turn") -> dict[str, Any]:
    return {"type": "error", "requestId": request, "error": {"code": code}, "data": {"error": {"code": code}}}


def lost(cause: str) -> dict[str, Any]:
    return {"type": "error", "error": {"message": f"the connection to the backend was lost{cause}"}}


def said_error(code: str, request: str | None = "$turn") -> dict[str, Any]:
    body = {"error": {"code": code, "message": "m"}}
    ids = {} if request is None else {"requestId": request}
    return {"type": "error", **ids, **body, "data": {**ids, **body}, "timestamp": 1}


def chunk(raw: Any) -> dict[str, Any]:
    return of_turn("stream_chunk", node="n", state={"rawResponse": raw})


def call(arguments: Any) -> dict[str, Any]:
    return chunk({"toolCall": {"name": "t", "arguments": arguments}})


def result(name: str = "t", text: Any = "r") -> dict[str, Any]:
    return chunk({"toolResult": {"name": name, "isError": False, "result": text}})


def nested(depth: int) -> str:
    return '{"type":"stream_chunk","data":' + "[" * depth + "]" * depth + "}"


TOKEN = of_turn("stream_token", token="x")
PARTIAL = {"type": "stream_chunk"}

UNREADABLE: dict[str, Any] = {
    "1: not JSON": "hello",
    "1: an empty frame": "",
    "1: JSON cut off": '{"type":"stream_token"',
    "1: binary that is no text": b"\xff\x00",
    "1: nested 100,000 deep": nested(100_000),
    "1: nested 2,000 deep": nested(2_000),
    "1: a frame over max_message": "x" * (MAX_MESSAGE + 1),
    "2: an array": "[]",
    "2: a number": "7",
    "2: null": "null",
    "2: no type": "{}",
    "2: a type that is a number": '{"type":7}',
    "4: a token that is a number": of_turn("stream_token", token=7),
    "4: no token at all": of_turn("stream_token"),
    "4: a chunk without a state": of_turn("stream_chunk", node="n"),
    "4: a chunk whose state is text": of_turn("stream_chunk", node="n", state="s"),
    "4: a reply whose data is an array": {"type": "immediate_response", "status": 200, "data": []},
}
"""Frames that strict clients drop in silence (section 9); each costs itself alone, and is counted."""

UNREADABLE_ENDS: dict[str, Any] = {
    "4: an end without an answer": of_turn("eventual_response", status=200),
    "4: an end whose answer is text": of_turn("eventual_response", status=200, data="x"),
    "4: a cancelled turn that is done": of_turn("cancelled", status=200),
    "4: an error whose data is text": {**said_error("AGENT_ERROR"), "data": "oops"},
    "4: an error nested 600 deep": {
        **said_error("AGENT_ERROR"),
        "data": {"details": json.loads("[" * 600 + "]" * 600)},
    },
}
"""Ends that cannot be read: each is counted, and fails its turn (docs/translation.md, rule 3.6)."""

UNREAD = {
    **error("INTERNAL_ERROR"),
    "error": {"message": lambda text: text.startswith("the backend's answer cannot be read: ")},
}

MENDED: dict[str, tuple[Any, list[Any]]] = {
    "9: a fractional time": ({**TOKEN, "timestamp": 1.5}, [token("x")]),
    "4: an error without an error": (of_turn("error"), [error("INTERNAL_ERROR")]),
    "4: an error whose code is a number": (of_turn("error", error={"code": 7, "message": "m"}), [error("7")]),
    "4: an error that is text": (of_turn("error", error="boom"), [error("INTERNAL_ERROR")]),
}
"""Frames that strict clients drop, and what they say in the usual spelling (rule 3.15)."""

OF_A_WRONG_TYPE: dict[str, tuple[Any, list[Any]]] = {
    "9: a time that is text": ({**TOKEN, "timestamp": "now"}, [token("x")]),
    "4: citations that are text": (
        of_turn("eventual_response", status=200, data={"messageId": "m", "response": "", "citations": "c"}),
        [{"type": "eventual_response", "requestId": "turn"}],
    ),
    "4: usage in text": (
        of_turn(
            "eventual_response", status=200, data={"messageId": "m", "response": "", "usage": {"promptTokens": "7"}}
        ),
        [{"type": "eventual_response", "requestId": "turn"}],
    ),
}
"""Frames that strict clients drop, and what they say without the part of a wrong type, which is counted."""

STRAY = "0b0e9b0e-0000-4000-8000-00000000beef"

ROWS = [
    *[row(name, frame, counted=1) for name, frame in UNREADABLE.items()],
    *[row(f"{name}, before the 202", frame, counted=1, state="mute") for name, frame in UNREADABLE.items()],
    *[row(name, frame, told=[UNREAD], counted=1) for name, frame in UNREADABLE_ENDS.items()],
    *[
        row(f"{name}, before the 202", frame, told=[error("INTERNAL_ERROR")], counted=1, state="mute", own=True)
        for name, frame in UNREADABLE_ENDS.items()
    ],
    *[
        row(name, frame, told=told, counted=counted)
        for counted, rows in enumerate([MENDED, OF_A_WRONG_TYPE])
        for name, (frame, told) in rows.items()
    ],
    *[
        row(f"{name}, before the 202", frame, told=told, state="mute", own=True)
        if frame["type"] == "error"
        else row(f"{name}, before the 202", frame, told=[{"status": 202}, *told], counted=counted, state="mute")
        for counted, rows in enumerate([MENDED, OF_A_WRONG_TYPE])
        for name, (frame, told) in rows.items()
    ],
    # Section 11.2: what real servers leave out, or say otherwise.
    row("11: a token without data", without(TOKEN, "data"), told=[token("x")]),
    row("11: a token in data alone", without(TOKEN, "token"), told=[token("x")]),
    row("11: a token whose id stands in data alone", without(TOKEN, "requestId"), told=[token("x")]),
    row("11: a token without a time", without(TOKEN, "timestamp"), told=[token("x")]),
    row("9: a whole time as a float", {**TOKEN, "timestamp": 1.0}, told=[token("x")]),
    row("1: a binary event", b'{"type":"stream_token","requestId":"%b","token":"x"}', told=[token("x")]),
    row("2: null for what is absent", {**TOKEN, "timestamp": None}, told=[token("x")]),
    row("11: extra keys are taken out and counted", {**TOKEN, "seq": 4}, told=[token("x")], counted=1),
    row(
        "4: an empty token",
        of_turn("stream_token", token=""),
        told=lambda told: told in ([], [told[0]] if told else []),
    ),
    row("4: arguments as an object, as P and T say them", call({"a": 1}), told=[PARTIAL]),
    row("4: arguments as text, as R says them", call('{"a":1}'), told=[PARTIAL]),
    row("4: arguments that are no JSON", call("{"), told=[PARTIAL]),
    row("4: a phase boundary", of_turn("stream_chunk", node="n", state={}), told=[PARTIAL]),
    row(
        "4: a state of keys that nobody documents",
        of_turn("stream_chunk", node="n", state={"x": 1}),
        told=[PARTIAL],
        counted=1,
    ),
    row("4: a call without a name", chunk({"toolCall": {}}), told=[PARTIAL]),
    row("4: a result of an unknown call", result("u"), told=[PARTIAL, PARTIAL]),  # every result has its call
    row(
        "4: a result twice",
        call("{}"),
        result(),
        result(),
        told=lambda told: {f["type"] for f in told} == {"stream_chunk"},
        counted=None,
    ),
    row("4: a result that is an object", result(text={"a": 1}), told=[PARTIAL, PARTIAL]),
    row(
        "4: an answer that is plain text",
        {**ended(), "data": {**ended()["data"], "data": {"messageId": "m", "response": "x", "needsEscalation": False}}},
        told=[token("x"), {"type": "eventual_response", "data": {"data": {"response": "x"}}}],
    ),
    row(
        "4: an answer that is null",
        {
            **ended(),
            "data": {**ended()["data"], "data": {"messageId": "m", "response": None, "needsEscalation": False}},
        },
        told=[{"type": "eventual_response", "requestId": "turn"}],
    ),
    row(
        "4: a fraction as a score",
        {
            **ended("x"),
            "data": {
                **ended()["data"],
                "data": {
                    **ended("x")["data"]["data"],
                    "citations": [{"id": "c", "title": "t", "snippet": "s", "score": 5.0}],
                },
            },
        },
        told=[token("x"), answer("x")],
    ),
    # docs/translation.md, rules 3.7, 4.2: what differs sends the rest; a contradiction is a Gap, without a slot in
    # smooth (3.9).
    row("6: an end with more than was streamed", TOKEN, ended("xyz"), told=[token("x"), token("yz"), answer("xyz")]),
    row(
        "6: an end with less than was streamed",
        TOKEN,
        of_turn("stream_token", token="y"),
        ended("x"),
        told=[token("x"), token("y"), answer("x")],
        counted=1,
    ),
    row(
        "6: an end with only the end of what was streamed",
        TOKEN,
        of_turn("stream_token", token="y"),
        ended("y"),
        told=[token("x"), token("y"), answer("y")],
    ),
    # Answers that nobody asked for go nowhere.
    row(
        "2: a reply to nobody", {"type": "immediate_response", "requestId": STRAY, "status": 200, "data": {}}, counted=1
    ),
    row("2: a reply without an id", {"type": "immediate_response", "status": 200, "data": {}}, counted=1),
    row("2: a pong to nobody", {"type": "pong", "requestId": STRAY, "timestamp": 1}, counted=1),
    row("2: a 202 to nobody", {"type": "immediate_response", "requestId": STRAY, "status": 202, "data": {}}, counted=1),
    row("6: a second 202", {"type": "immediate_response", "requestId": "$turn", "status": 202, "data": {}}, counted=1),
    # An `error` under the turn's id would end it in the client (docs/translation.md, rule 3.11).
    row(
        "8: an error without an id",
        said_error("INTERNAL_ERROR", None),
        ended(),
        told=lambda told: (
            fits(told, [error("INTERNAL_ERROR", ABSENT), answer("")])
            or fits(told, [answer(""), error("INTERNAL_ERROR", ABSENT)])
        ),
    ),
    row(
        "8: an error of a foreign request",
        said_error("INTERNAL_ERROR", STRAY),
        ended(),
        told=lambda told: (
            fits(told, [error("INTERNAL_ERROR", ABSENT), answer("")])
            or fits(told, [answer(""), error("INTERNAL_ERROR", ABSENT)])
        ),
    ),
    row("8: an error of a code that nobody knows", said_error("NO_SUCH_CODE"), told=[error("NO_SUCH_CODE")]),
    row(
        "8: details of an error",
        {**said_error("AGENT_ERROR"), "data": {**said_error("AGENT_ERROR")["data"], "details": {"a": 1}}},
        told=[error("AGENT_ERROR")],
    ),
    # Section 6: exactly one terminal, and nothing of the turn after it.
    row("6: an end without a 202", ended("x"), told=[{"status": 202}, token("x"), answer("x")], state="mute"),
    row("6: tokens before the 202", TOKEN, told=[{"status": 202}, token("x")], state="mute"),
    row(
        "6: a refusal instead of a 202",
        said_error("LLM_UNAVAILABLE"),
        told=[error("LLM_UNAVAILABLE")],
        state="mute",
        own=True,
    ),
    row("6: two ends", ended("x"), ended("x"), told=[token("x"), answer("x")], counted=1),
    row("6: an end and another one", ended("x"), ended("y"), told=[token("x"), answer("x")], counted=1),
    row(
        "6: an end and an error",
        ended("x"),
        said_error("INTERNAL_ERROR"),
        told=lambda told: (
            [f["type"] for f in told if f.get("requestId") == "turn"] == ["stream_token", "eventual_response"]
        ),
        counted=None,
    ),
    row("6: an error and an end", said_error("AGENT_ERROR"), ended("x"), told=[error("AGENT_ERROR")], counted=1),
    row("6: text after the end", ended("x"), TOKEN, told=[token("x"), answer("x")], counted=1),
    row("6: a chunk after the end", ended("x"), call("{}"), told=[token("x"), answer("x")], counted=None),
    row(
        "6: cancelled, and text after it",
        {**of_turn("cancelled", status=499), "status": 499},
        TOKEN,
        told=[{"type": "cancelled", "requestId": "turn"}],
        counted=1,
    ),
    row(
        "6: cancelled, though nobody asked",
        {**of_turn("cancelled", status=499), "status": 499},
        told=[{"type": "cancelled", "requestId": "turn"}],
    ),
    # A connection has one turn at a time (section 6), so a message under another id does not belong to it.
    row(
        "9: text under a foreign id",
        of_turn("stream_token", STRAY, token="y"),
        TOKEN,
        ended("x"),
        told=[token("x"), answer("x")],
        counted=1,
    ),
    row(
        "9: an end under a foreign id", ended("y", STRAY), TOKEN, ended("x"), told=[token("x"), answer("x")], counted=1
    ),
    row(
        "9: an end under a foreign id, after text",
        TOKEN,
        ended("y", STRAY),
        ended("x"),
        told=[token("x"), answer("x")],
        counted=1,
    ),
    row("4: a keepalive", of_turn("keepalive"), told=lambda told: {f["type"] for f in told} <= {"keepalive"}),
    # docs/translation.md, rule 3.15.
    row(
        "1: an answer of 1.5 MB",
        ended("x" * 1_500_000),
        told=lambda told: (
            "".join(f["token"] for f in told[:-1]) == "x" * 1_500_000 and fits(told[-1], error("INTERNAL_ERROR"))
        ),
    ),
    row("1: a tool's result of 1.5 MB", result(text="x" * 1_500_000), told=[PARTIAL, PARTIAL]),
    row(
        "8: an error of 1.5 MB",
        {
            **said_error("AGENT_ERROR"),
            "data": {"error": {"code": "AGENT_ERROR", "message": "x" * 1_500_000}},
            "error": {"code": "AGENT_ERROR", "message": "x" * 1_500_000},
        },
        told=[error("AGENT_ERROR")],
    ),
    # docs/design.md, section 6: the open turn fails with a cause, and no command is repeated.
    *[
        row(f"1: the connection closes with {code}", HangsUp(code), told=[lost(cause)], again=True)
        for code, cause in {1000: "", **{code: f": closed with code {code}" for code in (1001, 1009, 4000)}}.items()
    ],
    row(
        "1: the connection closes before the 202",
        HangsUp(1011),
        told=[error("INTERNAL_ERROR")],
        state="mute",
        own=True,
        again=True,
    ),
    row("1: a frame far over max_message", [*["x" * MAX_MESSAGE] * 4, "x"], told=[error("INTERNAL_ERROR")], again=True),
]


def dropped(app: App) -> int:
    """Return the server's messages that were dropped."""
    faults = sum(n for name, n in app.ledger.counters.items() if name.startswith("faults_"))
    return faults + sum(entry.count for entry in app.ledger.entries() if not entry.target)


async def after_all(client: SmoothBystander) -> list[Frame]:
    """Return everything received since the last call, up to the server's own answer to a question, which follows all it
    sent.
    """
    request = await client.ask(action="get_conversation_messages", sessionId=client.session)
    return (await client.until(lambda frame: frame.get("requestId") == request))[:-1]


def kinds(told: list[Frame]) -> list[str]:
    return [frame["type"] for frame in told if frame["type"] != "immediate_response"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name[:100]) for row in ROWS])
async def test_a_malformed_frame_of_a_smooth_server_loses_only_that_frame(row: Row, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(FakeSmooth.serving())
        app, url, _ = await stack.enter_async_context(listening(tmp_path, parse(fake.url)))
        asker, other, stranger = [await stack.enter_async_context(SmoothBystander.connected(url)) for _ in range(3)]
        other.session = asker.session
        await after_all(other)  # naming the session attaches
        await asker.send({"action": "send_message", "sessionId": "$session", "requestId": "turn", "message": row.state})
        await fake.asked()
        assert fits(await after_all(asker), [{"status": 202}] if row.state == "hold" else [])
        counted, connections = dropped(app), fake.connections
        for said in row.say:
            if isinstance(said, HangsUp):
                await fake.hang_up(said.code)
            else:
                await fake.say(said.replace(b"%b", fake.turn.encode()) if isinstance(said, bytes) else said)
        if row.again:
            told = await asker.until(lambda frame: frame["type"] in TERMINALS)
            await after_all(asker)
        else:
            told = await after_all(asker)
        assert fits(told, row.told), f"told {told}"
        assert kinds(await other.told()) == ([] if row.own else kinds(told))
        assert await stranger.told() == []
        if row.counted is not None:
            assert dropped(app) - counted == row.counted, app.ledger.entries()
        ends = [frame for frame in told if frame["type"] in TERMINALS and frame.get("requestId") == "turn"]
        assert len(ends) <= 1
        if not ends:
            await fake.say(ended())
            assert fits((await asker.run_seen())[-1], answer("".join(f.get("token", "") for f in told)))
            await other.run_seen()
        for client in (asker, other, stranger):
            assert await client.turn(GOOD) == "eventual_response"
        assert fake.connections == connections + row.again


CONFIRM = {"action": "confirm_tool_action", "sessionId": "$session", "requestId": "q", "approved": True}
SUBMIT = {
    "action": "submit_interaction",
    "sessionId": "$session",
    "requestId": "q",
    "interactionId": "i-1",
    "values": {},
}
NOBODY = "0b0e9b0e-0000-4000-8000-00000000dead"

WRONG_ANSWERS: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "confirm": [
        (without(CONFIRM, "approved"), error("VALIDATION_ERROR", "q")),
        ({**CONFIRM, "approved": "yes"}, error("VALIDATION_ERROR", "q")),
        ({**CONFIRM, "approved": "yes", "requestId": "turn"}, error("VALIDATION_ERROR", "turn")),
        ({**CONFIRM, "sessionId": NOBODY}, error("NO_PENDING_CONFIRMATION", "q")),
        (SUBMIT, error("NO_PENDING_INTERACTION", "q")),
    ],
    "form": [
        (without(SUBMIT, "values"), error("VALIDATION_ERROR", "q")),
        ({**SUBMIT, "values": "x"}, error("VALIDATION_ERROR", "q")),
        ({**SUBMIT, "values": "x", "requestId": ""}, error("VALIDATION_ERROR", "")),
        ({**SUBMIT, "interactionId": "i-2"}, error("INTERACTION_MISMATCH", "q")),
        ({**SUBMIT, "interactionId": 5}, error("INTERACTION_MISMATCH", "q")),
        (without({**SUBMIT, "interactionId": "i-2"}, "values"), error("INTERACTION_MISMATCH", "q")),
        (without({**SUBMIT, "kind": "no_such_kind"}, "values"), error("INTERACTION_MISMATCH", "q")),
        ({**SUBMIT, "interactionId": "i-2", "requestId": "turn"}, error("INTERACTION_MISMATCH", "turn")),
        ({**SUBMIT, "sessionId": NOBODY}, error("NO_PENDING_INTERACTION", "q")),
        (CONFIRM, error("NO_PENDING_CONFIRMATION", "q")),
    ],
}


@pytest.mark.parametrize(("question", "right"), [("confirm", CONFIRM), ("form", SUBMIT)])
async def test_a_turn_stays_parked_after_wrong_answers_and_the_right_one_counts_once(
    question: str, right: dict[str, Any], tmp_path: Path
) -> None:
    """An invalid answer to a question gets an error and does not end the turn (docs/dialects/smooth.md, section 6)."""
    gone = "NO_PENDING_CONFIRMATION" if question == "confirm" else "NO_PENDING_INTERACTION"
    async with (
        FakeSmooth.serving() as fake,
        listening(tmp_path, parse(fake.url)) as (_, url, _),
        SmoothBystander.connected(url) as asker,
        SmoothBystander.connected(url) as other,
    ):
        other.session = asker.session
        await after_all(other)
        await asker.send({"action": "send_message", "sessionId": "$session", "requestId": "turn", "message": question})
        for client in (asker, other):
            await client.until(lambda frame: frame["type"] in ("write_confirmation_required", "interaction_required"))
        for wrong, answered in WRONG_ANSWERS[question]:
            await asker.send(wrong)
            told = await asker.until(lambda frame: frame["type"] == "error")  # the server is asked about NOBODY
            told += await after_all(asker)
            assert fits(told, [answered]), f"{wrong}: {told}"
            assert await other.told() == []
        await asker.send(right)
        told = await after_all(asker)
        assert fits(told, [{"requestId": "q", "status": 200}, token("Done."), answer("Done.")])
        assert kinds(await other.told()) == ["stream_token", "eventual_response"]
        await asker.send(right)
        assert fits(await after_all(asker), [error(gone, "q")])
        for client in (asker, other):
            assert await client.turn(GOOD) == "eventual_response"


async def test_an_unknown_event_reaches_clients_of_its_own_dialect_and_answers_and_ends_nothing(tmp_path: Path) -> None:
    """Every client drops an unknown type silently (section 8), so the gateway passes it on to them (docs/design.md,
    section 4).
    """
    news = {"type": "weather", "data": {"sky": "blue"}}
    async with (
        FakeSmooth.serving() as fake,
        listening(tmp_path, parse(fake.url)) as (_, url, _),
        SmoothBystander.connected(url) as asker,
    ):
        await asker.send({"action": "send_message", "sessionId": "$session", "requestId": "turn", "message": "hold"})
        await fake.asked()
        asker.survives = frozenset({"weather"})
        fake.hint = news
        for known_as, before in (("page", [{"status": 202}]), ("turn", [])):  # also if the turn has the same id
            await asker.send({"action": "get_conversation_messages", "sessionId": "$session", "requestId": known_as})
            told = await asker.until(lambda frame: frame.get("status") == 200)
            assert fits(told, [*before, {**news, "requestId": known_as}, {"requestId": known_as, "status": 200}])
        await fake.say(news, ended())
        told = await asker.until(lambda frame: frame["type"] == "eventual_response")
        assert fits(told, [news, answer("")])
        assert await asker.turn(GOOD) == "eventual_response"
