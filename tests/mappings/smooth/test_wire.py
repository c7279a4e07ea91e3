"""The wire of smooth: strict in writing, lenient in reading, and only PeerError for garbage."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.canonical.commands import OpenSession, Ping, SubmitInput
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.canonical.values import FileAttachment, ImageAttachment, Text
from dragoman.mappings.dialect import Direction, Oversize, Parts, Step
from dragoman.mappings.smooth.directions import FROM_CLIENT, FROM_SERVER
from dragoman.mappings.smooth.vocabulary import omits_supports
from dragoman.mappings.smooth.wire.actions import AnyAction
from dragoman.mappings.smooth.wire.events import AnyEvent
from dragoman.mappings.smooth.wire.values import nanoseconds, rfc3339
from tests.mappings.round_trip import any_json
from tests.smooth_shapes import assert_strict


def read(direction: Direction[Any], *frames: Any) -> Step[Any]:
    step: Step[Any] = Step()
    direction.receive([f if isinstance(f, bytes) else json.dumps(f).encode() for f in frames], step)
    return step


def through(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the event as it is written after reading `frame`."""
    step = read(FROM_SERVER, frame)
    assert step.faults == []
    (burst,) = step.bursts
    (back,) = [json.loads(f) for f in FROM_SERVER.write(burst).frames]
    assert_strict(back)
    return dict(back)


def command(frame: dict[str, Any]) -> Any:
    step = read(FROM_CLIENT, frame)
    assert step.faults == []
    ((item,),) = [burst.items for burst in step.bursts]
    return item


TOKEN = {
    "type": "stream_token",
    "requestId": "r",
    "token": "a",
    "data": {"requestId": "r", "token": "a"},
    "timestamp": 1,
}
OOPS = {"code": "INTERNAL_ERROR", "message": "oops"}
ERROR = {"type": "error", "requestId": "r", "error": OOPS, "data": {"requestId": "r", "error": OOPS}, "timestamp": 1}
R = {"requestId": "r"}
PONG = {"type": "pong", "requestId": "r", "data": {"timestamp": 1}, "timestamp": 1}
CANCELLED = {
    "type": "cancelled",
    "requestId": "r",
    "status": 499,
    "data": {"requestId": "r", "status": 499},
    "timestamp": 1,
}
ANSWER = {"messageId": "m", "response": "hi", "needsEscalation": False}
TERMINAL = {
    "type": "eventual_response",
    "requestId": "r",
    "status": 200,
    "data": {"requestId": "r", "status": 200, "data": ANSWER},
    "timestamp": 1,
}


@pytest.mark.parametrize(
    ("spelling", "usual"),
    [
        ({"type": "stream_token", "requestId": "r", "token": "a", "timestamp": 1}, TOKEN),
        ({"type": "stream_token", "data": {"requestId": "r", "token": "a"}, "timestamp": 1}, TOKEN),
        (TOKEN | {"data": {"token": "a"}}, TOKEN),
        (TOKEN | {"data": None}, TOKEN),
        (TOKEN | {"timestamp": 1.0}, TOKEN),
        ({"type": "error", "requestId": "r", "error": OOPS, "timestamp": 1}, ERROR),
        ({"type": "error", "requestId": "r", "data": {"error": OOPS}, "timestamp": 1}, ERROR),
        ({"type": "pong", "requestId": "r", "timestamp": 1}, PONG),
        ({"type": "pong", "requestId": "r", "data": {"timestamp": 1}}, PONG),
        ({"type": "cancelled", "requestId": "r", "timestamp": 1}, CANCELLED),
        ({"type": "eventual_response", "requestId": "r", "data": {"data": ANSWER}, "timestamp": 1}, TERMINAL),
        (TERMINAL | {"data": {"data": {"messageId": "m", "response": "hi", "usage": None}}}, TERMINAL),
        (TOKEN | {"timestamp": 1.5}, TOKEN),
        (PONG | {"timestamp": 1.5, "data": None}, PONG),
        (PONG | {"data": {"timestamp": 1.5}}, PONG),
        (PONG | {"data": {"timestamp": -1}}, PONG),
        (TERMINAL | {"timestamp": 1.5, "status": "200"}, TERMINAL),
        (CANCELLED | {"status": "499", "data": {"status": None}}, {**CANCELLED, "data": {"status": 499, **R}}),
    ],
)
def test_another_spelling_is_read_as_the_usual_one(spelling: dict[str, Any], usual: dict[str, Any]) -> None:
    assert through(spelling) == usual


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ({"error": "boom"}, "INTERNAL_ERROR", "boom"),
        ({"error": {"code": 500, "message": "boom"}}, "500", "boom"),
        ({"error": {"code": None, "message": "boom"}}, "INTERNAL_ERROR", "boom"),
        ({"data": {"error": {"code": "AGENT_ERROR"}}}, "AGENT_ERROR", "the server gave no reason"),
        ({"message": "boom"}, "INTERNAL_ERROR", "boom"),
        ({}, "INTERNAL_ERROR", "the server gave no reason"),
    ],
)
def test_an_error_in_any_form_is_read(said: dict[str, Any], code: str, message: str) -> None:
    error = {"code": code, "message": message}
    assert through({"type": "error", **R, "timestamp": 1, **said}) == ERROR | {
        "error": error,
        "data": R | {"error": error},
    }


