"""Round trips of messages that neither the vectors nor the captures have, and the forms in which messages arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import encode

from dragoman.mappings.canonical import Unmapped, commands, events
from dragoman.mappings.canonical.values import Usage
from dragoman.mappings.dialect import Direction, Missed, Oversize, Parts, Step
from dragoman.mappings.errors import PeerError
from dragoman.mappings.pando import DIALECT
from dragoman.mappings.pando.vocabulary import given as given_of
from dragoman.mappings.pando.wire import codecs
from tests.mappings.pando.data import VECTORS, parts, value
from tests.mappings.round_trip import any_json, back_and_forth

INSTANCE = "3f0c9a52-6a1e-4c55-9d0b-8a4f0e7d1c11"


def published(topic: str, payload: object, **more: object) -> bytes:
    envelope = {
        "instanceId": INSTANCE,
        "projectId": "",
        **more,
        "topic": topic,
        "timestamp": "2026-05-09T21:28:20.5Z",
        "payload": payload,
    }
    return topic.encode() + b"\0" + json.dumps(envelope).encode()


def call(method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "req-1", "method": method, "params": params}).encode()


SESSION = {"id": "s-1", "title": "T", "updated_at": "2026-05-09T23:28:20+02:00", "message_count": 4}

OF_TOPIC = (
    "pub.session.deleted",
    "pub.llm.start",
    "pub.llm.end",
    "pub.tool.start.full",
    "pub.tool.end",
    "pub.heartbeat.full",
)

EVENTS = [
    published("session.list", {"sessions": [SESSION, {**SESSION, "updated_at": "2026-05-09T21:28:20Z"}]}),
    published("session.list", {"sessions": []}),
    published("session.list", {"sessions": None}),
    published("session.activated", SESSION),
    published("session.update", {**SESSION, "updated_at": "0001-01-01T00:00:00Z"}),
    published("message.append", {"session_id": "s-1", "message_id": "m-1", "role": "user", "content": "hi"}),
    published("message.append", {"session_id": "s-1", "message_id": "m-1", "role": "system", "content": ""}),
    published("message.append", {"session_id": "s-1", "message_id": "m-1", "role": "assistant", "content": "hi"}),
    published("message.append", {"session_id": "s-1", "message_id": "m-1", "role": "tool", "content": "42"}),
    published("instance.shutdown", {"instance_id": INSTANCE, "reason": "graceful shutdown"}),
    published("llm.token", {"session_id": "s-1", "token": "x"}, projectId="p", sessionId="e"),
    published(
        "db.project.deleted",
        {
            "instance_id": INSTANCE,
            "path": "/p",
            "topic": "db.project.deleted",
            "payload": None,
            "timestamp": "2026-05-09T21:28:20Z",
        },
    ),
    b'{"jsonrpc":"2.0","id":"req-1","result":null}',
    b'{"jsonrpc":"2.0","id":"","error":{"code":-32700,"message":"parse error"}}',
]
_ONE_EACH = {
    frame.partition(b"\0")[0]: frame
    for frame in [
        *(row["frames"][0].encode() for row in VECTORS if row["kind"] == "pub" and row["name"] in OF_TOPIC),
        *EVENTS,
    ]
    if b"\0" in frame
}
EVENTS += [frame.replace(b'"topic":', b'"sessionId":"e","topic":', 1) for frame in _ONE_EACH.values()]
"""Published messages with a sessionId, which is optional and which no real peer sets."""

REQUESTS = [
    call("instance.info", {}),
    call("session.activate", None),
    call("message.send", None),
    call("state.sync", None),
    call("session.interrupt", {"session_id": "s-1"}),
    call("db.write", {"method": "Nope"}),
]


@pytest.mark.parametrize(
    ("direction", "messages"), [(DIALECT.events, EVENTS), (DIALECT.commands, REQUESTS)], ids=["events", "requests"]
)
def test_each_message_comes_back_equal(direction: Direction[Any], messages: list[bytes]) -> None:
    for message in messages:
        step, frames = back_and_forth(direction, message)
        assert (step.faults, step.losses) == ([], []), message
        assert [value(frame) for frame in frames] == [value(message)]


def test_a_message_of_an_unknown_topic_is_unmapped_and_passed_on_unchanged() -> None:
    frame = published("goal.reached", {"x": 1})
    step, frames = back_and_forth(DIALECT.events, frame)
    ((item,),) = [burst.items for burst in step.bursts]
    assert isinstance(item, Unmapped)
    assert (item.tag, frames) == ("goal.reached", [frame])


def test_a_call_of_an_unknown_method_is_unmapped_with_its_id_and_not_passed_on() -> None:
    step, frames = back_and_forth(DIALECT.commands, call("nope.nope", {}))
    ((item,),) = [burst.items for burst in step.bursts]
    assert isinstance(item, Unmapped)
    assert (item.tag, item.request, frames) == ("nope.nope", "req-1", [])


def test_the_burst_names_session_and_publisher() -> None:
    step: Step[Any] = Step()
    token = published("llm.token", {"session_id": "s-1", "token": "a"})
    other = published("llm.token", {"session_id": "s-2", "token": "b"})
    DIALECT.events.receive([Parts("pub", b"", (f,)) for f in (token, token, other)], step)
    assert [(b.session, len(b.items), b.at) for b in step.bursts] == [
        ("s-1", 2, 1_778_362_100_500_000_000),
        ("s-2", 1, 1_778_362_100_500_000_000),
    ]
    assert given_of(step.bursts[0].ext, "instanceId", str, "") == INSTANCE


def test_llm_end_has_usage_only_if_it_has_counters() -> None:
    ends = []
    for row in VECTORS:
        if row["name"].startswith("pub.llm.end"):
            step, _ = back_and_forth(DIALECT.events, parts(row["frames"]))
            (end,) = step.bursts[0].items
            assert isinstance(end, events.TurnEnded)
            ends.append(end.usage and (end.usage.input_tokens, end.usage.output_tokens))
    assert ends == [None, (1200, 345)]


# -- how Go reads ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "usual"),
    [
        (b'{"ID":"r","Method":"session.get","PARAMS":{"Session_ID":"s"}}', ("r", "s")),
        (b'{"id":null,"method":"session.get","params":{"session_id":null}}', ("", "")),
        (b'{"id":"a","id":"r","method":"session.get","params":{"session_id":"x","session_id":"s"}}', ("r", "s")),
        (b'{"method":"nope","id":"r","method":"session.get","params":{"session_id":"s"}}', ("r", "s")),
        (b'{"id":"r","method":"session.get","params":{"session_id":"\xff"}}', ("r", "�")),
        (b'{"id":"r","method":"session.get","params":{"session_id":"\\ud800"}}', ("r", "�")),
    ],
)
def test_a_request_is_read_as_go_reads_it(spelling: bytes, usual: tuple[str, str]) -> None:
    step, _ = back_and_forth(DIALECT.commands, spelling)
    ((item,),) = [burst.items for burst in step.bursts]
    assert isinstance(item, commands.GetSession)
    assert (item.request, item.session) == usual


@pytest.mark.parametrize(
    "frame",
    [
        b"\xef\xbb\xbf" + call("instance.ping", {}),
        b"[]",
        b"",
        b'{"id":7,"method":"instance.ping"}',
        b'{"id":"r","method":7}',
        b'{"id":"r","method":"session.get"}',
        b'{"id":"r","method":"session.get","params":[]}',
        b'{"id":"r","method":"db.write","params":[]}',
        b'{"id":"r","method":"db.write","params":{"method":"CreateSession","params":5}}',
        b'{"id":"r","method":"instance.ping","params":NaN}',
    ],
)
def test_a_message_that_go_refuses_is_a_fault(frame: bytes) -> None:
    step, frames = back_and_forth(DIALECT.commands, frame)
    assert (frames, len(step.faults)) == ([], 1)


@pytest.mark.parametrize("time", ["yesterday", "2026-05-09", "2026-05-09t21:28:20z", "2026-05-09T24:00:00Z", ""])
def test_a_published_message_whose_time_go_does_not_read_is_a_fault(time: str) -> None:
    frame = b'llm.start\0{"topic":"llm.start","timestamp":"%b","payload":{}}' % time.encode()
    step, _ = back_and_forth(DIALECT.events, frame)
    assert [fault.code for fault in step.faults] == ["invalid"]


def test_json_that_is_too_deep_is_a_fault_also_in_opaque_members() -> None:
    for depth in (501, 2000, 100_000):
        deep = b"[" * depth + b"]" * depth
        step, _ = back_and_forth(DIALECT.commands, b'{"method":"instance.ping","params":' + deep + b"}")
        assert [fault.code for fault in step.faults] == ["too_deep"]


def test_the_rows_of_a_long_answer_are_not_read_without_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_frame: bytes) -> object:
        raise AssertionError("it was decoded twice")

    monkeypatch.setattr(codecs, "as_go_reads", refuse)
    answer = json.dumps({"jsonrpc": "2.0", "id": "req-1", "result": [{"id": "m"}] * 10_000}).encode()
    step: Step[Any] = Step()
    DIALECT.events.receive([Parts("rpc", b"", (b"", answer))], step)
    assert ([len(burst.items) for burst in step.bursts], step.faults) == ([1], [])


# -- what arrives ------------------------------------------------------------------------------------

GOOD = [
    (DIALECT.commands if row["kind"] == "rpc_request" else DIALECT.events, row["frames"][-1].encode())
    for row in VECTORS
    if ".bad." not in row["name"] and row["name"] != "pub.ok.extra_frame"
]


@pytest.mark.parametrize("direction", [DIALECT.events, DIALECT.commands], ids=["events", "commands"])
def test_a_message_that_is_cut_off_anywhere_gives_only_faults(direction: Any) -> None:
    for known, frame in GOOD:
        if known is direction:
            for end in range(len(frame)):
                step: Step[Any] = Step()
                direction.receive([Parts("rpc", b"", (b"", frame[:end])), Parts("pub", b"", (frame[:end],))], step)
                assert len(step.faults) == 2
                assert step.bursts == []


@pytest.mark.parametrize(
    ("params", "arguments"),
    [
        (r'"{\"comm""and\":\"echo \\\"h""i\\\"\"}"', r'{"command":"echo \"hi\""}'),
        (r'""""', r'""""'),
        (r'"text"', r'"text"'),
        (r'"{\"a\":1}" ', r'"{\"a\":1}" '),
        (r'{"a":"\"\""}', r'{"a":"\"\""}'),
        (r'"{\"a\":\"\ud83d"', r'"{\"a\":\"\ud83d"'),
        (r'"{\"a\":\"\\\\""\"}"', r'{"a":"\\"}'),
        (r'"{\"a\":[}"', r'"{\"a\":[}"'),
        (r'"{\"a\":1"""}"', r'"{\"a\":1"""}"'),
        ('"{\0}"', '"{\0}"'),
        (r'" {}" "', r'" {}" "'),
        (r'"{}\"', r'"{}\"'),
        ('"{\\"a\\":' + "[" * 100_000 + '"', '"{\\"a\\":' + "[" * 100_000 + '"'),
    ],
)
def test_arguments_published_as_json_strings_of_fragments_are_joined_and_given_back(
    params: str, arguments: str
) -> None:
    """Released programs do so with a model of Anthropic."""
    started = {"session_id": "s", "tool_name": "bash", "call_id": "c", "params": params}
    step, frames = back_and_forth(DIALECT.events, published("tool.start", started))
    ((event,),) = [burst.items for burst in step.bursts]
    assert isinstance(event, events.ToolCallArguments)
    assert event.json == arguments
    assert [value(frame)[1]["payload"]["params"] for frame in frames] == [params]


