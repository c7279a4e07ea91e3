"""Requests and their params, one struct for each type of request (docs/dialects/codewhale.md, sections 1.1 and 2).

Most requests can be sent in two ways: by their own method, or as a `kind` of `thread/request` or `app/request`.
`method` keeps the name that was used. Params that belong to one request are its class `Params`, without `kind`.
`params` is UNSET if it was absent, and None if it was null.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

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


class ParamsBase(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Base class of the params. An optional param that is null counts as absent, and is omitted when written."""


class NoParams(ParamsBase, frozen=True, kw_only=True):
    """Params of a request that has none."""


class OperationKey(Struct, frozen=True):
    """The key in the params of a request that begins or resumes a thread, which clients send since 0.10.2."""

    operation_key: str | None = None


class LargeRequest(Struct, frozen=True):
    """A request with a part that may be large: the images of an input or a prompt, the history of a `thread/resume`.

    `kind` is for `thread/request`. One struct has all of them, so that a refused frame is read only once.
    """

    method: Literal["thread/message", "thread/request", "prompt/run", "prompt/request", "thread/resume"]

    class Params(Struct, frozen=True):
        kind: Literal["", "message"] = ""
        images: Raw = Raw(b"")
        history: Raw = Raw(b"")

    params: Params

    def __post_init__(self) -> None:
        foreign = self.params.images if self.method == "thread/resume" else self.params.history
        if memoryview(foreign).nbytes:
            raise ValueError("the large part of another request")


class OfThread(ParamsBase, frozen=True, kw_only=True):
    """Params whose only member is a thread id."""

    thread_id: str


class KeyParams(ParamsBase, frozen=True, kw_only=True):
    """Params that name one setting."""

    key: str


# -- requests ---------------------------------------------------------------------------------------

THREAD, APP = "thread/request", "app/request"


class Spelling:
    """The names of a request: its methods, the advertised one first, or its `kind` within the method `group`.

    `struct` is the server's name of the params. `later` is True if servers of the seed generation do not know it.
    """

    def __init__(self, *methods: str, group: str = "", kind: str = "", struct: str = "", later: bool = False) -> None:
        self.methods, self.group, self.struct, self.later = methods, group, struct, later
        self.kind = kind or (methods[0].partition("/")[2].replace("/", "_") if group else "")
        self.usual = methods[0] if methods else group


class RequestBase(Wire, frozen=True, kw_only=True):
    """Base class of the requests."""

    spelling: ClassVar[Spelling] = Spelling()

    jsonrpc: str | UnsetType | None = "2.0"
    id: Raw | UnsetType = UNSET
    method: str


class Healthz(RequestBase, frozen=True, kw_only=True):
    """Check that the server is alive. Its params are ignored."""

    spelling = Spelling("healthz", "app/healthz")
    params: Raw | UnsetType = UNSET


class Capabilities(RequestBase, frozen=True, kw_only=True):
    """Request the list of all methods of the server."""

    spelling = Spelling("capabilities")
    params: Raw | UnsetType = UNSET


class ThreadCapabilities(RequestBase, frozen=True, kw_only=True):
    """Request the list of methods about threads."""

    spelling = Spelling("thread/capabilities")
    params: Raw | UnsetType = UNSET


class PromptCapabilities(RequestBase, frozen=True, kw_only=True):
    """Request the list of methods about prompts."""

    spelling = Spelling("prompt/capabilities")
    params: Raw | UnsetType = UNSET


class AppCapabilities(RequestBase, frozen=True, kw_only=True):
    """Request facts about the server itself."""

    spelling = Spelling("app/capabilities", group=APP)
    params: NoParams | Raw | UnsetType = UNSET


class Create(RequestBase, frozen=True, kw_only=True):
    """Create a thread; its params are any JSON, which servers before 0.10.2 ignore."""

    spelling = Spelling("thread/create", group=THREAD, struct="CreateParams")

    class Params(ParamsBase, frozen=True, kw_only=True):
        metadata: Raw | UnsetType = UNSET

    params: Params | UnsetType | None = UNSET