SOURCE = {"id": "1", "title": "t", "snippet": "s", "score": 0.5}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"needsEscalation": "no", "escalationReason": 5}, {}),
        ({"usage": 5, "citations": {}}, {}),
        ({"usage": {"promptTokens": 1.5, "completionTokens": "2", "costUsd": "3"}}, {"usage": {"promptTokens": 1}}),
        ({"citations": [{"id": "1", "title": "t", "snippet": "s"}]}, {"citations": [SOURCE | {"score": 0.0}]}),
        ({"usage": {"promptTokens": -1, "completionTokens": 1 << 63}}, {}),
        ({"citations": [SOURCE | {"snippet": None}]}, {"citations": [SOURCE | {"snippet": ""}]}),
        (
            {"citations": [5, {"id": 5}, {"id": "1"}]},
            {"citations": [{"id": "1", "title": "", "snippet": "", "score": 0.0}]},
        ),
        ({"citations": [SOURCE | {"url": 5, "score": True}]}, {"citations": [SOURCE | {"score": 0.0}]}),
    ],
)
def test_an_answer_is_read_without_the_parts_of_a_wrong_type(said: dict[str, Any], kept: dict[str, Any]) -> None:
    assert through(TERMINAL | {"data": {"data": ANSWER | said}})["data"]["data"] == ANSWER | kept


def test_an_answer_without_an_id_is_read() -> None:
    (ended,) = read(FROM_SERVER, TERMINAL | {"data": {"data": ANSWER | {"messageId": None}}}).bursts[0].items
    assert (ended.end, ended.text, ended.message) == ("completed", "hi", "")


def test_an_event_without_any_request_id_is_read() -> None:
    (burst,) = read(FROM_SERVER, {"type": "stream_token", "token": "a", "timestamp": 1}).bursts
    assert (burst.request, burst.items) == ("", [TextDelta(text="a")])


@pytest.mark.parametrize("said", [5, 1.5, True, None, ["r"], {"r": 1}])
def test_a_request_id_that_is_not_a_string_counts_as_absent(said: object) -> None:
    assert command({"action": "ping", "requestId": said}) == Ping()
    assert "requestId" not in through(PONG | {"requestId": said})


HALF = "\ud83d"  # json.dumps writes its escape, as a server in JavaScript does for a text that was cut in an emoji
SAID = {
    "messageId": "0198c3a1-0000-4000-8000-0000000000a1",
    "response": {"responseParts": ["Hi"]},
    "needsEscalation": False,
}


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "stream_token", "token": f"a{HALF}", "data": {"requestId": "t", "token": f"a{HALF}"}},
        {
            "type": "eventual_response",
            "status": 200,
            "data": {
                "requestId": "t",
                "status": 200,
                "data": SAID | {"citations": [{"id": "c", "title": "c", "snippet": f"a{HALF}", "score": 1.0}]},
            },
        },
        {
            "type": "stream_chunk",
            "node": "tools",
            "data": {
                "requestId": "t",
                "node": "tools",
                "state": {"rawResponse": {"toolResult": {"name": "bash", "isError": False, "result": f"a{HALF}"}}},
            },
        },
    ],
)
def test_half_a_surrogate_pair_of_a_server_is_read_as_the_replacement_character(frame: dict[str, Any]) -> None:
    """The server in TypeScript cuts snippets and outputs at a number of UTF-16 units."""
    back = through({"requestId": "t", "timestamp": 5, **frame})
    assert json.dumps(back, ensure_ascii=False).count("a\ufffd") == json.dumps(frame).count("a\\ud83d")


