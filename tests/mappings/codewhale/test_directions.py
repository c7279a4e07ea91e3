"""Round trips of messages that neither the vectors nor the captures have, and the forms in which messages arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.mappings.canonical import Event, Unmapped, commands, events
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.codewhale import DIALECT
from dragoman.mappings.codewhale.directions import Overheard, is_blank
from dragoman.mappings.dialect import Burst, Direction, Oversize, Step
from dragoman.mappings.extras import raw
from tests.mappings.codewhale.data import LINES, direction_of
from tests.mappings.round_trip import any_json, back_and_forth

THREAD = "thread-00000000-0000-4000-8000-000000000001"


def called(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def told(frame: dict[str, object]) -> bytes:
    result = {"ok": True, "data": {}, "events": [frame]}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


APPROVAL = {
    "call_id": "c",
    "approval_id": "a",
    "turn_id": "t",
    "command": "rm x",
    "cwd": "/w",
    "reason": "",
    "proposed_execpolicy_amendment": [],
    "proposed_network_policy_amendments": [{"host": "h", "action": "deny"}],
    "additional_permissions": [],
    "available_decisions": [{"type": "abort"}],
}
SHELL = {"type": "local_shell", "params": {"command": "ls"}}
NO_BODY = {"type": "function", "success": False}
GOAL = {
    "thread_id": "t",
    "goal_id": "g",
    "objective": "o",
    "status": "paused",
    "tokens_used": 1,
    "time_used_seconds": 2,
    "continuation_count": 3,
    "created_at": 4,
    "updated_at": 5,
    "last_gap_fingerprint": "f",
    "repeated_gap_count": 6,
    "last_gap_pass": 7,
    "pause_reason": "no_progress",
}
FRAMES: list[dict[str, object]] = [
    {"event": "mcp_tool_call_end", "server_name": "s", "tool_name": "t", "ok": False},
    {"event": "apply_patch_approval_request", "request": APPROVAL},
    {"event": "elicitation_request", "server_name": "s", "request_id": "r", "prompt": "p"},
    {"event": "exec_command_begin", "command": "ls", "cwd": "/w"},
    {"event": "exec_command_output_delta", "command": "ls", "delta": "a"},
    {"event": "patch_apply_begin", "path": "p"},
    {"event": "patch_apply_end", "path": "p", "ok": True},
    {"event": "turn_started", "turn_id": "t"},
    {"event": "turn_aborted", "turn_id": "t", "reason": "r"},
    {"event": "thread_goal_cleared", "thread_id": "t"},
    {"event": "response_delta", "response_id": "r", "delta": "d", "channel": "text"},
    {"event": "mcp_startup_update", "update": {"server_name": "s", "status": {"failed": {"error": "e"}}}},
    {"event": "tool_call_start", "response_id": "r", "tool_name": "t", "arguments": SHELL},
    {"event": "tool_call_result", "response_id": "r", "tool_name": "t", "output": NO_BODY},
    {
        "event": "tool_call_result",
        "response_id": "r",
        "tool_name": "t",
        "output": {"type": "mcp", "result": {"isError": "no"}},
    },
    {"event": "tool_call_result", "response_id": "r", "tool_name": "t", "output": [1]},
    {"event": "thread_goal_updated", "goal": GOAL},
]

THREAD_OF = {
    "id": THREAD,
    "preview": "p",
    "ephemeral": False,
    "model_provider": "m",
    "created_at": 1,
    "updated_at": 2,
    "status": "idle",
    "path": "/p",
    "cwd": "/w",
    "cli_version": "0.9.10",
    "source": "api",
}
RESPONSE = {
    "thread_id": THREAD,
    "status": "resumed",
    "thread": THREAD_OF,
    "threads": [],
    "model": "m",
    "model_provider": "p",
    "cwd": "/w",
    "approval_policy": "never",
    "sandbox": "s",
    "events": [],
    "data": {},
}
PROMPTED = {"output": "{}", "model": "m", "events": [{"event": "response_start", "response_id": "r"}]}

HOOKS = [
    b'{"type":"tool_lifecycle","response_id":"r","tool_name":"t","phase":"p","payload":{"a":1}}',
    b'{"type":"job_lifecycle","job_id":"j","phase":"p","progress":0.5,"detail":null}',
    b'{"type":"job_lifecycle","job_id":"j","phase":"p","progress":null,"detail":"d"}',
    b'{"type":"approval_lifecycle","approval_id":"a","phase":"p","reason":"r"}',
]
EVENTS = [
    *HOOKS,
    *map(told, FRAMES),
    *(json.dumps({"jsonrpc": "2.0", "id": "x", "result": result}).encode() for result in (RESPONSE, PROMPTED)),
    json.dumps({"jsonrpc": "2.0", "id": 1, "result": RESPONSE | {"status": "missing", "ok": False}}).encode(),
    b'{"jsonrpc":"2.0","id":1,"result":{"thread_id":"t","interrupted":true}}',
    (  # docs/dialects/codewhale.md, section 12
        b'{"jsonrpc":"2.0","id":1,"result":{"transport":"stdio","families":["thread/*"],"turn_image_inputs":true,'
        b'"interactive_execution":false,"goal_execution":false,"tool_free_turns":true,'
        b'"keeps_context":true,"full_api_entrypoint":"codewhale app-server --http","methods":["healthz"]}}'
    ),
    b'{"jsonrpc":"2.0","id":1,"result":{"what":"nobody knows"}}',
    b'{"jsonrpc":"2.0","id":1,"result":"text"}',
    (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"thread not found: t",'
        b'"data":{"error":"thread_not_found","thread_id":"t"}}}'
    ),
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"turn canceled","data":{"a":1}}}',
]

RESUMED = {
    "thread_id": THREAD,
    "history": [{"a": 1}, "b"],
    "path": "/p",
    "model": "m",
    "model_provider": "p",
    "cwd": "/w",
    "approval_policy": "never",
    "sandbox": "s",
    "config": {"a": 1},
    "base_instructions": "b",
    "developer_instructions": "d",
    "personality": "p",
    "persist_extended_history": True,
}
FORKED = {name: value for name, value in RESUMED.items() if name not in ("history", "personality")}
REQUESTS = [
    called("thread/resume", **RESUMED),
    called("thread/fork", **FORKED),
    called("thread/request", kind="fork", thread_id="odd"),
    called("thread/request", kind="list"),
    called("thread/request", kind="list", include_archived=False, limit=0),
    called("thread/request", kind="archive", thread_id="00000000-0000-4000-8000-000000000001"),
    called("thread/request", kind="unarchive", thread_id=THREAD),
    called("thread/request", kind="goal_record_progress", thread_id="odd"),
    called("thread/start"),
    # docs/dialects/codewhale.md, section 12
    called("thread/start", operation_key="k"),
    called("thread/resume", **RESUMED, operation_key="k"),
    called("thread/fork", **FORKED, operation_key="k"),
    called("thread/message", thread_id=THREAD, input="hi", allowed_tools=[]),
    called("prompt/run", prompt="hi", allowed_tools=["read"]),
    called("thread/message", thread_id=THREAD, input="look", images=[{"mime": "image/png", "dataBase64": "AQ=="}]),
    called("thread/message", thread_id=THREAD, input="hi", maxOutputTokens=1500),
    called("thread/message", thread_id=THREAD, input="hi", max_output_tokens=1500),
    called("prompt/run", prompt="hi", maxOutputTokens=1500),
    called("prompt/run", prompt="hi", max_output_tokens=1500),
    called("prompt/run", prompt="look", images=[{"mime": "image/png", "dataBase64": "AQ=="}]),
    called("thread/list"),
    called("thread/create", metadata=None),
    called("thread/message", thread_id="odd", input=""),
    called("app/request", kind="config_get", key="k"),
    called("app/request", kind="config_list"),
    called("app/request", kind="submit_user_input", request_id="q", answers=[{"id": "a", "label": "L", "value": "v"}]),
    called("app/request", kind="submit_user_input", request_id="q", answers=[]),
    called("app/config/set", key="k", value="v"),
    called("app/thread-loaded-list"),
    called("thread/goal-get", thread_id=THREAD),
    called("prompt/request", prompt="", thread_id="odd", model="m"),
    called("shutdown", any=[1]),
    called("prompt/capabilities", any=[1]),
    called("thread/capabilities", any=[1]),
    called("capabilities", any=[1]),
    called("app/capabilities", any=[1]),
    called("app/config/list", any=[1]),
    called("app/config/reload", any=[1]),
    called("app/models", any=[1]),
    b'{"jsonrpc":null,"id":null,"method":"thread/start","params":null}',
    b'{"id":"7","method":"thread/start"}',
    b'{"id":[1,{"a":null}],"method":"thread/create","params":null}',
]


@pytest.mark.parametrize(
    ("direction", "lines"), [(DIALECT.events, EVENTS), (DIALECT.commands, REQUESTS)], ids=["events", "requests"]
)
def test_each_line_comes_back_unchanged(direction: Direction[Any], lines: list[bytes]) -> None:
    for line in lines:
        step, frames = back_and_forth(direction, line)
        assert (step.faults, step.losses) == ([], []), line
        assert [json.loads(frame) for frame in frames] == [json.loads(line)]


# -- what a message means ----------------------------------------------------------------------------


def meant(direction: Direction[Any], frame: bytes) -> list[Any]:
    return [item for burst in back_and_forth(direction, frame)[0].bursts for item in burst.items]


def test_a_tool_of_a_frame_is_a_call_with_the_arguments_of_its_payload() -> None:
    started, arguments, reply = meant(DIALECT.events, told(FRAMES[12]))
    assert (started.name, arguments.json, arguments.done) == ("t", '{"command":"ls"}', True)
    assert isinstance(reply, events.Reply)


def test_an_mcp_result_counts_as_failed_unless_it_denies_it() -> None:
    for said, failed in (({}, False), ({"isError": False}, False), ({"isError": True}, True), ({"isError": 0}, True)):
        output = {"type": "mcp", "result": said}
        frame: dict[str, object] = {
            "event": "tool_call_result",
            "response_id": "r",
            "tool_name": "t",
            "output": output,
        }
        assert meant(DIALECT.events, told(frame))[0].is_error is failed


def test_the_channel_of_a_delta_in_a_result_tells_reasoning_from_text() -> None:
    frame: dict[str, object] = {"event": "response_delta", "response_id": "r", "delta": "d"}
    assert meant(DIALECT.events, told(frame | {"channel": "reasoning"}))[0] == events.ReasoningDelta(
        text="d", ext={"codewhale.frame": raw(frame | {"channel": "reasoning"})}
    )
    assert isinstance(meant(DIALECT.events, told(frame))[0], events.TextDelta)


@pytest.mark.parametrize(("name", "end"), [("turn_complete", "completed"), ("turn_aborted", "cancelled")])
def test_a_turn_in_a_result_was_completed_or_cancelled(name: str, end: str) -> None:
    result = meant(DIALECT.events, told({"event": name, "turn_id": "t", "reason": "r"}))[0]
    assert (type(result), result.end) == (events.TurnResult, end)


def test_the_frames_of_a_prompt_are_no_turn() -> None:
    frame = json.dumps({"jsonrpc": "2.0", "id": 1, "result": PROMPTED}).encode()
    assert [type(item) for item in meant(DIALECT.events, frame)] == [events.Reply]


def test_the_accepted_result_is_the_end_of_a_turn_and_an_interruption_is_no_failure() -> None:
    ended = {
        row["name"]: meant(DIALECT.events, row["wire"].encode())[-1]
        for row in LINES
        if row["name"][:3] in ("res", "err")
    }
    assert ended["res.thread.message.head"].end == "completed"
    assert ended["err.interrupted"].end == ended["err.canceled"].end == "cancelled"
    assert ended["err.internal"].failure.text == "provider exploded"


def test_the_session_of_a_thread_is_its_uuid_or_its_name() -> None:
    for name, session in ((THREAD, THREAD[7:]), ("thread-ghost", "thread-ghost"), (THREAD[7:], THREAD[7:])):
        (command,) = meant(DIALECT.commands, called("thread/read", thread_id=name))
        assert isinstance(command, commands.GetSession)
        assert command.session == session


# -- what may be said otherwise ----------------------------------------------------------------------


def test_undocumented_members_are_removed_and_counted() -> None:
    bare = b'{"type":"response_delta","response_id":"r","delta":"d","more":1}'
    result = {"thread_id": "t", "status": "ok", "thread": THREAD_OF | {"color": 1}, "data": {}, "x": 1}
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result, "y": 1}).encode()
    step, frames = back_and_forth(DIALECT.events, bare)
    assert [(loss.kind, loss.field) for loss in step.losses] == [("ResponseDelta", "$.more")]
    assert json.loads(frames[0]) == {"type": "response_delta", "response_id": "r", "delta": "d"}
    step, frames = back_and_forth(DIALECT.events, answer)
    assert {loss.field for loss in step.losses} == {"$.result.thread.color", "$.result.x", "$.y"}
    assert json.loads(frames[0])["result"]["thread"] == THREAD_OF


def test_a_frame_with_an_unknown_name_loses_only_that_frame() -> None:
    result = {"ok": True, "data": {"a": 1}, "events": [{"event": "new"}, {"event": "turn_complete", "turn_id": "t"}]}
    step, frames = back_and_forth(DIALECT.events, json.dumps({"id": 1, "result": result}).encode())
    assert [loss.field for loss in step.losses] == ["$.result.events[].new"]
    assert json.loads(frames[0])["result"]["events"] == [{"event": "turn_complete", "turn_id": "t"}]


def test_an_enum_variant_without_content_may_be_an_object() -> None:
    frame: dict[str, object] = {
        "event": "mcp_startup_update",
        "update": {"server_name": "s", "status": {"ready": None}},
    }
    _, frames = back_and_forth(DIALECT.events, told(frame))
    assert json.loads(frames[0])["result"]["events"][0]["update"]["status"] == "ready"


@pytest.mark.parametrize("member", ["threads", "events"])
def test_list_fields_may_be_absent_and_must_not_be_null(member: str) -> None:
    result: dict[str, object] = {"thread_id": "t", "status": "ok", "data": None}
    step, _ = back_and_forth(DIALECT.events, json.dumps({"id": 1, "result": result}).encode())
    assert step.faults == []
    step, _ = back_and_forth(DIALECT.events, json.dumps({"id": 1, "result": result | {member: None}}).encode())
    assert [fault.code for fault in step.faults] == ["invalid"]


def test_an_option_of_null_counts_as_absent() -> None:
    params = {"thread_id": "odd", "config": None, "model": None, "persist_extended_history": False}
    _, frames = back_and_forth(DIALECT.commands, called("thread/resume", **params))
    assert json.loads(frames[0])["params"] == {"thread_id": "odd", "persist_extended_history": False}


def test_an_unknown_line_or_method_is_unmapped() -> None:
    (line,) = meant(DIALECT.events, b'{"type":"new","a":1}')
    (request,) = meant(DIALECT.commands, b'{"id":7,"method":"nope/x"}')
    assert (line, request.request) == (Unmapped(dialect="codewhale", tag="new", raw='{"type":"new","a":1}'), "7")
    assert DIALECT.events.write(Burst(items=[line])).frames == []


@pytest.mark.parametrize(
    "frame",
    [
        b"[]",
        b'{"id":1}',
        b'{"id":1,"result":{},"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"1.0","id":1,"result":1}',
        b'{"type":"response_start"}',
        b'{"id":1,"result":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"id":"\xff","result":{}}',
        b'{"id":1,"result":{"thread":"\xff"}}',
    ],
)
def test_a_bad_answer_is_a_fault(frame: bytes) -> None:
    step, _ = back_and_forth(DIALECT.events, frame)
    assert [fault.can_continue for fault in step.faults] == [True]


# -- what arrives ------------------------------------------------------------------------------------

GOOD = [(direction_of(row["direction"]), row["wire"].encode()) for row in LINES if ".bad." not in row["name"]]


@pytest.mark.parametrize("direction", [DIALECT.events, DIALECT.commands], ids=["events", "commands"])
def test_a_line_that_is_cut_off_anywhere_gives_only_a_fault(direction: Direction[Any]) -> None:
    for known, frame in GOOD:
        if known is direction:
            for end in range(len(frame)):
                step: Step[Any] = Step()
                direction.receive([frame[:end]], step)
                assert (len(step.faults), step.bursts) == (1, [])


JSON = any_json()
NAMES = [
    "id",
    "jsonrpc",
    "method",
    "params",
    "thread_id",
    "kind",
    "result",
    "error",
    "events",
    "data",
    "ok",
    "status",
    "type",
    "event",
    "response_id",
    "delta",
    "metadata",
    "limit",
    "threads",
    "code",
    "message",
    "output",
    "methods",
]
FIELDS = st.dictionaries(
    st.sampled_from(NAMES), JSON | st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5), max_size=6
)
METHODS = ["thread/request", "app/request", "thread/create", "thread/list", "thread/read", "healthz", "prompt/run", "x"]


@given(FIELDS, st.sampled_from(METHODS), st.sampled_from(["result", "error", "type"]))
def test_any_members_are_a_fault_or_can_be_written_again(fields: dict[str, Any], method: str, name: str) -> None:
    for direction, value in (
        (DIALECT.commands, {**fields, "method": method}),
        (DIALECT.events, {**fields, name: fields.get(name, {})}),
        (DIALECT.events, {"id": 1, "result": fields}),
    ):
        step, frames = back_and_forth(direction, json.dumps(value).encode())
        unknown = [item for burst in step.bursts for item in burst.items if isinstance(item, Unmapped)]
        assert len(step.faults) + len(frames) + len(unknown) == 1


def test_only_a_line_of_whitespace_is_blank() -> None:
    frames = (b"", b" \t\r", b"{}", Oversize(size=0, limit=0))
    assert [is_blank(frame) for frame in frames] == [True, True, False, False]


def test_frames_go_into_the_next_result_or_into_one_of_their_own() -> None:
    thought = events.ReasoningDelta(text="hm")
    runs: tuple[tuple[list[Event], int | None], ...] = (
        ([thought, events.TurnEnded(end="completed")], 5),
        ([thought], None),
    )
    for items, known in runs:
        (frame,) = DIALECT.events.write(Burst(items=items, request="5")).frames
        said = json.loads(frame)
        assert (said["id"], [e["delta"] for e in said["result"]["events"]]) == (known, ["hm"])


def test_an_overheard_turn_ends_with_the_answer_after_its_response() -> None:
    overheard = Overheard()
    start, text, over = events.ModelTurnStarted(), events.TextDelta(text="a"), events.TurnResult(end="completed")
    failure = Failure(cause="internal", text="no")
    reply = events.Reply(request="1", failure=failure)
    assert overheard([start, text, over]) == [start, text]
    assert overheard([reply]) == [events.TurnEnded(end="failed", failure=failure)]
    assert overheard([reply]) == [reply], "no response was open"
    done = events.TurnEnded(end="cancelled")
    assert overheard([text, over, done]) == [text, done]
    assert overheard([start, events.Reply(request="2")]) == [start, events.TurnEnded(end="completed")]
