"""Params without which a server of 0.10.2 refuses a request (docs/dialects/codewhale.md, section 12)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from msgspec import Raw

from dragoman.mappings.canonical import Command, Event, commands
from dragoman.mappings.canonical.events import Gap, HistorySnapshot, Reply, SessionOpened
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


def sent(request: requests.RequestBase) -> Any:
    """Return the params that are sent in place of those of `request`."""
    numbers = count(1)
    message: Any = with_required_params(request, lambda: f"key-{next(numbers)}")
    return message.params


def test_a_thread_is_started_with_a_key() -> None:
    asked = requests.Start(method="thread/start", params=requests.Start.Params(cwd="/w"))
    assert sent(asked) == requests.Start.Params(cwd="/w", operation_key="key-1")
    assert sent(requests.Start(method="thread/start")) == requests.Start.Params(operation_key="key-1")


def test_a_resume_and_a_fork_have_a_key() -> None:
    resumed = sent(requests.Resume(method="thread/resume", params=requests.Resume.Params(thread_id=THREAD)))
    assert resumed == requests.Resume.Params(thread_id=THREAD, operation_key="key-1")
    forked = sent(requests.Fork(method="thread/fork", params=requests.Fork.Params(thread_id=THREAD)))
    assert forked == requests.Fork.Params(thread_id=THREAD, operation_key="key-1")


def test_the_key_of_a_client_is_kept() -> None:
    params = requests.Start.Params(operation_key="its own")
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
    params = requests.Create.Params(metadata=Raw(metadata.encode())) if metadata else requests.Create.Params()
    assert json.loads(bytes(sent(requests.Create(method="thread/create", params=params)).metadata)) == expected


def test_other_requests_are_sent_unchanged() -> None:
    request = requests.Read(method="thread/read", params=requests.OfThread(thread_id=THREAD))
    assert with_required_params(request, str) is request


@pytest.mark.parametrize(("said", "expected"), [(None, []), (["read"], ["read"]), ([], [])])
def test_a_turn_and_a_prompt_allow_no_tools_unless_the_client_named_some(
    said: list[str] | None, expected: list[str]
) -> None:
    message = requests.Message.Params(thread_id=THREAD, input="hi", allowed_tools=said)
    assert sent(requests.Message(method="thread/message", params=message)).allowed_tools == expected
    prompt = requests.Prompt.Params(prompt="hi", allowed_tools=said)
    assert sent(requests.Prompt(method="prompt/run", params=prompt)).allowed_tools == expected


class Server:
    """A server of 0.10.2, or with other capabilities, behind a link; `events` are what it said."""

    def __init__(self, facts: dict[str, object]) -> None:
        self.link = ClientTranslator(lambda: 0, lambda: "key", lambda: 0)
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


def test_settings_of_a_server_of_0_10_2_change_while_a_thread_is_open() -> None:
    server = Server(FACTS)
    server.asked(commands.ResumeSession(request="r", session=THREAD), RESUMED)
    server.asked(commands.SetConfig(request="c", key="k", value="v"), {"ok": True, "data": {}, "events": []})
    assert isinstance(server.events[-1], Reply)
    assert server.events[-1].failure is None


def test_a_history_has_the_thoughts_texts_and_tool_calls_of_the_turns() -> None:
    """A server of 0.10.2 wrote these items; a pod client sees the same when it attaches (rule 4.7)."""
    call = {"tool_use_id": "0517", "tool_name": "bash", "tool_input": '{"command":"echo hi"}', "exit_code": 0}
    denied = "Failed to authorize tool execution: Tool 'bash' denied by user"
    assert items_read(
        saved_item("user_message", "hi", 1),
        saved_item("agent_reasoning", "Let me think", 2),
        saved_item("agent_message", "I will call. ", 3),
        saved_item("tool_call", "hi\n", 4, metadata=call | {"tool_result_for": "0517", "is_error": False}),
        saved_item("status", "Continuing - tool results", 5),
        saved_item("file_change", denied, 6, metadata=call | {"tool_result_for": "0517", "is_error": True}),
        saved_item("command_execution", '{"command":"echo hi"}', 7, status="interrupted", metadata=call),
        saved_item("error", "Server error (500): boom", 8),
        saved_item("agent_message", "done", 9),
    ) == [
        Message(role="user", text="hi", at=time_of(1)),
        Reasoning(text="Let me think", at=time_of(2)),
        Message(role="assistant", text="I will call. ", at=time_of(3)),
        *called(4, ToolResult(call="0517", name="bash", output="hi\n", at=time_of(4))),
        *called(6, ToolResult(call="0517", name="bash", output=denied, is_error=True, at=time_of(6))),
        *called(7),
        Message(role="assistant", text="done", at=time_of(9)),
    ]


def called(second: int, *result: ToolResult) -> list[Item]:
    return [ToolCall(call="0517", name="bash", arguments='{"command":"echo hi"}', at=time_of(second)), *result]


def test_a_forked_thread_has_its_tool_calls_and_their_results_as_items_of_their_own() -> None:
    call = {"tool_use_id": "0517", "tool_name": "bash", "provider_tool_use_id": "call0"}
    assert items_read(
        saved_item("tool_call", '{"command":"echo hi"}', 1, metadata=call),
        saved_item("tool_call", "hi", 2, metadata={"tool_result_for": "0517", "is_error": False}),
    ) == called(1, ToolResult(call="0517", name="bash", output="hi", at=time_of(2)))


def test_a_history_has_the_whole_conversation_after_a_compaction() -> None:
    """The saved session has what the model is sent then: no early answer, but a summary as an input."""
    sent_to_model = [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": META}]},
        {"role": "user", "content": [{"type": "text", "text": SUMMARY}, {"type": "text", "text": CHECKPOINT}]},
        {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": META}]},
        {"role": "assistant", "content": [{"type": "text", "text": "second"}]},
    ]
    read = messages_read(
        saved_item("user_message", "one", 1),
        saved_item("agent_message", "first", 2),
        saved_item("context_compaction", "Made room: 2 -> 2 messages (0 removed)", 3),
        saved_item("user_message", "two", 4),
        saved_item("agent_message", "second", 5),
        session=sent_to_model,
    )
    assert [message.text for message in read] == ["one", "first", "two", "second"]


def test_an_input_that_no_user_has_typed_is_a_system_message() -> None:
    """A server of 0.10.2 also sends its model notes of its own as inputs; a public widget must not show them."""
    note = '<codewhale:runtime_state kind="agent_topology" visibility="internal">\n{}\n</codewhale:runtime_state>'
    runtime = "<turn_meta>\nInput provenance: runtime (non-authoritative)\n</turn_meta>"
    read = messages_read(
        saved_item("user_message", f"hi\n{META}", 1),
        saved_item("user_message", f"{note}\n{runtime}", 2),
        saved_item("user_message", f"{SUMMARY}\n{CHECKPOINT}", 3),
        saved_item("user_message", "Goal kickoff", 4, metadata={"input_provenance": "goal_continuation"}),
    )
    texts = [("user", "hi"), ("system", note), ("system", SUMMARY), ("system", "Goal kickoff")]
    assert [(message.role, message.text) for message in read] == texts


def test_the_text_of_an_interrupted_answer_is_read_but_no_broken_stream_and_no_dropped_input() -> None:
    """The server sends the request again when its stream breaks, and leaves the piece before `in_progress`.

    It accepts further inputs in a turn, and drops those that an interrupt comes before.
    """
    read = messages_read(
        saved_item("agent_message", "w0 w1 ", 1, status="interrupted"),
        saved_item("user_message", "steered text", 1, status="canceled"),
        saved_item("agent_message", "hel", 2, status="in_progress"),
        saved_item("agent_message", "hello", 3),
    )
    assert [message.text for message in read] == ["w0 w1 ", "hello"]


META = (
    "<turn_meta>\nCurrent local date: 2026-11-27\nCurrent workspace: /w\nCurrent permission posture: Ask\n</turn_meta>"
)


SUMMARY = "Codewhale handoff note. Earlier turns of this session were condensed to make room."
CHECKPOINT = "<!-- codewhale.compaction-checkpoint.v1 -->"


def time_of(second: int) -> int:
    return parse(f"2026-11-27T15:12:{second:02}.5Z") or 0


def saved_item(kind: str, detail: str | None, second: int, **further: Any) -> dict[str, Any]:
    """Return an item as 0.10.2 writes it."""
    at = f"2026-11-27T15:12:{second:02}.5Z"
    return further | {
        "schema_version": 2,
        "id": f"item_{second}",
        "turn_id": "turn_6c984398",
        "kind": kind,
        "status": further.get("status", "completed"),
        "summary": detail,
        "detail": detail,
        "artifact_refs": [],
        "started_at": at,
        "ended_at": at,
    }


def items_read(*items: dict[str, Any], session: Sequence[dict[str, Any]] = ()) -> list[Item]:
    """Return the history of a thread with these items and these messages of its saved session, oldest first."""
    server = Server(FACTS)
    server.asked(commands.ResumeSession(request="r", session=THREAD), RESUMED)
    data = {"history": {"version": 1, "session": {"messages": session}}, "items": items}
    server.asked(commands.GetHistory(request="h", session=THREAD), RESUMED | {"status": "ok", "data": data})
    history = server.events[-1]
    assert isinstance(history, HistorySnapshot)
    return [*reversed(history.items)]


def messages_read(*items: dict[str, Any], session: Sequence[dict[str, Any]] = ()) -> list[Message]:
    """Return the messages in the history of a thread, oldest first."""
    return [item for item in items_read(*items, session=session) if isinstance(item, Message)]


def test_an_input_is_read_without_the_text_that_the_server_added_for_the_model() -> None:
    """A forked thread has that text in each input, and a public widget must not show it."""
    read = messages_read(
        saved_item("user_message", f"hi\n{META}", 6),
        saved_item("user_message", "<turn_meta> is a tag", 7),
        saved_item("agent_message", "It is\n<turn_meta>", 8),
    )
    assert [message.text for message in read] == ["hi", "<turn_meta> is a tag", "It is\n<turn_meta>"]


@pytest.mark.parametrize("detail", ["look", f"look\n{META}"])
def test_the_images_of_an_input_are_read(detail: str) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQ=="}}
    text = {"type": "text", "text": "look"}
    session = [{"role": "user", "content": [text, image, {"type": "text", "text": META}]}]
    first, second = messages_read(*[saved_item("user_message", detail, 1)] * 2, session=session)
    assert first.segments == (Text(text="look"), ImageAttachment(url="data:image/png;base64,AQ=="))
    assert first.text == "look"
    assert second.segments == (), "the same text without an image"