def test_half_a_surrogate_pair_of_a_client_is_read_as_the_replacement_character() -> None:
    action = {
        "action": "send_message",
        "requestId": f"r{HALF}",
        "sessionId": "s",
        "message": f"\\{HALF}\U0001f600{HALF}\\",
    }
    said = command(action)
    assert (said.request, said.segments) == ("r\ufffd", (Text(text="\\\ufffd\U0001f600\ufffd\\"),))


def test_an_undocumented_key_is_dropped_at_every_level_and_counted() -> None:
    answer = ANSWER | {"mood": 1, "usage": {"promptTokens": 1, "dreams": 2}}
    frame = TERMINAL | {"secret": 1, "data": {"requestId": "r", "status": 200, "extra": {}, "data": answer}}
    step = read(FROM_SERVER, frame)
    assert {loss.field for loss in step.losses} == {
        "$.secret",
        "$.data.extra",
        "$.data.data.mood",
        "$.data.data.usage.dreams",
    }
    assert through(frame)["data"]["data"] == ANSWER | {"usage": {"promptTokens": 1}}


def test_opaque_json_keeps_every_key_and_number() -> None:
    spec = {"x": {"deep": [None, 1e-7, 123456789012345678901234567890, {"y": "\u2014"}]}}
    payload = {"interactionId": "i", "kind": "k", "spec": spec, "reason": "r"}
    frame = {
        "type": "interaction_required",
        "requestId": "r",
        "data": {"requestId": "r", "data": payload},
        "timestamp": 1,
    }
    assert through(frame) == frame


def test_tokens_of_one_request_are_one_burst_and_of_two_are_two() -> None:
    other = TOKEN | {"requestId": "s", "data": {"requestId": "s", "token": "a"}}
    assert [(b.request, len(b.items)) for b in read(FROM_SERVER, TOKEN, TOKEN, other).bursts] == [("r", 2), ("s", 1)]


JSON = any_json()
DATA_KEYS = ["requestId", "data", "token", "node", "state", "status", "error", "timestamp", "message"]
OTHER_KEYS = ["limit", "supports", "images", "files", "sessionId"]
KEYS = st.sampled_from(DATA_KEYS) | st.sampled_from(OTHER_KEYS)
TAGS = st.sampled_from([struct.__struct_config__.tag for struct in get_args(AnyEvent) + get_args(AnyAction)])


@given(TAGS, st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON)))
def test_a_known_tag_with_any_fields_gives_a_fault_or_a_message_whose_event_is_written_strictly(
    tag: str, fields: dict[str, Any]
) -> None:
    for direction, key in ((FROM_SERVER, "type"), (FROM_CLIENT, "action")):
        step = read(direction, {key: tag, **fields})
        assert len(step.faults) + len(step.bursts) == 1
        for burst in step.bursts if direction is FROM_SERVER else ():
            if not isinstance(burst.items[0], Unmapped):
                for frame in FROM_SERVER.write(burst).frames:
                    assert_strict(json.loads(frame))


def test_a_frame_that_the_adapter_refused_is_a_fault_with_its_limit() -> None:
    step: Step[Any] = Step()
    FROM_CLIENT.receive([Oversize(size=2000, limit=1000)], step)
    assert [(f.code, "1000" in f.text) for f in step.faults] == [("too_large", True)]


def test_parts_of_another_transport_are_a_fault() -> None:
    step: Step[Any] = Step()
    FROM_CLIENT.receive([Parts("rpc", b"", (b"{}",))], step)
    assert [f.code for f in step.faults] == ["invalid"]


CREATE = {"action": "create_conversation_session", "requestId": "r", "agentId": "a"}
HISTORY = {"action": "get_conversation_messages", "requestId": "r", "sessionId": "s"}
LIST = {"action": "list_conversations", "requestId": "r"}
SEND = {"action": "send_message", "requestId": "r", "sessionId": "s", "message": "hi"}


