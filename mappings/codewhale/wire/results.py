"""Answers and their results (docs/dialects/codewhale.md, sections 1.2, 2 and 2.2).

A result does not name its method: `shape_of` recognises it by its members. Absent and null members are kept apart where
both occur, because `thread/message` of 0.9.10 writes nulls that all other results omit.

Since 0.10.2 the result of `thread/read` has the conversation (section 12). The items of the turns are what clients are
shown. The saved session is what the model is sent: roles with text or content blocks. The class of a content block has
the block's name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.mappings.codewhale.wire.frames import EventFrame
from dragoman.mappings.codewhale.wire.values import Thread, ThreadGoal, Wire

EMPTY = Raw(b"{}")
NULL = Raw(b"null")

Text = str | UnsetType | None


class Health(Wire, frozen=True, kw_only=True):
    """Result of `healthz`."""

    status: str = "ok"
    service: str = "deepseek-app-server"
    transport: str = "stdio"


class Capabilities(Wire, frozen=True, kw_only=True):
    """Result of `capabilities`; the ones about threads and prompts have fewer members. The facts are since 0.10.2.

    dragoman adds `keeps_context`: it tells clients itself if the model has forgotten a conversation.
    """

    transport: str | UnsetType = UNSET
    families: list[str] | UnsetType = UNSET
    turn_image_inputs: bool | UnsetType = UNSET
    interactive_execution: bool | UnsetType = UNSET
    goal_execution: bool | UnsetType = UNSET
    tool_free_turns: bool | UnsetType = UNSET
    keeps_context: bool | UnsetType = UNSET
    full_api_entrypoint: str | UnsetType = UNSET
    methods: list[str]

    @property
    def resumes_context(self) -> bool:
        """True if the server resumes a thread with its context, as servers since 0.10.2 and other gateways do."""
        return self.knows_folders or self.keeps_context is True

    @property
    def knows_folders(self) -> bool:
        """True if the server resumes a thread in its own folder, and refuses another, as servers since 0.10.2 do."""
        return self.tool_free_turns is True

    @property
    def owns_threads(self) -> bool:
        """True if further processes forward their lines to this server, so that its end is theirs.

        Since 0.10.2 the first process of a data directory is such a server; the others tell `unix-socket`.
        """
        return self.knows_folders and self.transport == "stdio"


class ThreadResponse(Wire, frozen=True, kw_only=True):
    """Result of most `thread/*` methods. dragoman adds `ok`: false if the backend cannot store a goal."""

    thread_id: str
    status: str
    thread: Thread | UnsetType | None = UNSET
    threads: tuple[Thread, ...] = ()
    goal: ThreadGoal | UnsetType | None = UNSET
    model: Text = UNSET
    model_provider: Text = UNSET
    cwd: Text = UNSET
    approval_policy: Text = UNSET
    sandbox: Text = UNSET
    events: tuple[EventFrame, ...] = ()
    data: Raw = NULL
    ok: bool | UnsetType = UNSET


class Interrupted(Wire, frozen=True, kw_only=True):
    """Result of `thread/interrupt`."""

    thread_id: str
    interrupted: bool


class AppResponse(Wire, frozen=True, kw_only=True):
    """Result of `app/*` methods; a failure has `ok` false and is not a JSON-RPC error."""

    ok: bool
    data: Raw
    events: tuple[EventFrame, ...] = ()


class PromptResponse(Wire, frozen=True, kw_only=True):
    """Result of `prompt/run`."""

    output: str
    model: str
    events: tuple[EventFrame, ...] = ()


class Stopped(Wire, frozen=True, kw_only=True):
    """Result of `shutdown`."""

    ok: bool = True
    status: str = "stopped"


Result = Health | Capabilities | ThreadResponse | Interrupted | AppResponse | PromptResponse | Stopped

SHAPES: tuple[tuple[frozenset[str], type[Wire]], ...] = (
    (frozenset(("thread_id", "interrupted")), Interrupted),
    (frozenset(("thread_id", "status")), ThreadResponse),
    (frozenset(("output", "model")), PromptResponse),
    (frozenset(("ok", "data")), AppResponse),
    (frozenset(("ok", "status")), Stopped),
    (frozenset(("methods",)), Capabilities),
    (frozenset(("status", "service")), Health),
)


def shape_of(names: Collection[str]) -> type[Wire] | None:
    """Return the result struct with these member names, or None if no method has such a result."""
    return next((shape for known, shape in SHAPES if known.issubset(names)), None)


class Problem(Wire, frozen=True, kw_only=True):
    """The error of an answer; `data` is always written."""

    code: int
    message: str
    data: Raw = NULL


class Answer(Wire, frozen=True, kw_only=True):
    """The answer to one request; `id` is any JSON, null if the request's id could not be read.

    `result` is a result struct, or JSON if no struct has its members.
    """

    jsonrpc: Literal["2.0"] = "2.0"
    id: Raw = NULL
    result: Any = UNSET
    error: Problem | UnsetType = UNSET


# -- the conversation in the result of `thread/read` --------------------------------------------------


class ModelMessage(Struct, frozen=True, gc=False):
    """A message of a saved session, or an item in the `history` of a client's resume; `content` is text or blocks."""

    role: str = ""
    content: Any = None


class ImageUrlContent(Struct, frozen=True, gc=False):
    """The address of an image, often a `data:` URL."""

    url: str


class ImageUrl(Struct, frozen=True, gc=False, tag="image_url"):
    """A content block with an image of the user."""

    image_url: ImageUrlContent


class SavedSession(Struct, frozen=True, gc=False):
    """The member `session` of a snapshot: the messages that the model is sent, oldest first."""

    messages: tuple[ModelMessage, ...]


class Snapshot(Struct, frozen=True, gc=False):
    """The member `history` of a thread's `data`."""

    session: SavedSession


class ItemMetadata(Struct, frozen=True, gc=False):
    """The members of an item's metadata that mark a tool call, its result, or an input that no user has typed."""

    tool_use_id: str = ""
    tool_name: str = ""
    tool_input: str | None = None
    tool_result_for: str = ""
    is_error: bool | None = None
    input_provenance: str = ""


class SavedItem(Struct, frozen=True, gc=False):
    """An item of a turn; `started_at` is its time (RFC 3339), `metadata` mostly ItemMetadata with further members."""

    kind: str = ""
    status: str = ""
    detail: str | None = None
    metadata: Raw = Raw(b"null")
    started_at: str | None = None


class SavedThreadData(Struct, frozen=True, gc=False):
    """The `data` of a thread with its saved session and the items of its turns."""

    history: Snapshot
    items: tuple[SavedItem, ...] = ()
