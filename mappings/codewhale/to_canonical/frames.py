"""Rules from EventFrames to canonical events, in the order of docs/dialects/codewhale.md, section 6.

An event keeps its frame in `ext`, because most frames have members without a canonical counterpart. Only `translate`
needs this frame; the client translator removes it (`plain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from dragoman.mappings.canonical import Event, Events, events
from dragoman.mappings.codewhale.vocabulary import keep
from dragoman.mappings.codewhale.wire import frames as wire
from dragoman.mappings.codewhale.wire import lines, values
from dragoman.mappings.extras import as_json, raw, read_raw
from dragoman.mappings.rules import Rules

TO_FRAME = Rules[[], Event]("codewhale frames -> canonical events")

FRAME = "frame"
"""The field of `ext` with the frame of an event."""


def frame_events(frames: Sequence[wire.EventFrame]) -> list[Any]:
    """Return the events of the frames of one result; the last event of each frame keeps the frame."""
    heard: list[Any] = []
    for frame in frames:
        *first, last = TO_FRAME.functions[type(frame)](frame)
        heard += [*first, replace(last, ext=keep(**{FRAME: frame}))]
    return heard


def plain(event: Any) -> Any:
    """Return an event without the frame in its `ext`."""
    return replace(event, ext=None) if event.ext is not None else event


TO_FRAME.becomes(wire.ResponseStart, events.ModelTurnStarted())


def response_delta(frame: wire.ResponseDelta | lines.ResponseDelta) -> Events:
    """Return a piece of an answer, in a frame or in a line of its own."""
    if frame.channel == "reasoning":
        return (events.ReasoningDelta(text=frame.delta),)
    return (events.TextDelta(text=frame.delta),)


TO_FRAME.rule(wire.ResponseDelta, produces=(events.TextDelta, events.ReasoningDelta))(response_delta)


TO_FRAME.becomes(wire.ResponseEnd, events.TurnResult(end="completed"))


@TO_FRAME.rule(wire.ToolCallStart, produces=(events.ToolCallStarted, events.ToolCallArguments))
def tool_call_start(frame: wire.ToolCallStart) -> Events:
    return _called(frame.tool_name, _arguments(frame.arguments))


@TO_FRAME.rule(wire.ToolCallResult, produces=(events.ToolCallFinished,))
def tool_call_result(frame: wire.ToolCallResult) -> Events:
    output, is_error = _output(frame.output)
    return (events.ToolCallFinished(name=frame.tool_name, output=output, is_error=is_error),)


def mcp_startup(frame: msgspec.Struct) -> Events:
    return (events.McpStartup(report=raw(frame)),)


for kind in (wire.McpStartupUpdate, wire.McpStartupComplete):
    TO_FRAME.rule(kind, produces=(events.McpStartup,))(mcp_startup)


@TO_FRAME.rule(wire.McpCallBegin, produces=(events.ToolCallStarted, events.ToolCallArguments))
def mcp_call_begin(frame: wire.McpCallBegin) -> Events:
    return _called(frame.tool_name, "{}")


@TO_FRAME.rule(wire.McpCallEnd, produces=(events.ToolCallFinished,))
def mcp_call_end(frame: wire.McpCallEnd) -> Events:
    return (events.ToolCallFinished(name=frame.tool_name, summary="", is_error=not frame.ok),)


@TO_FRAME.rule(wire.ExecApproval, produces=(events.ApprovalRequested,))
def exec_approval(frame: wire.ExecApproval) -> Events:
    return _asked("exec_command", frame.request)


@TO_FRAME.rule(wire.ApplyPatchApproval, produces=(events.ApprovalRequested,))
def apply_patch_approval(frame: wire.ApplyPatchApproval) -> Events:
    return _asked("apply_patch", frame.request)


@TO_FRAME.rule(wire.UserInput, produces=(events.InteractionRequired,))
def user_input(frame: wire.UserInput) -> Events:
    request = frame.request
    return (
        events.InteractionRequired(
            question=request.request_id, kind="user_input", spec=raw(request.questions), reason=""
        ),
    )


@TO_FRAME.rule(wire.Elicitation, produces=(events.InteractionRequired,))
def elicitation(frame: wire.Elicitation) -> Events:
    spec = raw({"server_name": frame.server_name, "prompt": frame.prompt})
    return (events.InteractionRequired(question=frame.request_id, kind="elicitation", spec=spec, reason=frame.prompt),)


@TO_FRAME.rule(wire.ExecBegin, produces=(events.ToolCallStarted, events.ToolCallArguments))
def exec_begin(frame: wire.ExecBegin) -> Events:
    return _called("exec_command", as_json({"command": frame.command, "cwd": frame.cwd}))


@TO_FRAME.rule(wire.ExecOutput, produces=(events.ToolOutputDelta,))
def exec_output(frame: wire.ExecOutput) -> Events:
    return (events.ToolOutputDelta(text=frame.delta),)


@TO_FRAME.rule(wire.ExecEnd, produces=(events.ToolCallFinished,))
def exec_end(frame: wire.ExecEnd) -> Events:
    summary = f"exit code {frame.exit_code}"
    return (events.ToolCallFinished(name="exec_command", summary=summary, is_error=frame.exit_code != 0),)


@TO_FRAME.rule(wire.PatchBegin, produces=(events.ToolCallStarted, events.ToolCallArguments))
def patch_begin(frame: wire.PatchBegin) -> Events:
    return _called("apply_patch", as_json({"path": frame.path}))


@TO_FRAME.rule(wire.PatchEnd, produces=(events.ToolCallFinished,))
def patch_end(frame: wire.PatchEnd) -> Events:
    return (events.ToolCallFinished(name="apply_patch", summary="", is_error=not frame.ok),)


TO_FRAME.becomes(wire.TurnStarted, events.RunStarted(kind="user_send"))
TO_FRAME.becomes(wire.TurnComplete, events.TurnResult(end="completed"))
TO_FRAME.becomes(wire.TurnAborted, events.TurnResult(end="cancelled"))


@TO_FRAME.rule(wire.GoalUpdated, produces=(events.GoalUpdated,))
def goal_updated(frame: wire.GoalUpdated) -> Events:
    return (events.GoalUpdated(goal=raw(frame.goal)),)


TO_FRAME.becomes(wire.GoalCleared, events.GoalCleared())


@TO_FRAME.rule(wire.Error, produces=(events.ErrorReported,))
def error(frame: wire.Error) -> Events:
    return (events.ErrorReported(cause="internal", text=frame.message),)


# -- arguments and outputs of tools -----------------------------------------------------------------

PAYLOAD: msgspec.json.Decoder[values.ToolPayload] = msgspec.json.Decoder(values.ToolPayload)
OUTPUT: msgspec.json.Decoder[values.ToolOutput] = msgspec.json.Decoder(values.ToolOutput)


class Verdict(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The result of an MCP tool, of which only `isError` is read."""

    is_error: Any = False