class Start(RequestBase, frozen=True, kw_only=True):
    """Start a thread with options. `operation_key` since 0.10.2."""

    spelling = Spelling("thread/start", group=THREAD, struct="ThreadStartParams")

    class Params(ParamsBase, frozen=True, kw_only=True):
        model: str | None = None
        model_provider: str | None = None
        cwd: str | None = None
        persist_extended_history: bool | UnsetType = UNSET
        operation_key: str | None = None

    params: Params | UnsetType | None = UNSET


class Resume(RequestBase, frozen=True, kw_only=True):
    """Continue a thread, with options. `operation_key` since 0.10.2."""

    spelling = Spelling("thread/resume", group=THREAD, struct="ThreadResumeParams")

    class Params(ParamsBase, frozen=True, kw_only=True):
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

    params: Params


class Fork(RequestBase, frozen=True, kw_only=True):
    """Start a thread as a copy of another, with options. `operation_key` since 0.10.2."""

    spelling = Spelling("thread/fork", group=THREAD, struct="ThreadForkParams")

    class Params(ParamsBase, frozen=True, kw_only=True):
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

    params: Params


class List(RequestBase, frozen=True, kw_only=True):
    """List the threads."""

    spelling = Spelling("thread/list", group=THREAD, struct="ThreadListParams")

    class Params(ParamsBase, frozen=True, kw_only=True):
        include_archived: bool | UnsetType = UNSET
        limit: Annotated[int, Meta(ge=0)] | None = None

        def __post_init__(self) -> None:
            check_bounds(self.limit, 0, U64, "usize")

        @classmethod
        def asking(cls, limit: int, archived: bool) -> Self | UnsetType:
            """Return the params of a list without default values, as clients usually write them."""
            return cls(include_archived=archived or UNSET, limit=limit or None) if limit or archived else UNSET

    params: Params | UnsetType | None = UNSET


class Read(RequestBase, frozen=True, kw_only=True):
    """Read one thread and its messages."""

    spelling = Spelling("thread/read", group=THREAD, struct="ThreadReadParams")
    params: OfThread


class SetName(RequestBase, frozen=True, kw_only=True):
    """Name a thread."""

    spelling = Spelling("thread/set_name", "thread/set-name", group=THREAD, struct="ThreadSetNameParams")

    class Params(ParamsBase, frozen=True, kw_only=True):
        thread_id: str
        name: str

    params: Params


class GoalSet(RequestBase, frozen=True, kw_only=True):
    """Set the goal of a thread."""

    spelling = Spelling(
        "thread/goal/set", "thread/goal_set", "thread/goal-set", group=THREAD, struct="ThreadGoalSetParams"
    )

    class Params(ParamsBase, frozen=True, kw_only=True):
        thread_id: str
        objective: str
        token_budget: int | None = None

        def __post_init__(self) -> None:
            check_bounds(self.token_budget, -I64, I64, "i64")

    params: Params


class GoalGet(RequestBase, frozen=True, kw_only=True):
    """Read the goal of a thread."""

    spelling = Spelling(
        "thread/goal/get", "thread/goal_get", "thread/goal-get", group=THREAD, struct="ThreadGoalGetParams"
    )
    params: OfThread


class GoalClear(RequestBase, frozen=True, kw_only=True):
    """Remove the goal of a thread."""

    spelling = Spelling(
        "thread/goal/clear", "thread/goal_clear", "thread/goal-clear", group=THREAD, struct="ThreadGoalClearParams"
    )
    params: OfThread


class GoalProgress(RequestBase, frozen=True, kw_only=True):
    """Report what was used for a thread's goal; this request has no method of its own, only a `kind`."""

    spelling = Spelling(group=THREAD, kind="goal_record_progress", later=True)

    class Params(ParamsBase, frozen=True, kw_only=True):
        thread_id: str
        token_delta: int | UnsetType = UNSET
        time_delta_seconds: int | UnsetType = UNSET
        record_continuation: bool | UnsetType = UNSET

    params: Params


class Archive(RequestBase, frozen=True, kw_only=True):
    """Archive a thread."""

    spelling = Spelling("thread/archive", group=THREAD, struct="ThreadIdParams")
    params: OfThread


class Unarchive(RequestBase, frozen=True, kw_only=True):
    """Take a thread out of the archive."""

    spelling = Spelling("thread/unarchive", group=THREAD, struct="ThreadIdParams")
    params: OfThread


