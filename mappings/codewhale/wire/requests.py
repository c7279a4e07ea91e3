"""Requests (docs/dialects/codewhale.md, sections 1.1 and 2): one struct a meaning, whatever name it was called by.

Most meanings have a method of their own and a `kind` of `thread/request` or `app/request`; `method` keeps which of its
names a request used. `params` is UNSET where it was left out, None where it was null.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.codewhale.wire.base import Wire
from dragoman.mappings.codewhale.wire.params import (
    AnswersParams,
    CreateParams,
    ForkParams,
    GoalParams,
    KeyParams,
    ListParams,
    MessageParams,
    NameParams,
    NoParams,
    OfThread,
    ProgressParams,
    PromptParams,
    ResumeParams,
    SettingParams,
    StartParams,
)

__all__ = [
    "APP",
    "THREAD",
    "AppCapabilities",
    "Archive",
    "Capabilities",
    "ConfigGet",
    "ConfigList",
    "ConfigReload",
    "ConfigSet",
    "ConfigUnset",
    "Create",
    "Fork",
    "GoalClear",
    "GoalGet",
    "GoalProgress",
    "GoalSet",
    "Healthz",
    "Interrupt",
    "List",
    "LoadedList",
    "Message",
    "Models",
    "Prompt",
    "PromptCapabilities",
    "Read",
    "Request",
    "RequestBase",
    "Resume",
    "SetName",
    "Shutdown",
    "Start",
    "SubmitUserInput",
    "ThreadCapabilities",
    "Unarchive",
]

THREAD, APP = "thread/request", "app/request"


class RequestBase(Wire, frozen=True, kw_only=True):
    """Base of the requests.

    `names` are the methods, the advertised one first; `kind` is its name in `group`, "" if it has none there. `later`
    says that the seed does not know it.
    """

    names: ClassVar[tuple[str, ...]] = ()
    group: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    later: ClassVar[bool] = False

    jsonrpc: str | UnsetType | None = "2.0"
    id: Raw | UnsetType = UNSET
    method: str


class Healthz(RequestBase, frozen=True, kw_only=True):
    """Are you there? Params of this and the other lists are ignored."""

    names = ("healthz", "app/healthz")
    params: Raw | UnsetType = UNSET


class Capabilities(RequestBase, frozen=True, kw_only=True):
    """What can you do?"""

    names = ("capabilities",)
    params: Raw | UnsetType = UNSET


class ThreadCapabilities(RequestBase, frozen=True, kw_only=True):
    """With threads?"""

    names = ("thread/capabilities",)
    params: Raw | UnsetType = UNSET


class PromptCapabilities(RequestBase, frozen=True, kw_only=True):
    """With prompts?"""

    names = ("prompt/capabilities",)
    params: Raw | UnsetType = UNSET


class AppCapabilities(RequestBase, frozen=True, kw_only=True):
    """With everything else?"""

    names = ("app/capabilities",)
    group, kind = APP, "capabilities"
    params: NoParams | Raw | UnsetType = UNSET


class Create(RequestBase, frozen=True, kw_only=True):
    """Begin a thread."""

    names = ("thread/create",)
    group, kind = THREAD, "create"
    params: CreateParams | UnsetType | None = UNSET


class Start(RequestBase, frozen=True, kw_only=True):
    """Begin a thread, in this way."""

    names = ("thread/start",)
    group, kind = THREAD, "start"
    params: StartParams | UnsetType | None = UNSET


class Resume(RequestBase, frozen=True, kw_only=True):
    """Go on with a thread."""

    names = ("thread/resume",)
    group, kind = THREAD, "resume"
    params: ResumeParams


class Fork(RequestBase, frozen=True, kw_only=True):
    """Begin a thread from another."""

    names = ("thread/fork",)
    group, kind = THREAD, "fork"
    params: ForkParams


class List(RequestBase, frozen=True, kw_only=True):
    """Which threads are there?"""

    names = ("thread/list",)
    group, kind = THREAD, "list"
    params: ListParams | UnsetType | None = UNSET


class Read(RequestBase, frozen=True, kw_only=True):
    """What is a thread, and what was said in it?"""

    names = ("thread/read",)
    group, kind = THREAD, "read"
    params: OfThread


class SetName(RequestBase, frozen=True, kw_only=True):
    """Name a thread."""

    names = ("thread/set_name", "thread/set-name")
    group, kind = THREAD, "set_name"
    params: NameParams


class GoalSet(RequestBase, frozen=True, kw_only=True):
    """Give a thread a goal."""

    names = ("thread/goal/set", "thread/goal_set", "thread/goal-set")
    group, kind = THREAD, "goal_set"
    params: GoalParams


class GoalGet(RequestBase, frozen=True, kw_only=True):
    """Which goal has a thread?"""

    names = ("thread/goal/get", "thread/goal_get", "thread/goal-get")
    group, kind = THREAD, "goal_get"
    params: OfThread


class GoalClear(RequestBase, frozen=True, kw_only=True):
    """Take a thread's goal away."""

    names = ("thread/goal/clear", "thread/goal_clear", "thread/goal-clear")
    group, kind = THREAD, "goal_clear"
    params: OfThread