JSON = any_json()
NAMES = ["id", "method", "params", "session_id", "payload", "topic", "timestamp", "sessions", "result", "error", "meta"]
FIELDS = st.dictionaries(st.sampled_from(NAMES), JSON | st.dictionaries(st.sampled_from(NAMES), JSON), max_size=5)
METHODS = ["session.get", "state.sync", "db.write", "message.send", "instance.ping"]
TOPICS = ["session.list", "llm.token", "db.session.created", "instance.heartbeat", "tool.start"]


@given(FIELDS, st.sampled_from(METHODS), st.sampled_from(TOPICS))
def test_any_members_of_a_known_name_are_a_fault_or_can_be_written_again(
    fields: dict[str, Any], method: str, topic: str
) -> None:
    for direction, frame in (
        (DIALECT.commands, json.dumps({**fields, "method": method}).encode()),
        (DIALECT.events, topic.encode() + b"\0" + json.dumps(fields).encode()),
        (DIALECT.events, json.dumps(fields).encode()),
    ):
        step, frames = back_and_forth(direction, frame)
        assert len(step.faults) + len(frames) == 1


def test_a_message_that_the_adapter_dropped_is_a_fault() -> None:
    step: Step[Any] = Step()
    DIALECT.events.receive([Oversize(size=9, limit=8), Missed("pub", 3), Parts("rpc", b"", ())], step)
    assert [fault.code for fault in step.faults] == ["too_large", "too_large", "invalid"]


