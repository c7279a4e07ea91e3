"""Requests and their params, one struct for each type of request (docs/dialects/codewhale.md, sections 1.1 and 2).

Most requests can be sent in two ways: by their own method, or as a `kind` of `thread/request` or `app/request`.
`method` keeps the name that was used. The params structs do not contain `kind`. `params` is UNSET if it was absent, and
None if it was null.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from dragoman.mappings.codewhale.wire.values import Answer, InlineImage, Wire

NonZeroU32 = Annotated[int, Meta(ge=1, lt=1 << 32)]
I64, U64 = 1 << 63, 1 << 64


def check_bounds(value: int | None, least: int, bound: int, expected: str) -> None:
    """Raise ValueError if an integer is too small or too large for its type, which msgspec cannot check."""
    if value is not None and not least <= value < bound:
        is_float = not -I64 <= value < U64  # the real parser reads it as a float
        kind = f"type: floating point `{float(value)!r}`" if is_float else f"value: integer `{value}`"
        raise ValueError(f"invalid {kind}, expected {expected}")


def check_alias(value: int | None, alias: int | None) -> None:
    """Raise ValueError if the maximum of output tokens has both of its names."""
    if value is not None and alias is not None:
        raise ValueError("duplicate field `maxOutputTokens`")


# -- params -----------------------------------------------------------------------------------------


class Params(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Base class of the params. An optional param that is null counts as absent, and is omitted when written."""


class NoParams(Params, frozen=True, kw_only=True):
    """Params of a request that has none."""


class CreateParams(Params, frozen=True, kw_only=True):
    """Params of `thread/create`: any JSON, which servers ignore."""

    metadata: Raw | UnsetType = UNSET


class StartParams(Params, frozen=True, kw_only=True):
    """Params of `thread/start`: the options of the new thread. `operation_key` since 0.10.2."""

    model: str | None = None
    model_provider: str | None = None
    cwd: str | None = None
    persist_extended_history: bool | UnsetType = UNSET
    operation_key: str | None = None


class ResumeParams(Params, frozen=True, kw_only=True):
    """Params of `thread/resume`: the thread to continue, and its options. `operation_key` since 0.10.2."""

    thread_id: str
    history: list[Raw] | None = None
    path: str | None = None
    model: str | None = None
    model_provider: str | None = None
    cwd: str | None = None
    approval_policy: str | None = None
    sandbox: str | None = None
    config: Raw | UnsetType = UNSET
    base_instructions: str | None = None
    developer_instructions: str | None = None
    personality: str | None = None
    persist_extended_history: bool | UnsetType = UNSET
    operation_key: str | None = None


class OperationKey(Struct, frozen=True):
    """The key in the params of a request that begins or resumes a thread, which clients send since 0.10.2."""

    operation_key: str | None = None


class HistoryParams(Struct, frozen=True):
    """The history in the params of a `thread/resume`."""

    history: Raw = Raw(b"")


class ImportedHistory(Struct, frozen=True):
    """The history of a `thread/resume`: a whole conversation."""

    method: Literal["thread/resume"]
    params: HistoryParams


class ImageParams(Struct, frozen=True):
    """The images in the params of an input; `kind` is for `thread/request`."""

    kind: Literal["", "message"] = ""
    images: Raw = Raw(b"")


class AttachedImages(Struct, frozen=True):
    """The images of an input or a prompt, which make it longer than other requests."""

    method: Literal["thread/message", "thread/request", "prompt/run", "prompt/request"]
    params: ImageParams


class ForkParams(Params, frozen=True, kw_only=True):
    """Params of `thread/fork`: the thread to copy, and the options of the copy. `operation_key` since 0.10.2."""

    thread_id: str
    path: str | None = None
    model: str | None = None
    model_provider: str | None = None
    cwd: str | None = None
    approval_policy: str | None = None
    sandbox: str | None = None
    config: Raw | UnsetType = UNSET
    base_instructions: str | None = None
    developer_instructions: str | None = None
    persist_extended_history: bool | UnsetType = UNSET
    operation_key: str | None = None


class ListParams(Params, frozen=True, kw_only=True):
    """Params of `thread/list`: the maximum number of threads, and whether to include archived ones."""

    include_archived: bool | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        check_bounds(self.limit, 0, U64, "usize")

    @classmethod
    def asking(cls, limit: int, archived: bool) -> ListParams | UnsetType:
        """Return the params of a list without default values, as clients usually write them."""
        return cls(include_archived=archived or UNSET, limit=limit or None) if limit or archived else UNSET


class OfThread(Params, frozen=True, kw_only=True):
    """Params whose only member is a thread id."""

    thread_id: str


class NameParams(Params, frozen=True, kw_only=True):
    """Params of `thread/set_name`: the thread and its new name."""

    thread_id: str
    name: str


