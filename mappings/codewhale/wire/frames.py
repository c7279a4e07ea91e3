"""EventFrames: what stands in the `events` of results, and nowhere else on stdio
(docs/dialects/codewhale.md, section 6).
"""

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
    """Base of the EventFrames."""


class ResponseStart(FrameBase, frozen=True, kw_only=True, tag="response_start"):
    """An answer begins."""

    response_id: str


class ResponseDelta(FrameBase, frozen=True, kw_only=True, tag="response_delta"):
    """More of it; no `channel` means text."""

    response_id: str
    delta: str
    channel: Literal["text", "reasoning"] | UnsetType = UNSET


class ResponseEnd(FrameBase, frozen=True, kw_only=True, tag="response_end"):
    """It is over."""

    response_id: str


class ToolCallStart(FrameBase, frozen=True, kw_only=True, tag="tool_call_start"):
    """A tool is called; `arguments` is a ToolPayload where a real peer built it, else any JSON."""

    response_id: str
    tool_name: str
    arguments: Raw


class ToolCallResult(FrameBase, frozen=True, kw_only=True, tag="tool_call_result"):
    """A tool gave something back; `output` is a ToolOutput where a real peer built it, else any JSON."""

    response_id: str
    tool_name: str
    output: Raw


class McpStartupUpdate(FrameBase, frozen=True, kw_only=True, tag="mcp_startup_update"):
    """An MCP server comes up."""

    update: McpUpdate


class McpStartupComplete(FrameBase, frozen=True, kw_only=True, tag="mcp_startup_complete"):
    """All MCP servers are up or not."""

    summary: McpSummary


class McpCallBegin(FrameBase, frozen=True, kw_only=True, tag="mcp_tool_call_begin"):
    """A tool of an MCP server is called."""

    server_name: str
    tool_name: str


class McpCallEnd(FrameBase, frozen=True, kw_only=True, tag="mcp_tool_call_end"):
    """It is done."""

    server_name: str
    tool_name: str
    ok: bool


class ExecApproval(FrameBase, frozen=True, kw_only=True, tag="exec_approval_request"):
    """May this command run?"""

    request: ApprovalRequest


class ApplyPatchApproval(FrameBase, frozen=True, kw_only=True, tag="apply_patch_approval_request"):
    """May this patch be applied?"""

    request: ApprovalRequest


class UserInput(FrameBase, frozen=True, kw_only=True, tag="user_input_request"):
    """Questions to the user, since 0.8.62."""

    request: UserInputRequest


class Elicitation(FrameBase, frozen=True, kw_only=True, tag="elicitation_request"):
    """An MCP server asks the user."""

    server_name: str
    request_id: str
    prompt: str


class ExecBegin(FrameBase, frozen=True, kw_only=True, tag="exec_command_begin"):
    """A command runs."""

    command: str
    cwd: str


class ExecOutput(FrameBase, frozen=True, kw_only=True, tag="exec_command_output_delta"):
    """It prints."""

    command: str
    delta: str


class ExecEnd(FrameBase, frozen=True, kw_only=True, tag="exec_command_end"):
    """It is done."""

    command: str
    exit_code: int


class PatchBegin(FrameBase, frozen=True, kw_only=True, tag="patch_apply_begin"):
    """A patch is applied."""

    path: str


class PatchEnd(FrameBase, frozen=True, kw_only=True, tag="patch_apply_end"):
    """It is applied, or not."""

    path: str
    ok: bool


class TurnStarted(FrameBase, frozen=True, kw_only=True, tag="turn_started"):
    """A turn begins."""

    turn_id: str


class TurnComplete(FrameBase, frozen=True, kw_only=True, tag="turn_complete"):
    """It is over."""

    turn_id: str


class TurnAborted(FrameBase, frozen=True, kw_only=True, tag="turn_aborted"):
    """It was stopped."""

    turn_id: str
    reason: str


class GoalUpdated(FrameBase, frozen=True, kw_only=True, tag="thread_goal_updated"):
    """A thread has a goal."""

    goal: ThreadGoal


class GoalCleared(FrameBase, frozen=True, kw_only=True, tag="thread_goal_cleared"):
    """A thread has none any more."""

    thread_id: str


class Error(FrameBase, frozen=True, kw_only=True, tag="error"):
    """Something failed."""

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
