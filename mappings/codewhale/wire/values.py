"""Parts of codewhale messages (docs/dialects/codewhale.md, sections 6 and 7).

Members are written in declaration order. An optional member that is None is omitted, as the real serializer does. If
the wire can have a null, or a peer may omit a default, an absent member is UNSET.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType


class Wire(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base class of all wire structs of codewhale; `closed` is True if real peers refuse unknown members."""

    closed: ClassVar[bool] = False


I64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
ThreadStatus = Literal["running", "idle", "completed", "failed", "paused", "archived"]
SessionSource = Literal["interactive", "resume", "fork", "api", "unknown"]
GoalStatus = Literal["active", "paused", "blocked", "usage_limited", "budget_limited", "complete"]
RuleAction = Literal["allow", "deny"]


# -- threads ----------------------------------------------------------------------------------------


class Thread(Wire, frozen=True, kw_only=True):
    """A conversation; times are Unix seconds."""

    id: str
    preview: str
    ephemeral: bool
    model_provider: str
    created_at: I64
    updated_at: I64
    status: ThreadStatus
    path: str | UnsetType | None = UNSET
    cwd: str
    cli_version: str
    source: SessionSource
    name: str | UnsetType | None = UNSET


class ThreadGoal(Wire, frozen=True, kw_only=True):
    """The goal of a thread; `continuation_count` since 0.8.61, the last four members since 0.10.2."""

    thread_id: str
    goal_id: str
    objective: str
    status: GoalStatus
    token_budget: int | UnsetType | None = UNSET
    tokens_used: int
    time_used_seconds: int
    continuation_count: int | UnsetType = UNSET
    created_at: I64
    updated_at: I64
    last_gap_fingerprint: str | UnsetType | None = UNSET
    repeated_gap_count: int | UnsetType = UNSET
    last_gap_pass: int | UnsetType | None = UNSET
    pause_reason: str | UnsetType | None = UNSET


class HistoryItem(Wire, frozen=True, kw_only=True):
    """A member of `data.history`; `item` is any JSON."""

    id: int
    role: str
    content: str
    item: Raw = Raw(b"null")
    created_at: I64


class Checkpoint(Wire, frozen=True, kw_only=True):
    """A member of `data`; `state` is any JSON."""

    checkpoint_id: str
    state: Raw
    created_at: I64


# -- inputs -----------------------------------------------------------------------------------------


class InlineImage(Wire, frozen=True, kw_only=True, rename="camel"):
    """An image of an input, as base64 with padding, since 0.10.2."""

    closed = True
    mime: str
    data_base64: str


# -- approvals --------------------------------------------------------------------------------------


class Approved(Wire, frozen=True, kw_only=True, tag_field="type", tag="approved"):
    """The decision to allow the request."""


class ApprovedAmendment(Wire, frozen=True, kw_only=True, tag_field="type", tag="approved_execpolicy_amendment"):
    """The decision to allow this command and the same commands from now on."""


class ApprovedForSession(Wire, frozen=True, kw_only=True, tag_field="type", tag="approved_for_session"):
    """The decision to allow such requests until the session ends."""


class Denied(Wire, frozen=True, kw_only=True, tag_field="type", tag="denied"):
    """The decision to refuse the request."""


class Abort(Wire, frozen=True, kw_only=True, tag_field="type", tag="abort"):
    """The decision to refuse the request and to cancel the turn."""


class NetworkAmendment(Wire, frozen=True, kw_only=True, tag_field="type", tag="network_policy_amendment"):
    """A decision that adds a rule about one network host."""

    host: str
    action: RuleAction


Decision = Approved | ApprovedAmendment | ApprovedForSession | Denied | Abort | NetworkAmendment


class NetworkContext(Wire, frozen=True, kw_only=True):
    """The network host that an approval request is about."""

    host: str
    protocol: str


class NetworkRule(Wire, frozen=True, kw_only=True):
    """A proposed rule about one network host."""

    host: str
    action: RuleAction


class ApprovalRequest(Wire, frozen=True, kw_only=True):
    """A request for approval; its `turn_id` holds the response id."""

    call_id: str
    approval_id: str
    turn_id: str
    command: str
    cwd: str
    reason: str
    matched_rule: str | UnsetType | None = UNSET
    network_approval_context: NetworkContext | UnsetType | None = UNSET
    proposed_execpolicy_amendment: tuple[str, ...] = ()
    proposed_network_policy_amendments: tuple[NetworkRule, ...] = ()
    additional_permissions: tuple[str, ...] = ()
    available_decisions: tuple[Decision, ...] = ()


# -- questions --------------------------------------------------------------------------------------


class Option(Wire, frozen=True, kw_only=True):
    """A choice of a question to the user."""

    label: str
    description: str


class Question(Wire, frozen=True, kw_only=True):
    """A question to the user."""

    header: str
    id: str
    question: str
    options: list[Option]
    allow_free_text: bool = False
    multi_select: bool = False


class UserInputRequest(Wire, frozen=True, kw_only=True):
    """Questions to the user, since 0.8.62."""

    call_id: str
    turn_id: str
    request_id: str
    questions: list[Question]


class Answer(Wire, frozen=True, kw_only=True):
    """An answer of the user to a question."""

    id: str
    label: str
    value: str


# -- tools ------------------------------------------------------------------------------------------


class FunctionPayload(Wire, frozen=True, kw_only=True, tag_field="type", tag="function"):
    """A call of a function; `arguments` is JSON text."""

    arguments: str


class CustomPayload(Wire, frozen=True, kw_only=True, tag_field="type", tag="custom"):
    """A call with free text."""

    input: str


class ShellParams(Wire, frozen=True, kw_only=True):
    """A command line."""

    command: str
    cwd: str | UnsetType | None = UNSET
    timeout_ms: int | UnsetType | None = UNSET


class ShellPayload(Wire, frozen=True, kw_only=True, tag_field="type", tag="local_shell"):
    """A call of the shell."""

    params: ShellParams


class McpPayload(Wire, frozen=True, kw_only=True, tag_field="type", tag="mcp"):
    """A call of a tool of an MCP server."""

    server: str
    tool: str
    raw_arguments: Raw
    raw_tool_call_id: str | UnsetType | None = UNSET


ToolPayload = FunctionPayload | CustomPayload | ShellPayload | McpPayload


class FunctionOutput(Wire, frozen=True, kw_only=True, tag_field="type", tag="function"):
    """The result of a function."""

    body: Raw | UnsetType = UNSET
    success: bool


class McpOutput(Wire, frozen=True, kw_only=True, tag_field="type", tag="mcp"):
    """The result of a tool of an MCP server."""

    result: Raw


ToolOutput = FunctionOutput | McpOutput


# -- MCP servers ------------------------------------------------------------------------------------


class Failing(Wire, frozen=True, kw_only=True):
    """The reason why an MCP server did not start."""

    error: str


class McpFailed(Wire, frozen=True, kw_only=True):
    """The status of an MCP server that did not start."""

    failed: Failing


McpStartupStatus = Literal["starting", "ready", "cancelled"] | McpFailed


class McpUpdate(Wire, frozen=True, kw_only=True):
    """The status of one MCP server while it starts."""

    server_name: str
    status: McpStartupStatus


class McpFailure(Wire, frozen=True, kw_only=True):
    """An MCP server that did not start."""

    server_name: str
    error: str


class McpSummary(Wire, frozen=True, kw_only=True):
    """The outcome of starting all MCP servers."""

    ready: list[str]
    failed: list[McpFailure]
    cancelled: list[str]