# -- lines of translate ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row", [r for r in VECTORS if r["name"][4:8] not in ("bad.", "ok.e", "ok.n")][::7], ids=lambda row: row["name"]
)
def test_a_line_is_a_json_array_of_frames(row: dict[str, Any]) -> None:
    direction = DIALECT.commands if row["kind"] == "rpc_request" else DIALECT.events
    assert direction.lines is not None
    message = direction.lines.read(json.dumps(row["frames"]).encode())
    assert isinstance(message, Parts)
    assert [part.decode() for part in message.parts] == row["frames"]
    frame = message.parts[-1] if row["kind"] != "pub" else message.parts[0]
    assert json.loads(direction.lines.write(frame)) == row["frames"]


@pytest.mark.parametrize(
    ("direction", "frame"),
    [
        (DIALECT.commands, b'{"id":"r","method":"instance.ping","params":["\xff"]}'),
        (DIALECT.commands, b'{"id":"r","method":"db.write","params":{"meta":{},"method":"X","params":["\xff"]}}'),
        (DIALECT.events, b'{"jsonrpc":"2.0","id":"r","result":["\xff"]}'),
        (DIALECT.events, published("db.session.updated", {"payload": "?"}).replace(b"?", b"\xff")),
    ],
)
def test_opaque_json_that_is_not_utf8_is_read_as_go_reads_it(direction: Direction[Any], frame: bytes) -> None:
    step: Step[Any] = Step()
    direction.receive([frame], step)
    assert "\ufffd" in encode(step.bursts[0].items[0]).decode()