def _called(name: str, arguments: str) -> Events:
    return (
        events.ToolCallStarted(name=name),
        events.ToolCallArguments(name=name, json=arguments, done=True),
    )


def _arguments(arguments: Raw) -> str:
    """Return the JSON text of a call's arguments: the content of a ToolPayload, or the whole JSON."""
    try:
        payload = PAYLOAD.decode(arguments)
    except msgspec.DecodeError:
        return bytes(arguments).decode()
    match payload:
        case values.FunctionPayload():
            return payload.arguments
        case values.McpPayload():
            return bytes(payload.raw_arguments).decode()
        case values.ShellPayload():
            return as_json(payload.params)
        case values.CustomPayload():
            return as_json({"input": payload.input})


def _output(output: Raw) -> tuple[str | None, bool]:
    """Return the output of a tool, and whether it failed: an MCP result failed unless `isError` is missing or false."""
    try:
        decoded = OUTPUT.decode(output)
    except msgspec.DecodeError:
        return bytes(output).decode(), False
    if isinstance(decoded, values.FunctionOutput):
        return (None if decoded.body is UNSET else _text(decoded.body)), not decoded.success
    verdict = read_raw(decoded.result, Verdict)
    return bytes(decoded.result).decode(), verdict is not None and verdict.is_error is not False


def _text(body: Raw) -> str:
    text = read_raw(body, str)
    return bytes(body).decode() if text is None else text


def _asked(tool: str, request: values.ApprovalRequest) -> Events:
    description = f"{request.command}\n{request.reason}" if request.reason else request.command
    return (events.ApprovalRequested(tool=tool, description=description, question=request.approval_id),)
