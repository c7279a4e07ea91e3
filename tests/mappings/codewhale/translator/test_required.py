"""Params without which a server of 0.10.2 refuses a request (docs/dialects/codewhale.md, section 12)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from msgspec import Raw

from dragoman.mappings.canonical import Command, Event, commands
from dragoman.mappings.canonical.events import Gap, HistorySnapshot, SessionOpened
from dragoman.mappings.canonical.values import ImageAttachment, Item, Message, Reasoning, Text, ToolCall, ToolResult
from dragoman.mappings.codewhale.from_canonical.generations import with_required_params
from dragoman.mappings.codewhale.translator.client import ClientTranslator
from dragoman.mappings.codewhale.wire import requests
from dragoman.mappings.dialect import Frame
from dragoman.mappings.rfc3339 import parse

THREAD = "thr_0c2f9e5a"

FACTS = {
    "transport": "stdio",
    "families": ["thread/*", "app/*", "prompt/*"],
    "turn_image_inputs": True,
    "interactive_execution": False,
    "goal_execution": False,
    "tool_free_turns": True,
    "full_api_entrypoint": "codewhale app-server --http",
}

GATEWAY = {"keeps_context": True}
"""The capabilities of another gateway."""

ROW = {
    "id": THREAD,
    "preview": "",
    "ephemeral": False,
    "model_provider": "deepseek",
    "created_at": 1,
    "updated_at": 1,
    "status": "idle",
    "cwd": "/w",
    "cli_version": "0.10.2",
    "source": "api",
}

RESUMED = {"thread_id": THREAD, "status": "resumed", "thread": ROW, "threads": [], "events": [], "data": {}}

SAID: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "?"}, {"type": "text", "text": "Hello you"}]},
]


def sent(request: requests.RequestBase) -> Any:
    """Return the params that are sent in place of those of `request`."""
    numbers = count(1)
    message: Any = with_required_params(request, lambda: f"key-{next(numbers)}")
    return message.params


def test_a_thread_is_started_with_a_key() -> None:
    asked = requests.Start(method="thread/start", params=requests.StartParams(cwd="/w"))
    assert sent(asked) == requests.StartParams(cwd="/w", operation_key="key-1")
    assert sent(requests.Start(method="thread/start")) == requests.StartParams(operation_key="key-1")


def test_a_resume_and_a_fork_have_a_key() -> None:
    resumed = sent(requests.Resume(method="thread/resume", params=requests.ResumeParams(thread_id=THREAD)))
    assert resumed == requests.ResumeParams(thread_id=THREAD, operation_key="key-1")
    forked = sent(requests.Fork(method="thread/fork", params=requests.ForkParams(thread_id=THREAD)))
    assert forked == requests.ForkParams(thread_id=THREAD, operation_key="key-1")


def test_the_key_of_a_client_is_kept() -> None:
    params = requests.StartParams(operation_key="its own")
    assert sent(requests.Start(method="thread/start", params=params)) is params


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, {"operation_key": "key-1"}),
        ("null", {"operation_key": "key-1"}),
        ('{"mode": "plan"}', {"operation_key": "key-1", "mode": "plan"}),
        ('{"operation_key": "its own"}', {"operation_key": "its own"}),
        ("[1]", [1]),
    ],
)
def test_the_metadata_of_a_create_has_a_key(metadata: str | None, expected: object) -> None:
    params = requests.CreateParams(metadata=Raw(metadata.encode())) if metadata else requests.CreateParams()
    assert json.loads(bytes(sent(requests.Create(method="thread/create", params=params)).metadata)) == expected


def test_other_requests_are_sent_unchanged() -> None:
    request = requests.Read(method="thread/read", params=requests.OfThread(thread_id=THREAD))
    assert with_required_params(request, str) is request


@pytest.mark.parametrize(("said", "expected"), [(None, []), (["read"], ["read"]), ([], [])])
def test_a_turn_and_a_prompt_allow_no_tools_unless_the_client_named_some(
    said: list[str] | None, expected: list[str]
) -> None:
    message = requests.MessageParams(thread_id=THREAD, input="hi", allowed_tools=said)
    assert sent(requests.Message(method="thread/message", params=message)).allowed_tools == expected
    prompt = requests.PromptParams(prompt="hi", allowed_tools=said)
    assert sent(requests.Prompt(method="prompt/run", params=prompt)).allowed_tools == expected


class Server:
    """A server of 0.10.2, or with other capabilities, behind a link; `events` are what it said."""

    def __init__(self, facts: dict[str, object]) -> None:
        self.link = ClientTranslator(lambda: 0, lambda: "key")
        self.events: list[Event] = []
        self._answer(self.link.opened().frames, {"methods": ["thread/message"], **facts})

    def asked(self, command: Command, result: Mapping[str, object]) -> None:
        """Answer a command with this result."""
        self._answer(self.link.send([command]).frames, result)

    def _answer(self, frames: Sequence[Frame], result: Mapping[str, object]) -> None:
        (request,) = [json.loads(frame) for frame in frames if isinstance(frame, bytes)]
        step = self.link.receive([json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()])
        assert (step.faults, step.losses) == ([], [])
        self.events += [item for burst in step.bursts for item in burst.items]


@pytest.mark.parametrize(
    ("facts", "expected"), [({}, [SessionOpened, Gap]), (FACTS, [SessionOpened]), (GATEWAY, [SessionOpened])]
)
def test_a_server_of_0_10_2_resumes_a_thread_with_its_context(facts: dict[str, object], expected: list[type]) -> None:
    server = Server(facts)
    server.asked(commands.ResumeSession(request="r", session=THREAD), RESUMED)
    assert [type(event) for event in server.events] == expected


def test_the_history_of_a_thread_is_read_from_its_saved_session() -> None:
    assert [(read.role, read.text) for read in messages_read(SAID)] == [("user", "hi"), ("assistant", "Hello you")]


def test_a_history_has_the_thoughts_and_tool_calls_of_the_saved_session() -> None:
    """A server of 0.10.2 wrote these messages; a pod client sees the same items when it attaches (rule 4.7)."""
    denied = "Error: Tool 'read_file' was denied: Tool 'read_file' is not in the allowed-tools list for the command."
    thought = {"type": "thinking", "thinking": "Let me think"}
    call = {"type": "tool_use", "id": "call0", "name": "read_file", "input": {"path": "a"}, "execution_id": "0910"}
    result = {
        "type": "tool_result",
        "tool_use_id": "call0",
        "content": denied,
        "execution_id": "0910",
        "is_error": True,
    }
    said: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": META}]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "I will call. "}, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}, {"type": "server_tool_use", "id": "x"}]},
    ]
    times = saved_item("user_message", f"hi\n{META}", 6), saved_item("agent_message", "I will call. ", 7)
    first, second = (parse(f"2026-11-27T15:12:{n:02}.5Z") or 0 for n in (6, 7))
    assert items_read(said, *times) == [
        Message(role="user", text="hi", at=first),
        Reasoning(text="Let me think", at=first),
        Message(role="assistant", text="I will call. ", at=second),
        ToolCall(call="call0", name="read_file", arguments='{"path":"a"}', at=second),
        ToolResult(call="call0", name="read_file", output=denied, is_error=True, at=second),
        Message(role="assistant", text="done"),
    ]


META = (
    "<turn_meta>\nCurrent local date: 2026-11-27\nCurrent workspace: /w\nCurrent permission posture: Ask\n</turn_meta>"
)


def saved_item(kind: str, detail: str | None, second: int) -> dict[str, Any]:
    """Return an item as 0.10.2 writes it."""
    at = f"2026-11-27T15:12:{second:02}.5Z"
    return {
        "schema_version": 2,
        "id": f"item_{second}",
        "turn_id": "turn_6c984398",
        "kind": kind,
        "status": "completed",
        "summary": detail,
        "detail": detail,
        "artifact_refs": [],
        "started_at": at,
        "ended_at": at,
    }


def items_read(said: list[dict[str, Any]], *items: dict[str, Any]) -> list[Item]:
    """Return the history of a thread with these messages and items, oldest first."""
    server = Server(FACTS)
    server.asked(commands.ResumeSession(request="r", session=THREAD), RESUMED)
    data = {"history": {"version": 1, "session": {"messages": said}}} | ({"items": items} if items else {})
    server.asked(commands.GetHistory(request="h", session=THREAD), RESUMED | {"status": "ok", "data": data})
    history = server.events[-1]
    assert isinstance(history, HistorySnapshot)
    return [*reversed(history.items)]


def messages_read(said: list[dict[str, Any]], *items: dict[str, Any]) -> list[Message]:
    """Return the messages in the history of a thread, oldest first."""
    return [item for item in items_read(said, *items) if isinstance(item, Message)]


def test_an_input_is_read_without_the_text_that_the_server_added_for_the_model() -> None:
    """A forked thread has that text in each input, and a public widget must not show it."""
    said = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": META}]},
        {"role": "user", "content": [{"type": "text", "text": "<turn_meta> is a tag"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is\n<turn_meta>"}]},
    ]
    items = saved_item("user_message", f"hi\n{META}", 6), saved_item("agent_message", "It is\n<turn_meta>", 7)
    read = messages_read(said, *items)
    assert [message.text for message in read] == ["hi", "<turn_meta> is a tag", "It is\n<turn_meta>"]
    assert [message.at for message in read] == [parse("2026-11-27T15:12:06.5Z"), 0, parse("2026-11-27T15:12:07.5Z")]


def test_the_images_of_an_input_are_read() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQ=="}}
    text = {"type": "text", "text": "look"}
    (read,) = messages_read([{"role": "user", "content": [text, image, {"type": "text", "text": META}]}])
    assert read.segments == (Text(text="look"), ImageAttachment(url="data:image/png;base64,AQ=="))
    assert read.text == "look"


def test_messages_have_the_times_of_their_items() -> None:
    brought = {"role": "user", "content": "brought along"}
    read = messages_read(
        [*SAID, *SAID, brought],
        saved_item("user_message", "hi", 6),
        saved_item("agent_reasoning", "?", 7),
        saved_item("agent_message", "Hello you", 8),
        saved_item("user_message", "hi", 9),
        saved_item("context_compaction", None, 10),
        saved_item("agent_message", "Hello you", 11),
    )
    times = [parse(f"2026-11-27T15:12:{second:02}.5Z") for second in (6, 8, 9, 11)]
    assert [message.at for message in read] == [*times, 0]
