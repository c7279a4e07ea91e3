"""The option `show`: with `tools = "names"` no event contains arguments or results of tools."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from dragoman.gateway.session.narrowing import tool_names_only
from dragoman.mappings.canonical.events import (
    HistorySnapshot,
    LifecycleReport,
    Reply,
    StateSnapshot,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
)
from dragoman.mappings.canonical.values import Message, ToolCall, ToolResult

SECRET = "s3cret"
EXT = {"pod.entries": Raw(f'["{SECRET}"]'.encode())}


def test_no_arguments_or_results_of_tools_remain() -> None:
    shown, _ = tool_names_only(
        [
            ToolCallStarted(name="lookup", call="1"),
            ToolCallArguments(json=f'{{"a":"{SECRET}', call="1"),
            ToolCallArguments(json=f'{{"a":"{SECRET}"}}', call="1", done=True, ext=EXT),
            ToolCallFinished(call="1", summary=SECRET, output=SECRET, ext=EXT),
            StateSnapshot(node="n", state=Raw(f'"{SECRET}"'.encode())),
            LifecycleReport(report=Raw(f'{{"type":"tool_lifecycle","payload":"{SECRET}"}}'.encode())),
            HistorySnapshot(
                items=(ToolCall(call="1", name="lookup", arguments=SECRET), ToolResult(call="1", output=SECRET)),
                ext=EXT,
            ),
        ]
    )
    assert SECRET.encode() not in msgspec.json.encode(shown)
    assert [type(event) for event in shown] == [ToolCallStarted, ToolCallArguments, ToolCallFinished, HistorySnapshot]
    assert shown[1] == ToolCallArguments(json="{}", call="1", done=True)


def test_the_result_of_a_prompt_has_no_frames_of_tools() -> None:
    """`prompt/run` may answer with EventFrames (docs/dialects/codewhale.md, section 6)."""
    frames = f'[{{"event":"tool_call_result","response_id":"r","tool_name":"t","output":"{SECRET}"}}]'
    answer = Reply(request="1", result=Raw(f'{{"output":"Well.","model":"m","events":{frames}}}'.encode()))
    shown, losses = tool_names_only([answer])
    assert shown == [Reply(request="1", result=Raw(b'{"output":"Well.","model":"m","events":[]}'))]
    assert [loss.kind for loss in losses] == ["Reply"]


def test_all_other_events_are_not_changed() -> None:
    events = [
        TextDelta(text="a"),
        ToolCallStarted(name="t"),
        HistorySnapshot(items=(Message(role="user", text="q"),)),
        Reply(request="1"),
        Reply(request="2", result=Raw(b'{"ok":true,"data":{},"events":[]}')),
        Reply(request="3", result=Raw(b'[{"events":[1]}]')),
    ]
    assert tool_names_only(events)[0] == events


def test_hidden_fields_are_counted() -> None:
    _, losses = tool_names_only([ToolCallFinished(call="1", output="x"), TextDelta(text="a")])
    assert [loss.kind for loss in losses] == ["ToolCallFinished"]
