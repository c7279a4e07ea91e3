"""EventFrames, which occur only in the `events` of results (docs/dialects/codewhale.md, section 6)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.codewhale.wire.values import (
    ApprovalRequest,
    McpSummary,
    McpUpdate,
    ThreadGoal,
    UserInputRequest,
    Wire,
)


class FrameBase(Wire, frozen=True, kw_only=True, tag_field="event"):
    """Base class of the EventFrames."""


class ResponseStart(FrameBase, frozen=True, kw_only=True, tag="response_start"):
    """The beginning of an answer."""

    response_id: str


class ResponseDelta(FrameBase, frozen=True, kw_only=True, tag="response_delta"):
    """A piece of an answer; without a `channel` it is text."""

    response_id: str
    delta: str
    channel: Literal["text", "reasoning"] | UnsetType = UNSET


class ResponseEnd(FrameBase, frozen=True, kw_only=True, tag="response_end"):
    """The end of an answer."""

    response_id: str


class ToolCallStart(FrameBase, frozen=True, kw_only=True, tag="tool_call_start"):
    """A call of a tool; `arguments` is any JSON, from real peers a ToolPayload."""

    response_id: str
    tool_name: str
    arguments: Raw


class ToolCallResult(FrameBase, frozen=True, kw_only=True, tag="tool_call_result"):
    """The result of a tool; `output` is any JSON, from real peers a ToolOutput."""

    response_id: str
    tool_name: str
    output: Raw


class McpStartupUpdate(FrameBase, frozen=True, kw_only=True, tag="mcp_startup_update"):
    """The state of an MCP server that is starting."""

    update: McpUpdate


class McpStartupComplete(FrameBase, frozen=True, kw_only=True, tag="mcp_startup_complete"):
    """The outcome of starting all MCP servers."""

    summary: McpSummary


class McpCallBegin(FrameBase, frozen=True, kw_only=True, tag="mcp_tool_call_begin"):
    """The beginning of a call to an MCP server."""

    server_name: str
    tool_name: str


class McpCallEnd(FrameBase, frozen=True, kw_only=True, tag="mcp_tool_call_end"):
    """The end of a call to an MCP server."""

    server_name: str
    tool_name: str
    ok: bool


class ExecApproval(FrameBase, frozen=True, kw_only=True, tag="exec_approval_request"):
    """A request for approval of a command line."""

    request: ApprovalRequest


class ApplyPatchApproval(FrameBase, frozen=True, kw_only=True, tag="apply_patch_approval_request"):
    """A request for approval of a patch."""

    request: ApprovalRequest


class UserInput(FrameBase, frozen=True, kw_only=True, tag="user_input_request"):
    """Questions to the user, since 0.8.62."""

    request: UserInputRequest


class Elicitation(FrameBase, frozen=True, kw_only=True, tag="elicitation_request"):
    """A question that an MCP server asks the user."""

    server_name: str
    request_id: str
    prompt: str


class ExecBegin(FrameBase, frozen=True, kw_only=True, tag="exec_command_begin"):
    """The beginning of a command line."""

    command: str
    cwd: str


class ExecOutput(FrameBase, frozen=True, kw_only=True, tag="exec_command_output_delta"):
    """A piece of the output of a command line."""

    command: str
    delta: str


class ExecEnd(FrameBase, frozen=True, kw_only=True, tag="exec_command_end"):
    """The end of a command line."""

    command: str
    exit_code: int


class PatchBegin(FrameBase, frozen=True, kw_only=True, tag="patch_apply_begin"):
    """The beginning of a patch."""

    path: str


class PatchEnd(FrameBase, frozen=True, kw_only=True, tag="patch_apply_end"):
    """The end of a patch, and whether it was applied."""

    path: str
    ok: bool


class TurnStarted(FrameBase, frozen=True, kw_only=True, tag="turn_started"):
    """The beginning of a turn."""

    turn_id: str


class TurnComplete(FrameBase, frozen=True, kw_only=True, tag="turn_complete"):
    """The end of a successful turn."""

    turn_id: str


class TurnAborted(FrameBase, frozen=True, kw_only=True, tag="turn_aborted"):
    """The end of a cancelled turn."""

    turn_id: str
    reason: str


class GoalUpdated(FrameBase, frozen=True, kw_only=True, tag="thread_goal_updated"):
    """The new goal of a thread."""

    goal: ThreadGoal


class GoalCleared(FrameBase, frozen=True, kw_only=True, tag="thread_goal_cleared"):
    """The removal of a thread's goal."""

    thread_id: str


class Error(FrameBase, frozen=True, kw_only=True, tag="error"):
    """An error of a turn or tool, as text."""

    response_id: str
    message: str


EventFrame = (
    ResponseStart
    | ResponseDelta
    | ResponseEnd
    | ToolCallStart
    | ToolCallResult
    | McpStartupUpdate
    | McpStartupComplete
    | McpCallBegin
    | McpCallEnd
    | ExecApproval
    | ApplyPatchApproval
    | UserInput
    | Elicitation
    | ExecBegin
    | ExecOutput
    | ExecEnd
    | PatchBegin
    | PatchEnd
    | TurnStarted
    | TurnComplete
    | TurnAborted
    | GoalUpdated
    | GoalCleared
    | Error
)