class GoalParams(Params, frozen=True, kw_only=True):
    """Params that set the goal of a thread."""

    thread_id: str
    objective: str
    token_budget: int | None = None

    def __post_init__(self) -> None:
        check_bounds(self.token_budget, -I64, I64, "i64")


class ProgressParams(Params, frozen=True, kw_only=True):
    """Params that report what a thread has used for its goal."""

    thread_id: str
    token_delta: int | UnsetType = UNSET
    time_delta_seconds: int | UnsetType = UNSET
    record_continuation: bool | UnsetType = UNSET


class MessageParams(Params, frozen=True, kw_only=True):
    """Params that carry the user's input to a thread. Those after `input` since 0.10.2."""

    thread_id: str
    input: str
    allowed_tools: list[str] | None = None
    images: tuple[InlineImage, ...] = ()
    max_output_tokens: NonZeroU32 | None = field(default=None, name="maxOutputTokens")
    max_output_tokens_alias: NonZeroU32 | None = field(default=None, name="max_output_tokens")

    def __post_init__(self) -> None:
        check_alias(self.max_output_tokens, self.max_output_tokens_alias)


class KeyParams(Params, frozen=True, kw_only=True):
    """Params that name one setting."""

    key: str


class SettingParams(Params, frozen=True, kw_only=True):
    """Params that change a setting; its value is always a string."""

    key: str
    value: str


class AnswersParams(Params, frozen=True, kw_only=True):
    """Params that carry the user's answers to questions."""

    request_id: str
    answers: list[Answer]


class PromptParams(Params, frozen=True, kw_only=True):
    """Params of a single prompt. Those after `model` since 0.10.2."""

    thread_id: str | None = None
    prompt: str
    model: str | None = None
    allowed_tools: list[str] | None = None
    images: tuple[InlineImage, ...] = ()
    max_output_tokens: NonZeroU32 | None = field(default=None, name="maxOutputTokens")
    max_output_tokens_alias: NonZeroU32 | None = field(default=None, name="max_output_tokens")

    def __post_init__(self) -> None:
        check_alias(self.max_output_tokens, self.max_output_tokens_alias)


# -- requests ---------------------------------------------------------------------------------------

THREAD, APP = "thread/request", "app/request"


class RequestBase(Wire, frozen=True, kw_only=True):
    """Base class of the requests.

    `names` are the method names, the advertised one first. `kind` is the name within the method `group`, "" if there is
    none. `struct` is the server's name of the params. `later` is True if servers of the seed generation do not know the
    request.
    """

    names: ClassVar[tuple[str, ...]] = ()
    group: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    struct: ClassVar[str] = ""
    later: ClassVar[bool] = False

    jsonrpc: str | UnsetType | None = "2.0"
    id: Raw | UnsetType = UNSET
    method: str


class Healthz(RequestBase, frozen=True, kw_only=True):
    """Check that the server is alive. Its params are ignored."""

    names = ("healthz", "app/healthz")
    params: Raw | UnsetType = UNSET


class Capabilities(RequestBase, frozen=True, kw_only=True):
    """Request the list of all methods of the server."""

    names = ("capabilities",)
    params: Raw | UnsetType = UNSET


class ThreadCapabilities(RequestBase, frozen=True, kw_only=True):
    """Request the list of methods about threads."""

    names = ("thread/capabilities",)
    params: Raw | UnsetType = UNSET


class PromptCapabilities(RequestBase, frozen=True, kw_only=True):
    """Request the list of methods about prompts."""

    names = ("prompt/capabilities",)
    params: Raw | UnsetType = UNSET


class AppCapabilities(RequestBase, frozen=True, kw_only=True):
    """Request facts about the server itself."""

    names = ("app/capabilities",)
    group, kind = APP, "capabilities"
    params: NoParams | Raw | UnsetType = UNSET


class Create(RequestBase, frozen=True, kw_only=True):
    """Create a thread."""

    names = ("thread/create",)
    group, kind = THREAD, "create"
    struct = "CreateParams"
    params: CreateParams | UnsetType | None = UNSET


class Start(RequestBase, frozen=True, kw_only=True):
    """Start a thread with options."""

    names = ("thread/start",)
    group, kind = THREAD, "start"
    struct = "ThreadStartParams"
    params: StartParams | UnsetType | None = UNSET


class Resume(RequestBase, frozen=True, kw_only=True):
    """Continue a thread."""

    names = ("thread/resume",)
    group, kind = THREAD, "resume"
    struct = "ThreadResumeParams"
    params: ResumeParams


class Fork(RequestBase, frozen=True, kw_only=True):
    """Start a thread as a copy of another."""

    names = ("thread/fork",)
    group, kind = THREAD, "fork"
    struct = "ThreadForkParams"
    params: ForkParams


class List(RequestBase, frozen=True, kw_only=True):
    """List the threads."""

    names = ("thread/list",)
    group, kind = THREAD, "list"
    struct = "ThreadListParams"
    params: ListParams | UnsetType | None = UNSET