class GoalProgress(RequestBase, frozen=True, kw_only=True):
    """Count what was used for a thread's goal; it has no method of its own."""

    group, kind, later = THREAD, "goal_record_progress", True
    params: ProgressParams


class Archive(RequestBase, frozen=True, kw_only=True):
    """Put a thread away."""

    names = ("thread/archive",)
    group, kind = THREAD, "archive"
    params: OfThread


class Unarchive(RequestBase, frozen=True, kw_only=True):
    """Bring a thread back."""

    names = ("thread/unarchive",)
    group, kind = THREAD, "unarchive"
    params: OfThread


class Message(RequestBase, frozen=True, kw_only=True):
    """The user's input."""

    names = ("thread/message",)
    group, kind = THREAD, "message"
    params: MessageParams


class Interrupt(RequestBase, frozen=True, kw_only=True):
    """End the turn of a thread, since 0.9.2."""

    names, later = ("thread/interrupt",), True
    params: OfThread


class ConfigGet(RequestBase, frozen=True, kw_only=True):
    """What is a setting?"""

    names = ("app/config/get",)
    group, kind = APP, "config_get"
    params: KeyParams


class ConfigSet(RequestBase, frozen=True, kw_only=True):
    """Change a setting."""

    names = ("app/config/set",)
    group, kind = APP, "config_set"
    params: SettingParams


class ConfigUnset(RequestBase, frozen=True, kw_only=True):
    """Take a setting away."""

    names = ("app/config/unset",)
    group, kind = APP, "config_unset"
    params: KeyParams


class ConfigList(RequestBase, frozen=True, kw_only=True):
    """Which settings are there?"""

    names = ("app/config/list",)
    group, kind = APP, "config_list"
    params: NoParams | Raw | UnsetType = UNSET


class ConfigReload(RequestBase, frozen=True, kw_only=True):
    """Read the settings anew, since 0.8.66."""

    names = ("app/config/reload",)
    group, kind, later = APP, "config_reload", True
    params: NoParams | Raw | UnsetType = UNSET


class Models(RequestBase, frozen=True, kw_only=True):
    """Which models are there?"""

    names = ("app/models",)
    group, kind = APP, "models"
    params: NoParams | Raw | UnsetType = UNSET


class LoadedList(RequestBase, frozen=True, kw_only=True):
    """Which threads are there, without those put away?"""

    names = ("app/thread_loaded_list", "app/thread-loaded-list")
    group, kind = APP, "thread_loaded_list"
    params: NoParams | Raw | UnsetType = UNSET


class SubmitUserInput(RequestBase, frozen=True, kw_only=True):
    """Answers of the user, since 0.8.62; it has no method of its own."""

    group, kind, later = APP, "submit_user_input", True
    params: AnswersParams


class Prompt(RequestBase, frozen=True, kw_only=True):
    """One prompt, which is no turn."""

    names = ("prompt/run", "prompt/request")
    params: PromptParams


class Shutdown(RequestBase, frozen=True, kw_only=True):
    """End."""

    names = ("shutdown",)
    params: Raw | UnsetType = UNSET


Request = (
    Healthz
    | Capabilities
    | ThreadCapabilities
    | Create
    | Start
    | Resume
    | Fork
    | List
    | Read
    | SetName
    | GoalSet
    | GoalGet
    | GoalClear
    | GoalProgress
    | Archive
    | Unarchive
    | Message
    | Interrupt
    | AppCapabilities
    | ConfigGet
    | ConfigSet
    | ConfigUnset
    | ConfigList
    | ConfigReload
    | Models
    | LoadedList
    | SubmitUserInput
    | PromptCapabilities
    | Prompt
    | Shutdown
)