@pytest.mark.parametrize("line", [b"{}", b"[1]", b"nope", b"\xff", b'["\\ud800"]'])
def test_a_line_that_is_no_array_of_strings_is_a_fault(line: bytes) -> None:
    for direction in (DIALECT.events, DIALECT.commands):
        assert direction.lines is not None
        with pytest.raises(PeerError):
            direction.lines.read(line)


def test_a_negative_count_of_tokens_is_no_count() -> None:
    """A pod client's reader ends for good on a negative number."""
    step: Step[Any] = Step()
    DIALECT.events.receive([published("llm.end", {"session_id": "s-1", "tokens_in": -1, "tokens_out": 7})], step)
    assert step.bursts[0].items == [events.TurnEnded(end="completed", usage=Usage(input_tokens=0, output_tokens=7))]


@pytest.mark.parametrize(
    ("topic", "field"),
    [
        ("llm.end", "tokens_in"),
        ("llm.end", "tokens_out"),
        ("session.update", "message_count"),
        ("instance.heartbeat", "session_count"),
    ],
)
@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 70])
def test_a_number_above_64_bits_refuses_its_message_as_go_does(topic: str, field: str, number: int) -> None:
    step: Step[Any] = Step()
    DIALECT.events.receive([published(topic, {field: number})], step)
    assert (step.bursts, len(step.faults)) == ([], 1)