class Message(RequestBase, frozen=True, kw_only=True):
    """Send the user's input. The params after `input` since 0.10.2."""

    spelling = Spelling("thread/message", group=THREAD, struct="ThreadMessageParams")

    class Params(ParamsBase, frozen=True, kw_only=True):
        thread_id: str
        input: str
        allowed_tools: list[str] | None = None
        images: tuple[InlineImage, ...] = ()
        max_output_tokens: NonZeroU32 | None = field(default=None, name="maxOutputTokens")
        max_output_tokens_alias: NonZeroU32 | None = field(default=None, name="max_output_tokens")

        def __post_init__(self) -> None:
            check_alias(self.max_output_tokens, self.max_output_tokens_alias)

    params: Params


class Interrupt(RequestBase, frozen=True, kw_only=True):
    """Stop the turn of a thread, since 0.9.2."""

    spelling = Spelling("thread/interrupt", struct="ThreadInterruptParams", later=True)
    params: OfThread


class ConfigGet(RequestBase, frozen=True, kw_only=True):
    """Read a setting."""

    spelling = Spelling("app/config/get", group=APP, struct="ConfigGetParams")
    params: KeyParams


class ConfigSet(RequestBase, frozen=True, kw_only=True):
    """Change a setting; its value is always a string."""

    spelling = Spelling("app/config/set", group=APP, struct="ConfigSetParams")

    class Params(ParamsBase, frozen=True, kw_only=True):
        key: str
        value: str

    params: Params


class ConfigUnset(RequestBase, frozen=True, kw_only=True):
    """Remove a setting."""

    spelling = Spelling("app/config/unset", group=APP, struct="ConfigGetParams")
    params: KeyParams


class ConfigList(RequestBase, frozen=True, kw_only=True):
    """List the settings."""

    spelling = Spelling("app/config/list", group=APP)
    params: NoParams | Raw | UnsetType = UNSET


class ConfigReload(RequestBase, frozen=True, kw_only=True):
    """Load the settings again, since 0.8.66."""

    spelling = Spelling("app/config/reload", group=APP, later=True)
    params: NoParams | Raw | UnsetType = UNSET


class Models(RequestBase, frozen=True, kw_only=True):
    """List the models."""

    spelling = Spelling("app/models", group=APP)
    params: NoParams | Raw | UnsetType = UNSET


class LoadedList(RequestBase, frozen=True, kw_only=True):
    """List the threads that are not archived."""

    spelling = Spelling("app/thread_loaded_list", "app/thread-loaded-list", group=APP)
    params: NoParams | Raw | UnsetType = UNSET


class SubmitUserInput(RequestBase, frozen=True, kw_only=True):
    """Answer questions to the user, since 0.8.62; this request has no method of its own, only a `kind`."""

    spelling = Spelling(group=APP, kind="submit_user_input", later=True)

    class Params(ParamsBase, frozen=True, kw_only=True):
        request_id: str
        answers: list[Answer]

    params: Params


class Prompt(RequestBase, frozen=True, kw_only=True):
    """Run one prompt outside of any turn. The params after `model` since 0.10.2."""

    spelling = Spelling("prompt/run", "prompt/request", struct="PromptRequest")

    class Params(ParamsBase, frozen=True, kw_only=True):
        thread_id: str | None = None
        prompt: str
        model: str | None = None
        allowed_tools: list[str] | None = None
        images: tuple[InlineImage, ...] = ()
        max_output_tokens: NonZeroU32 | None = field(default=None, name="maxOutputTokens")
        max_output_tokens_alias: NonZeroU32 | None = field(default=None, name="max_output_tokens")

        def __post_init__(self) -> None:
            check_alias(self.max_output_tokens, self.max_output_tokens_alias)

    params: Params


class Shutdown(RequestBase, frozen=True, kw_only=True):
    """Shut down the server."""

    spelling = Spelling("shutdown")
    params: Raw | UnsetType = UNSET


REQUESTS: tuple[type[RequestBase], ...] = tuple(RequestBase.__subclasses__())
"""All requests, in the order in which they are declared."""