class Read(RequestBase, frozen=True, kw_only=True):
    """Read one thread and its messages."""

    names = ("thread/read",)
    group, kind = THREAD, "read"
    struct = "ThreadReadParams"
    params: OfThread


class SetName(RequestBase, frozen=True, kw_only=True):
    """Name a thread."""

    names = ("thread/set_name", "thread/set-name")
    group, kind = THREAD, "set_name"
    struct = "ThreadSetNameParams"
    params: NameParams


class GoalSet(RequestBase, frozen=True, kw_only=True):
    """Set the goal of a thread."""

    names = ("thread/goal/set", "thread/goal_set", "thread/goal-set")
    group, kind = THREAD, "goal_set"
    struct = "ThreadGoalSetParams"
    params: GoalParams


class GoalGet(RequestBase, frozen=True, kw_only=True):
    """Read the goal of a thread."""

    names = ("thread/goal/get", "thread/goal_get", "thread/goal-get")
    group, kind = THREAD, "goal_get"
    struct = "ThreadGoalGetParams"
    params: OfThread


class GoalClear(RequestBase, frozen=True, kw_only=True):
    """Remove the goal of a thread."""

    names = ("thread/goal/clear", "thread/goal_clear", "thread/goal-clear")
    group, kind = THREAD, "goal_clear"
    struct = "ThreadGoalClearParams"
    params: OfThread


class GoalProgress(RequestBase, frozen=True, kw_only=True):
    """Report what was used for a thread's goal; this request has no method of its own, only a `kind`."""

    group, kind, later = THREAD, "goal_record_progress", True
    params: ProgressParams


class Archive(RequestBase, frozen=True, kw_only=True):
    """Archive a thread."""

    names = ("thread/archive",)
    group, kind = THREAD, "archive"
    struct = "ThreadIdParams"
    params: OfThread


class Unarchive(RequestBase, frozen=True, kw_only=True):
    """Take a thread out of the archive."""

    names = ("thread/unarchive",)
    group, kind = THREAD, "unarchive"
    struct = "ThreadIdParams"
    params: OfThread


class Message(RequestBase, frozen=True, kw_only=True):
    """Send the user's input."""

    names = ("thread/message",)
    group, kind = THREAD, "message"
    struct = "ThreadMessageParams"
    params: MessageParams


class Interrupt(RequestBase, frozen=True, kw_only=True):
    """Stop the turn of a thread, since 0.9.2."""

    names, later = ("thread/interrupt",), True
    struct = "ThreadInterruptParams"
    params: OfThread


class ConfigGet(RequestBase, frozen=True, kw_only=True):
    """Read a setting."""

    names = ("app/config/get",)
    group, kind = APP, "config_get"
    struct = "ConfigGetParams"
    params: KeyParams


class ConfigSet(RequestBase, frozen=True, kw_only=True):
    """Change a setting."""

    names = ("app/config/set",)
    group, kind = APP, "config_set"
    struct = "ConfigSetParams"
    params: SettingParams


class ConfigUnset(RequestBase, frozen=True, kw_only=True):
    """Remove a setting."""

    names = ("app/config/unset",)
    group, kind = APP, "config_unset"
    struct = "ConfigGetParams"
    params: KeyParams


class ConfigList(RequestBase, frozen=True, kw_only=True):
    """List the settings."""

    names = ("app/config/list",)
    group, kind = APP, "config_list"
    params: NoParams | Raw | UnsetType = UNSET


class ConfigReload(RequestBase, frozen=True, kw_only=True):
    """Load the settings again, since 0.8.66."""

    names = ("app/config/reload",)
    group, kind, later = APP, "config_reload", True
    params: NoParams | Raw | UnsetType = UNSET


class Models(RequestBase, frozen=True, kw_only=True):
    """List the models."""

    names = ("app/models",)
    group, kind = APP, "models"
    params: NoParams | Raw | UnsetType = UNSET


class LoadedList(RequestBase, frozen=True, kw_only=True):
    """List the threads that are not archived."""

    names = ("app/thread_loaded_list", "app/thread-loaded-list")
    group, kind = APP, "thread_loaded_list"
    params: NoParams | Raw | UnsetType = UNSET


class SubmitUserInput(RequestBase, frozen=True, kw_only=True):
    """Answer questions to the user, since 0.8.62; this request has no method of its own, only a `kind`."""

    group, kind, later = APP, "submit_user_input", True
    params: AnswersParams


class Prompt(RequestBase, frozen=True, kw_only=True):
    """Run one prompt outside of any turn."""

    names = ("prompt/run", "prompt/request")
    struct = "PromptRequest"
    params: PromptParams


class Shutdown(RequestBase, frozen=True, kw_only=True):
    """Shut down the server."""

    names = ("shutdown",)
    params: Raw | UnsetType = UNSET


REQUESTS: tuple[type[RequestBase], ...] = tuple(RequestBase.__subclasses__())
"""All requests, in the order in which they are declared."""
