"""Rules from smooth beyond the golden frames: payloads inside opaque JSON."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical.events import (
    HistorySnapshot,
    SessionOpened,
    SessionsListed,
    StateSnapshot,
    ToolCallArguments,
)
from dragoman.mappings.canonical.values import ImageAttachment, Message, SessionSummary, Text
from dragoman.mappings.dialect import Loss
from dragoman.mappings.extras import as_json
from dragoman.mappings.smooth.from_canonical.replies import history
from dragoman.mappings.smooth.to_canonical.events import TO_EVENT, envelope
from dragoman.mappings.smooth.to_canonical.replies import history_page, session_opened, sessions_listed
from dragoman.mappings.smooth.wire import events as wire

A = "0b0e9b0e-0000-4000-8000-00000000000a"


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def chunk(raw_response: object) -> list[object]:
    state = wire.NodeState(raw_response=raw_response)
    data = wire.StreamChunk.Data(request_id="r", node="n", state=state)
    message = wire.StreamChunk(request_id="r", node="n", data=data, timestamp=1)
    return list(TO_EVENT.functions[wire.StreamChunk](message))


@pytest.mark.parametrize(
    "raw_response",
    [None, "text", [], {}, {"toolCall": None}, {"toolCall": {"name": 5}}, {"toolResult": "x"}, {"toolResult": {}}],
)
def test_a_chunk_without_a_tool_name_is_a_node_state(raw_response: object) -> None:
    assert [type(item) for item in chunk(raw_response)] == [StateSnapshot]


@pytest.mark.parametrize("arguments", ['{"a":1}', {"a": 1}])
def test_arguments_as_text_and_as_an_object_mean_the_same(arguments: object) -> None:
    _, complete = chunk({"toolCall": {"name": "t", "arguments": arguments}})
    assert isinstance(complete, ToolCallArguments)
    assert (complete.json, complete.name, complete.done) == ('{"a":1}', "t", True)


def test_the_top_level_request_id_takes_precedence_over_its_mirror() -> None:
    data = wire.TokenData(request_id="mirror", token="a")
    both = wire.StreamToken(request_id="top", token="a", data=data, timestamp=2)
    assert envelope(both) == (("top", "", None), 2_000_000)
    assert envelope(wire.StreamToken(token="a", data=data)) == (("mirror", "", None), 0)


def test_a_session_without_an_agent_is_read() -> None:
    """T omits most of the descriptor, R sends null for an unknown agent."""
    told = raw({"sessionId": "s", "conversationId": A, "agentId": None, "threadId": "t", "status": "active"})
    ids = {"smooth.sessionId": raw("s"), "smooth.conversationId": raw(A)}
    ids |= {"smooth.threadId": raw("t"), "smooth.status": raw("active")}
    assert session_opened("q", told) == SessionOpened(request="q", session=A, ext=ids)


def test_the_real_page_of_the_reference_server_is_read() -> None:
    record = {
        "id": "m1",
        "conversationId": A,
        "direction": "outbound",
        "content": {"items": [{"type": "text", "text": "It "}, {"type": "text", "text": "rains."}]},
        "createdAt": "1970-01-01T00:00:01Z",
        "updatedAt": None,
    }
    page = raw({"conversationId": A, "messages": [record], "nextCursor": "m1", "hasMore": True})
    assert history_page("q", page, []) == HistorySnapshot(
        request="q",
        items=(Message(role="assistant", text="It rains.", id="m1", at=1_000_000_000),),
        next_cursor="m1",
    )


def test_a_page_keeps_the_optional_parts_of_its_messages_that_are_valid() -> None:
    record = {
        "id": A,
        "direction": "outbound",
        "content": {"text": "It rains.", "structuredResponse": {"sky": ["grey"]}},
        "from": {"id": A, "type": "agent"},
        "to": {"id": A, "type": "user", "name": "Ann"},
        "createdAt": "1970-01-01T00:00:01Z",
    }
    invalid = {
        "content": {"text": "It rains.", "structuredResponse": "grey"},
        "from": {"id": "a", "type": "agent"},
        "to": None,
    }
    losses: list[Loss] = []
    pages = [
        history_page("q", raw({"messages": [one], "hasMore": False}), losses) for one in (record, record | invalid)
    ]
    whole, plain = (json.loads(as_json(history(page)))["messages"][0] for page in pages if page is not None)
    assert whole == record
    assert plain == {**{key: record[key] for key in ("id", "direction", "createdAt")}, "content": {"text": "It rains."}}
    assert [loss.field for loss in losses] == ["items.structuredResponse", "items.from"]


@pytest.mark.parametrize("text", ["Look", ""])
def test_images_in_the_history_of_the_reference_server_are_read(text: str) -> None:
    url = "data:image/png;base64,AA=="
    record = {
        "id": "m1",
        "direction": "inbound",
        "content": {"items": [{"type": "text", "text": text}, {"type": "image", "url": url}], "text": text},
        "createdAt": "1970-01-01T00:00:01Z",
    }
    page = history_page("q", raw({"messages": [record], "hasMore": False}), [])
    segments = (*((Text(text=text),) if text else ()), ImageAttachment(url=url))
    assert page is not None
    assert page.items == (Message(role="user", text=text, segments=segments, id="m1", at=1_000_000_000),)


def test_the_seeds_page_without_a_cursor_is_the_last() -> None:
    page = history_page("q", raw({"messages": [], "hasMore": False}), [])
    assert page == HistorySnapshot(request="q", items=())


def test_a_list_without_paging_is_read() -> None:
    row = {"conversationId": A, "title": "Rain", "updatedAt": "1970-01-01T00:00:02+00:00", "messageCount": 2}
    assert sessions_listed("q", raw({"conversations": [row]})) == SessionsListed(
        request="q", sessions=(SessionSummary(session=A, title="Rain", updated_at=2_000_000_000, messages=2),)
    )


@pytest.mark.parametrize("result", [UNSET, raw({}), raw([]), raw({"messages": 5, "sessionId": 5, "conversations": 5})])
def test_a_payload_of_another_shape_is_no_typed_answer(result: Raw | UnsetType) -> None:
    assert session_opened("q", result) is None
    assert history_page("q", result, []) is None
    assert sessions_listed("q", result) is None
