"""The small values of the codewhale wire (docs/dialects/codewhale.md, sections 6 and 7); some are carried by no
message yet.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType


class Wire(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base of everything on a codewhale's wire."""


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
    created_at: int
    updated_at: int
    status: ThreadStatus
    path: str | UnsetType | None = UNSET
    cwd: str
    cli_version: str
    source: SessionSource
    name: str | UnsetType | None = UNSET


class ThreadGoal(Wire, frozen=True, kw_only=True):
    """What a thread is to reach; `continuation_count` since 0.8.61."""

    thread_id: str
    goal_id: str
    objective: str
    status: GoalStatus
    token_budget: int | UnsetType | None = UNSET
    tokens_used: int
    time_used_seconds: int
    continuation_count: int | UnsetType = UNSET
    created_at: int
    updated_at: int


class HistoryItem(Wire, frozen=True, kw_only=True):
    """A member of `data.history`; `item` is any JSON."""

    id: int
    role: str
    content: str
    item: Raw = Raw(b"null")
    created_at: int


class Checkpoint(Wire, frozen=True, kw_only=True):
    """A member of `data`; `state` is any JSON."""

    checkpoint_id: str
    state: Raw
    created_at: int


# -- approvals --------------------------------------------------------------------------------------


class Rejecting(Wire, frozen=True, kw_only=True):
    """What is rejected without asking."""

    sandbox_approval: bool
    rules: bool
    mcp_elicitations: bool


class Reject(Wire, frozen=True, kw_only=True):
    """Never ask about some things: reject them."""

    reject: Rejecting


AskForApproval = Literal["unless_trusted", "on_failure", "on_request", "never"] | Reject


class Approved(Wire, frozen=True, kw_only=True, tag_field="type", tag="approved"):
    """Yes."""


class ApprovedAmendment(Wire, frozen=True, kw_only=True, tag_field="type", tag="approved_execpolicy_amendment"):
    """Yes, and the same commands from now on."""


class ApprovedForSession(Wire, frozen=True, kw_only=True, tag_field="type", tag="approved_for_session"):
    """Yes, as long as the session lasts."""


class Denied(Wire, frozen=True, kw_only=True, tag_field="type", tag="denied"):
    """No."""


class Abort(Wire, frozen=True, kw_only=True, tag_field="type", tag="abort"):
    """No, and stop."""


class NetworkAmendment(Wire, frozen=True, kw_only=True, tag_field="type", tag="network_policy_amendment"):
    """A rule about one host."""

    host: str
    action: RuleAction


Decision = Approved | ApprovedAmendment | ApprovedForSession | Denied | Abort | NetworkAmendment


class NetworkContext(Wire, frozen=True, kw_only=True):
    """Which host is asked for."""

    host: str
    protocol: str


class NetworkRule(Wire, frozen=True, kw_only=True):
    """A rule that is proposed."""

    host: str
    action: RuleAction


class ApprovalRequest(Wire, frozen=True, kw_only=True):
    """May this be done? `turn_id` holds the response id."""

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


class ApprovalDecisionRequest(Wire, frozen=True, kw_only=True):
    """The answer to an approval, for which there is no method."""

    decision: str
    remember: bool = False


# -- questions --------------------------------------------------------------------------------------


class Option(Wire, frozen=True, kw_only=True):
    """One thing that may be chosen."""

    label: str
    description: str


class Question(Wire, frozen=True, kw_only=True):
    """One question of a user input request."""

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
    """One answer of the user."""

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
    """What a function gave back."""

    body: Raw | UnsetType = UNSET
    success: bool


class McpOutput(Wire, frozen=True, kw_only=True, tag_field="type", tag="mcp"):
    """What a tool of an MCP server gave back."""

    result: Raw


ToolOutput = FunctionOutput | McpOutput


# -- MCP servers ------------------------------------------------------------------------------------


class Failing(Wire, frozen=True, kw_only=True):
    """Why it did not start."""

    error: str


class McpFailed(Wire, frozen=True, kw_only=True):
    """It did not start."""

    failed: Failing


McpStartupStatus = Literal["starting", "ready", "cancelled"] | McpFailed


class McpUpdate(Wire, frozen=True, kw_only=True):
    """How one server comes up."""

    server_name: str
    status: McpStartupStatus


class McpFailure(Wire, frozen=True, kw_only=True):
    """A server that did not come up."""

    server_name: str
    error: str


class McpSummary(Wire, frozen=True, kw_only=True):
    """How all of them came up."""

    ready: list[str]
    failed: list[McpFailure]
    cancelled: list[str]


# -- the runtime API --------------------------------------------------------------------------------


class RuntimeEvent(Wire, frozen=True, kw_only=True):
    """The data of one server-sent event; ids that are not known are null, never absent."""

    schema_version: int
    seq: int
    event: str
    kind: str
    thread_id: str
    turn_id: str | None
    item_id: str | None
    timestamp: str
    created_at: str | UnsetType = UNSET
    payload: Raw
    previous_seq: int | UnsetType = UNSET


class ApprovalPost(Wire, frozen=True, kw_only=True):
    """Body of a decision about an approval."""

    decision: Literal["allow", "deny"]
    remember: bool = False