@pytest.mark.parametrize(
    ("action", "member", "read"),
    [
        *((CREATE, name, ["x"]) for name in ("userName", "userEmail", "browserFingerprint", "conversationId")),
        (CREATE, "metadata", [{}]),
        (CREATE, "authContext", []),  # it has required members
        *((SEND, name, ["x"]) for name in ("model", "skill")),
        (HISTORY, "cursor", ["x"]),
        *((LIST, name, ["x"]) for name in ("cursor", "query")),
    ],
)
def test_an_optional_member_of_a_wrong_type_is_ignored_as_the_real_servers_do(
    action: dict[str, Any], member: str, read: list[object]
) -> None:
    """The servers in Rust and Python of 1.57 accept each of these actions (docs/dialects/smooth.md, section 8)."""
    values: list[object] = [5, -1, 0, 1.5, True, [], {}, "x"]
    assert [value for value in values if command(action | {member: value}) != command(action)] == read


@pytest.mark.parametrize(
    ("supports", "kept"),
    [("identity_form", None), ({}, None), (None, None), ([], ()), (["a", 5, None, "b"], ("a", "b"))],
)
def test_supports_keeps_only_strings_and_must_be_a_list(supports: object, kept: tuple[str, ...] | None) -> None:
    opening = command(CREATE | {"supports": supports})
    assert (type(opening), opening.supports) == (OpenSession, kept)
    assert omits_supports(opening.ext) is (kept is None)


def test_malformed_attachments_are_dropped_one_by_one() -> None:
    images = [{"url": "data:,"}, {"url": 5}, "x", {"url": "u", "detail": "huge"}, {"url": "v", "detail": "low", "x": 1}]
    files = [{"name": "", "url": "u"}, {"name": "n" * 256, "url": "u"}, {"name": "n"}, {"name": "n", "url": "u"}, 5]
    said = command(SEND | {"images": images, "files": files})
    assert said.segments[1:] == (
        ImageAttachment(url="data:,"),
        ImageAttachment(url="v", detail="low"),
        FileAttachment(name="n", url="u"),
    )


def test_members_of_a_wrong_type_are_counted() -> None:
    step = read(FROM_CLIENT, SEND | {"images": [{"url": "data:,"}, {"url": 5}], "files": None, "model": 5, "skill": ""})
    assert [loss.field for loss in step.losses] == ["$.model of a wrong type", "$.images of a wrong type"]
    step = read(FROM_CLIENT, CREATE | {"authContext": {"token": 5}})
    assert [loss.field for loss in step.losses] == ["$.authContext of a wrong type"]


def test_a_message_may_be_missing_beside_an_attachment() -> None:
    said = command({"action": "send_message", "sessionId": "s", "images": [{"url": "data:,"}]})
    assert said == SubmitInput(session="s", segments=(ImageAttachment(url="data:,"),))


@pytest.mark.parametrize("struct", get_args(AnyEvent) + get_args(AnyAction), ids=lambda s: s.__name__)
def test_wire_structs_are_closed_and_omit_what_is_absent(struct: type[msgspec.Struct]) -> None:
    config = struct.__struct_config__
    assert (config.frozen, config.forbid_unknown_fields, config.omit_defaults, config.gc) == (True, True, True, False)


# -- times, compared with the standard library -----------------------------------------------------


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_is_written_like_the_standard_library_writes_it_and_read_back(moment: datetime) -> None:
    at = (moment - EPOCH) // timedelta(microseconds=1) * 1000
    assert rfc3339(at) == moment.isoformat().replace("+00:00", "Z")
    assert nanoseconds(rfc3339(at)) == at


def test_an_invalid_time_is_the_epoch() -> None:
    assert nanoseconds("yesterday") == 0


@pytest.mark.parametrize("at", [10**30, -(10**30)])
def test_a_time_outside_of_the_calendar_is_the_epoch(at: int) -> None:
    assert rfc3339(at) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("time", [-1, 1 << 63, 1e300])
def test_a_time_that_other_dialects_cannot_write_is_dropped(time: float) -> None:
    """The session takes the time at which it was read."""
    step = read(FROM_SERVER, TOKEN | {"timestamp": time})
    assert [(burst.at, [item.text for item in burst.items]) for burst in step.bursts] == [(0, ["a"])]


@pytest.mark.parametrize(("limit", "read_as"), [(-1, 0), (1 << 70, (1 << 63) - 1)])
def test_a_limit_that_other_dialects_cannot_write_is_clamped(limit: int, read_as: int) -> None:
    assert command({"action": "list_conversations", "limit": limit}).limit == read_as
