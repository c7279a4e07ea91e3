"""Malformed input of smooth clients, with the gateway as their server (docs/dialects/smooth.md, sections 1 to 3, 5, 6
and 8).

Each row has the answer to the sender, and whether its connection is closed. The bystanders, a smooth and a pod client
of the same session, receive nothing of it. If the servers of smooth differ, the name of the row tells which one we
follow.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import websockets
from websockets.exceptions import ConnectionClosed

from tests.conformance.malformed_input import (
    ABSENT,
    MAX_MESSAGE,
    MalformedInput,
    SmoothBystander,
    State,
    fits,
    malformed_input_harness,
    named,
    play,
    played_together,
    row,
)

AGENT = str(uuid4())
NOBODY = "0b0e9b0e-0000-4000-8000-00000000dead"

ACTIONS: dict[str, dict[str, Any]] = {
    "create_conversation_session": {"agentId": AGENT},
    "get_session": {"sessionId": "$session"},
    "get_conversation_messages": {"sessionId": "$session"},
    "rename_conversation": {"conversationId": "$session", "title": "Orders"},
    "send_message": {"sessionId": "$session", "message": "count 1"},
    "confirm_tool_action": {"sessionId": "$session", "approved": True},
    "verify_otp": {"sessionId": "$session", "code": "123456"},
    "submit_interaction": {"sessionId": "$session", "interactionId": "i-1", "values": {}},
}
"""Every action with required fields, and those fields (docs/dialects/smooth.md, section 3)."""


def action(name: str, /, **fields: Any) -> dict[str, Any]:
    """Return a valid action with some fields replaced; ABSENT leaves a field out."""
    frame = {"action": name, "requestId": "q", **ACTIONS.get(name, {}), **fields}
    return {key: value for key, value in frame.items() if value is not ABSENT}


def error(code: str, request: object = "q") -> dict[str, Any]:
    """Return an `error` with both copies of its code and of its request id (section 4)."""
    return {
        "type": "error",
        "requestId": request,
        "error": {"code": code},
        "data": {"requestId": request, "error": {"code": code}},
    }


def pong(request: object) -> dict[str, Any]:
    return {"type": "pong", "requestId": request}


def done(request: object = "q", **data: Any) -> dict[str, Any]:
    return {"type": "immediate_response", "requestId": request, "status": 200, "data": data}


def turn(request: object = "q") -> tuple[dict[str, Any], ...]:
    """Return the frames of a turn without streamed text."""
    return (
        {"type": "immediate_response", "requestId": request, "status": 202, "data": {}},
        {"type": "eventual_response", "requestId": request, "status": 200},
    )


def in_any_order(*expected: dict[str, Any]) -> Callable[[object], bool]:
    """Return a check that accepts the answers in any order, as sections 3 and 6 allow for one connection."""
    return lambda told: any(fits(told, order) for order in permutations(expected))


BAD = error("VALIDATION_ERROR")
BAD_FRAME = error("VALIDATION_ERROR", ABSENT)
NO_FORM = "NO_PENDING_INTERACTION"


def each(*values: Any) -> tuple[Any, ...]:
    """Return JSON values of all these types."""
    return values


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


FRAMES = [
    row("1: not JSON", "hello", BAD_FRAME),
    row("1: not JSON, on a fresh connection", "hello", BAD_FRAME, state="fresh"),
    row("1: an empty frame", "", BAD_FRAME),
    row("1: JSON that is cut off", '{"action":"ping","requestId":"q"', BAD_FRAME),
    row("1: two objects in one frame", '{"action":"ping"}{"action":"ping"}', BAD_FRAME),
    row("1: NaN is no JSON", '{"action":"ping","x":NaN}', BAD_FRAME),
    *[
        row(f"1: no object but {text}", text, BAD_FRAME)
        for text in ("[]", '[{"action":"ping"}]', '"ping"', "7", "null", "true")
    ],
    row("1: text that is not UTF-8", '{"action":"ping","x":"\udcff"}', BAD_FRAME),
    # R refuses binary frames, P and T read them; docs/translation.md, rule 3.15 has us take what any of them takes.
    row("1: a binary frame is read, as P and T do", b'{"action":"ping","requestId":"q"}', pong("q")),
    row("1: a binary frame that is not UTF-8", b'{"action":"\xff"}', BAD_FRAME),
    row("1: a binary frame that is no JSON", b"\x00\x01\x02", BAD_FRAME),
    # P closes with 1009 and R takes 64 MiB; docs/design.md, section 6: it costs the one message.
    row("1: a frame over max_message", "x" * (MAX_MESSAGE + 1), BAD_FRAME),
    row("1: a frame at max_message", "x" * MAX_MESSAGE, BAD_FRAME),
    row("1: nested 100,000 deep", "[" * 100_000 + "]" * 100_000, BAD_FRAME),
    row(
        "1: a field nested 2,000 deep",
        '{"action":"ping","requestId":"q","x":' + "[" * 2000 + "]" * 2000 + "}",
        BAD_FRAME,
    ),
    row("3: metadata nested 100 deep", action("create_conversation_session", metadata={"x": nested(100)}), done()),
    row(
        "1: bad frames between good ones",
        ["{", action("ping"), "[]", action("ping", requestId="r")],
        answer=in_any_order(BAD_FRAME, pong("q"), BAD_FRAME, pong("r")),
    ),
]

ENVELOPE = [
    row("8: no action", {"requestId": "q"}, BAD),
    row("8: no action, on a fresh connection", {"requestId": "q"}, BAD, state="fresh"),
    row("8: an empty object", {}, BAD_FRAME),
    *[
        # P calls a number an unknown action, T a validation error; the schema wants a string.
        row(f"8: an action that is {value!r}", {"action": value, "requestId": "q"}, BAD)
        for value in each(7, None, True, [], {})
    ],
    *[
        row(f"8: the unknown action {name!r}", {"action": name, "requestId": "q"}, error("UNSUPPORTED_ACTION"))
        for name in ("fly", "", "PING", "get_messages", "immediate_response", "a" * 200_000)
    ],
    row("8: an unknown action without an id", {"action": "fly"}, error("UNSUPPORTED_ACTION", ABSENT)),
    row(
        "8: an unknown action with a number as id",
        {"action": "fly", "requestId": 7},
        error("UNSUPPORTED_ACTION", ABSENT),
    ),
    *[
        # R and T; P echoes what is no string.
        row(f"2: a requestId that is {value!r} counts as none", action("ping", requestId=value), pong(ABSENT))
        for value in each(7, 1.5, None, True, {}, [], {"a": 1})
    ],
    row("2: no requestId", {"action": "ping"}, pong(ABSENT)),
    row("2: an empty requestId is echoed", action("ping", requestId=""), pong("")),
    row(
        "2: a requestId of odd characters is echoed", action("ping", requestId='\0 \u2028😀"\\'), pong('\0 \u2028😀"\\')
    ),
    row("2: a requestId of 10,000 characters is echoed", action("ping", requestId="i" * 10_000), pong("i" * 10_000)),
    # No reader takes more than 1 MiB (section 1), so it cannot be echoed.
    row("2: a requestId that no answer could carry", action("ping", requestId="i" * 1_200_000), BAD_FRAME),
    row("2: a requestId that no stream could carry", action("send_message", requestId="i" * 300_000), BAD_FRAME),
    row(
        "2: a requestId that no error could carry",
        action("fly", requestId="i" * 1_200_000),
        error("UNSUPPORTED_ACTION", ABSENT),
    ),
    row("2: a bad action with one", action("get_session", sessionId=7, requestId="i" * 1_200_000), BAD_FRAME),
    row("2: one id twice at a time", [action("ping"), action("ping")], pong("q"), pong("q")),
    row("3: a number as id of a create", action("create_conversation_session", requestId=7), done(ABSENT)),
    row("3: the id of a bad action is echoed", action("get_session", sessionId=7), BAD),
    row("3: a bad action with a bad id", action("get_session", sessionId=7, requestId=7), BAD_FRAME),
    row(
        "8: of a key that stands twice the last counts", '{"action":"ping","requestId":"a","requestId":"b"}', pong("b")
    ),
    row("8: of two actions the last counts", '{"action":"fly","requestId":"q","action":"ping"}', pong("q")),
    row(
        "8: of two actions the last counts, though it is unknown",
        '{"action":"ping","requestId":"q","action":"fly"}',
        error("UNSUPPORTED_ACTION"),
    ),
    row("3: unknown fields are ignored", action("ping", token="t", x={"y": [1]}), pong("q")),
    row("3: unknown fields beside a turn", action("send_message", token="t", temperature=2), *turn(), runs=True),
]

WRONG: dict[str, tuple[Any, ...]] = {
    "str": (ABSENT, None, 7, True, [], {}, ""),
    "bool": (ABSENT, None, 1, "true", [], {}),
}


def wrong_fields() -> Iterator[MalformedInput]:
    """Yield every required field of every action: missing, empty, and of each wrong type."""
    for name, fields in ACTIONS.items():
        for field, good in fields.items():
            if field == "values":
                continue
            for value in WRONG["bool" if isinstance(good, bool) else "str"]:
                is_of_no_form = field == "interactionId" and value not in (ABSENT, None, "")  # section 6
                told = error(NO_FORM) if is_of_no_form else BAD
                yield row(f"3: {name} with {field} {value!r}", action(name, **{field: value}), told)


FIELDS = [
    *wrong_fields(),
    row("3: create with a blank agentId", action("create_conversation_session", agentId=" \t"), BAD),
    row("3: resume with a blank agentId", action("create_conversation_session", agentId="", conversationId="c"), BAD),
    row("3: send_message with a blank message", action("send_message", message=" \t"), BAD),
    row("3: rename with a blank title", action("rename_conversation", title=" \t"), BAD),
    *[
        row(f"3: {name} with a blank sessionId", action(name, sessionId=" \t"), error(code))
        for name, code in (
            ("get_session", "SESSION_NOT_FOUND"),
            ("get_conversation_messages", "SESSION_NOT_FOUND"),
            ("send_message", "SESSION_NOT_FOUND"),
            ("verify_otp", "SESSION_NOT_FOUND"),
            ("confirm_tool_action", "NO_PENDING_CONFIRMATION"),
            ("submit_interaction", "NO_PENDING_INTERACTION"),
        )
    ],
    *[
        row(f"3: submit_interaction with {fields}", action("submit_interaction", **fields), error(NO_FORM))
        for fields in each({"values": 7}, {"values": "x"}, {"values": []}, {"kind": 7}, {"declined": "x"})
    ],
    row(
        "2: verify_otp with an empty requestId",
        action("verify_otp", requestId=""),
        {"type": "otp_invalid", "requestId": ""},
    ),
    row(
        "2: submit_interaction with an empty requestId", action("submit_interaction", requestId=""), error(NO_FORM, "")
    ),
    *[
        row(f"2: {name} with the requestId {value!r}", action(name, requestId=value), BAD_FRAME)
        for name in ("verify_otp", "submit_interaction")
        for value in each(ABSENT, None, 7)
    ],
    row("3: a UUID is not enforced", action("create_conversation_session", agentId="shop"), done()),
    *[
        row(f"3: supports {value!r} counts as omitted", action("create_conversation_session", supports=value), done())
        for value in each("choice_chips", 7, {}, None, [7, "choice_chips", None], ["no_such_thing"])
    ],
    row("6: create with an unknown conversation", action("create_conversation_session", conversationId=NOBODY), done()),
]

TURNS = [
    # R refuses it, P and T make an id up; the schema does not require one.
    row(
        "2: a turn without requestId gets one",
        action("send_message", requestId=ABSENT),
        *turn(lambda request: len(request) == 36),
        runs=True,
    ),
    row(
        "2: a turn with a number as id gets one",
        action("send_message", requestId=7),
        *turn(lambda request: len(request) == 36),
        runs=True,
    ),
    row(
        "3: a message of 20,000 characters",
        action("send_message", message="count 1 " + "x" * 19_992),
        *turn(),
        runs=True,
    ),
    row(
        "3: a message with NUL and a line separator",
        action("send_message", message="count 1 \0\u2028"),
        *turn(),
        runs=True,
    ),
    *[
        row(f"3: stream {value!r} streams", action("send_message", stream=value), *turn(), runs=True)
        for value in each(False, "no", None, 7)
    ],
    *[
        row(f"3: malformed {key} {value!r} are dropped", action("send_message", **{key: value}), *turn(), runs=True)
        for key, value in (
            ("images", "x"),
            ("images", 7),
            ("images", {}),
            ("images", [7, None, "x"]),
            ("images", [{"detail": "low"}]),
            ("images", [{"url": 7}]),
            ("images", [{"url": "http://x/y.png", "detail": "huge"}]),
            ("files", "x"),
            ("files", [{"name": "a"}]),
            ("files", [{"name": "", "url": "http://x"}]),
            ("files", [{"name": "n" * 256, "url": "http://x"}]),
            ("files", [{"name": "a", "url": "http://x", "mimeType": 7}]),
        )
    ],
    row("3: blank beside a malformed image", action("send_message", message=" ", images=[{"url": 7}]), BAD),
    row("3: R looks at the message before the session", action("send_message", message="", sessionId=NOBODY), BAD),
    row("6: a second turn on one connection", action("send_message"), error("TURN_IN_PROGRESS"), state="running"),
    row(
        "6: a second turn for another session",
        action("send_message", sessionId=NOBODY),
        error("TURN_IN_PROGRESS"),
        state="running",
    ),
    # docs/translation.md, rule 4.13: an error that answers an action bears its id, also where that is the live turn's.
    row(
        "6: a second turn under the turn's id",
        action("send_message", requestId="turn"),
        error("TURN_IN_PROGRESS", "turn"),
        state="running",
    ),
    row(
        "6: a second turn without an id",
        action("send_message", requestId=ABSENT),
        error("TURN_IN_PROGRESS", ABSENT),
        state="running",
    ),
    row(
        "6: two second turns",
        [action("send_message"), action("send_message", requestId="r")],
        error("TURN_IN_PROGRESS"),
        error("TURN_IN_PROGRESS", "r"),
        state="running",
    ),
    # docs/translation.md, rule 3.17: a session has one turn, whoever began it.
    row("6: a turn while somebody else's runs", action("send_message"), error("TURN_IN_PROGRESS"), state="occupied"),
    row(
        "6: a bad action under the turn's id does not end it",
        action("get_session", sessionId=7, requestId="turn"),
        error("VALIDATION_ERROR", "turn"),
        state="running",
    ),
    row(
        "6: an unknown action under the turn's id does not end it",
        action("fly", requestId="turn"),
        error("UNSUPPORTED_ACTION", "turn"),
        state="running",
    ),
    row(
        "6: an unknown session under the turn's id does not end it",
        action("get_session", sessionId=NOBODY, requestId="turn"),
        error("SESSION_NOT_FOUND", "turn"),
        state="running",
    ),
    row("6: a bad frame in a turn", "{", BAD_FRAME, state="running"),
    row("6: a frame over max_message in a turn", "x" * (MAX_MESSAGE + 1), BAD_FRAME, state="running"),
    row(
        "6: other requests are served in a turn",
        [action("ping"), action("get_session", requestId="r"), action("get_conversation_messages", requestId="s")],
        pong("q"),
        done("r", status="active"),
        done("s"),
        state="running",
    ),
]

STRAYS = [
    *[
        row(
            f"8: {name} of the session {value!r}, {state}",
            action(name, sessionId=value),
            error("SESSION_NOT_FOUND"),
            state=state,
        )
        for name in ("get_session", "get_conversation_messages", "send_message")
        for value in each(NOBODY, "no-uuid", "\0")
        for state in ("fresh", "open")
    ],
    row(
        "8: an id of a session that no error could carry",
        action("get_session", sessionId="i" * 1_200_000),
        error("SESSION_NOT_FOUND"),
    ),
    # Section 7: what is not visible is told like what is not known, in R NO_PENDING_* for these.
    row(
        "6: confirm of an unknown session",
        action("confirm_tool_action", sessionId=NOBODY),
        error("NO_PENDING_CONFIRMATION"),
    ),
    row(
        "6: submit of an unknown session",
        action("submit_interaction", sessionId=NOBODY),
        error("NO_PENDING_INTERACTION"),
    ),
    *[
        line
        for state in ("open", "running", "occupied")
        for line in (
            row(
                f"6: confirm without a park, {state}",
                action("confirm_tool_action"),
                error("NO_PENDING_CONFIRMATION"),
                state=state,
            ),
            row(
                f"6: submit without a park, {state}",
                action("submit_interaction"),
                error("NO_PENDING_INTERACTION"),
                state=state,
            ),
            *[
                row(
                    f"6: submit with values {value!r} without a park, {state}",
                    action("submit_interaction", values=value),
                    error("NO_PENDING_INTERACTION"),
                    state=state,
                )
                for value in each(ABSENT, None)
            ],
            row(
                f"6: declined without a park, {state}",
                action("submit_interaction", values=ABSENT, declined=True),
                error("NO_PENDING_INTERACTION"),
                state=state,
            ),
            row(
                f"6: a stray code, {state}",
                action("verify_otp"),
                {
                    "type": "otp_invalid",
                    "requestId": "q",
                    "data": {"data": {"error": "NOT_FOUND", "attemptsRemaining": 0}},
                },
                state=state,
            ),
        )
    ],
    row(
        "6: confirm without a park under the turn's id does not end it",
        action("confirm_tool_action", requestId="turn"),
        error("NO_PENDING_CONFIRMATION", "turn"),
        state="running",
    ),
    *[
        row(f"6: cancel with nothing running is met with silence, {state}: {frame}", frame, state=state)
        for state in ("fresh", "open")
        for frame in (
            {"action": "cancel"},
            action("cancel", sessionId="$session"),
            action("cancel", sessionId=NOBODY),
            action("cancel", sessionId=7),
        )
    ],
    # docs/translation.md, rule 3.4: a cancel is for the turn that this connection began.
    row(
        "6: cancel of somebody else's turn is met with silence",
        action("cancel", sessionId="$session"),
        state="occupied",
    ),
    row("8: rename of nothing", action("rename_conversation", conversationId=NOBODY), error("CONVERSATION_NOT_FOUND")),
    # docs/translation.md, rule 3.2: answered by the gateway where it knows the answer; titles it keeps itself.
    row(
        "3: rename where the backend cannot",
        action("rename_conversation"),
        {"type": "immediate_response", "status": 200},
    ),
    *[
        row(f"5: the cursor {value!r}", action("get_conversation_messages", cursor=value), BAD)
        for value in each("nowhere", NOBODY)
    ],
    *[
        row(
            f"8: the cursor {value!r}, which R and P ignore",
            action("get_conversation_messages", cursor=value),
            {"type": "immediate_response", "status": 200},
        )
        for value in each(7, [])
    ],
    row("5: a cursor that no error could carry", action("get_conversation_messages", cursor="c" * 1_200_000), BAD),
    row("8: a cursor of the list that is none", action("list_conversations", cursor="nowhere"), BAD),
    row(
        "3: the list on a fresh connection",
        action("list_conversations", limit=0),
        done(conversations=lambda rows: len(rows) == 1),
        state="fresh",
    ),
    *[
        row(
            f"3: the limit {value!r} of the list",
            action("list_conversations", limit=value),
            done(conversations=lambda rows: len(rows) == 1),
        )
        for value in each(0, -1, "x", None, 10**9, 10**30)
    ],
]

TABLES = {"frames": FRAMES, "envelope": ENVELOPE, "fields": FIELDS, "turns": TURNS, "strays": STRAYS}


@pytest.mark.parametrize("rows", played_together(**TABLES))
async def test_malformed_frames_of_a_smooth_client_disturb_no_other_client(
    rows: list[MalformedInput], tmp_path: Path
) -> None:
    async with malformed_input_harness(tmp_path) as at:
        for row in rows:
            with named(row.name):
                async with SmoothBystander.connected(at.url, opens=row.state != "fresh") as asker:
                    await play(row, at, asker)


async def test_a_page_of_history_has_50_messages_if_the_requested_size_is_invalid(tmp_path: Path) -> None:
    """A size that is not a positive integer means 50 (section 5). P cuts at 100, R does not, and the schema allows 1 to
    100.
    """
    fifty = each(0, -1, "7", 2.5, True, None, "x", [], ABSENT)
    sizes = [*((limit, 50) for limit in fifty), (1, 1), (100, 100), (101, 100), (10**9, 100), (10**30, 100)]
    async with malformed_input_harness(tmp_path) as at:
        for _ in range(52):  # two messages each
            await at.smooth.turn("count 1")
        for limit, size in sizes:
            await at.smooth.send(action("get_conversation_messages", limit=limit))
            page = (await at.smooth.until(lambda frame: frame.get("requestId") == "q"))[-1]
            assert (len(page["data"]["messages"]), page["data"]["hasMore"]) == (size, True), limit


@pytest.mark.parametrize("state", ["open", "running"])
async def test_a_message_far_over_the_limit_disconnects_only_its_sender(state: State, tmp_path: Path) -> None:
    """P also closes with 1009 above four times the limit. The message is sent in pieces, so that nothing stays
    unread.
    """
    async with malformed_input_harness(tmp_path) as at:
        async with websockets.connect(at.url) as asker:
            await asker.send(json.dumps(action("create_conversation_session")))
            session = json.loads(await asker.recv())["data"]["sessionId"]
            if state == "running":
                await asker.send(json.dumps(action("send_message", sessionId=session, message="wait")))
                assert json.loads(await asker.recv())["status"] == 202
            await at.catch_up()
            with contextlib.suppress(ConnectionClosed):  # the last piece may be one more than we wait for
                await asker.send(["x" * MAX_MESSAGE] * 4 + ["x"])
            await asker.wait_closed()
            assert asker.close_code == 1009
        await at.nothing_new()
        if state == "running":
            await at.stop()
        await at.good_turns()
