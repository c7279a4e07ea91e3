"""Commands: what a client asks of a backend (docs/translation.md, section 1, in its order).

`request` is the id under which the answer goes back, "" where the client gave none. `session` is the
session as its client names it; "" is the session that the link is attached to.
"""

from __future__ import annotations

from typing import ClassVar, Union

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.mappings.canonical.unmapped import Unmapped
from dragoman.mappings.canonical.values import Ext, Segment, snake_case


class CommandBase(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type", tag=snake_case):
    """Base of the commands. `gateway_answers`: the gateway answers it where its backend has no word for it.

    The rules are docs/translation.md, rules 3.2 and 3.16.
    """

    gateway_answers: ClassVar[bool] = False

    request: str = ""
    session: str = ""
    ext: Ext | None = None


class OpenSession(CommandBase, frozen=True, kw_only=True):
    """Begin a conversation, under the id `session` if the client wants one.

    `supports` None means that the client did not say which forms it can show. `model` and `cwd` are the backend's
    default where they are "".
    """

    title: str = ""
    agent: str = ""
    user_name: str = ""
    user_email: str = ""
    supports: tuple[str, ...] | None = None
    metadata: Raw | UnsetType = UNSET
    model: str = ""
    cwd: str = ""
    gateway_answers = True


class ResumeSession(CommandBase, frozen=True, kw_only=True):
    """Go on with the conversation `session`."""

    agent: str = ""
    user_name: str = ""
    user_email: str = ""
    supports: tuple[str, ...] | None = None
    metadata: Raw | UnsetType = UNSET
    gateway_answers = True


class ListSessions(CommandBase, frozen=True, kw_only=True):
    """List conversations, newest first; `limit` 0 means the dialect's default, `archived` also what was put away."""

    limit: int = 0
    cursor: str = ""
    query: str = ""
    archived: bool = False
    gateway_answers = True


class GetSession(CommandBase, frozen=True, kw_only=True):
    """Describe one session."""

    gateway_answers = True


class GetHistory(CommandBase, frozen=True, kw_only=True):
    """One page of a session's messages, newest first; `limit` 0 means the dialect's default."""

    limit: int = 0
    cursor: str = ""
    gateway_answers = True


class SubmitInput(CommandBase, frozen=True, kw_only=True):
    """The user's input: begins a turn."""

    segments: tuple[Segment, ...]
    model: str = ""


class PromptOnce(CommandBase, frozen=True, kw_only=True):
    """One prompt with a result of its own, never a turn (codewhale)."""

    prompt: str
    model: str = ""


class InjectNote(CommandBase, frozen=True, kw_only=True):
    """A note for the model from elsewhere (pod `notify` and `pod_event`)."""

    text: str


class CancelTurn(CommandBase, frozen=True, kw_only=True):
    """End the open turn."""


class PauseTurn(CommandBase, frozen=True, kw_only=True):
    """Stop the open turn so that it can be resumed."""


class ResumeTurn(CommandBase, frozen=True, kw_only=True):
    """Go on with the paused turn."""


class Compact(CommandBase, frozen=True, kw_only=True):
    """Summarise the history."""


class AnswerApproval(CommandBase, frozen=True, kw_only=True):
    """Approve or deny; `question` "" means the one that this link was last shown."""

    approved: bool
    question: str = ""


class AnswerOtp(CommandBase, frozen=True, kw_only=True):
    """The one-time code that the user typed."""

    code: str


class AnswerInteraction(CommandBase, frozen=True, kw_only=True):
    """What the user filled in; `values` is a JSON object, UNSET when declined."""

    question: str
    kind: str = ""
    values: Raw | UnsetType = UNSET
    declined: bool = False


class ListCompletions(CommandBase, frozen=True, kw_only=True):
    """Completions of `prefix`; `kind` is file, knowledge or workflow."""

    kind: str
    prefix: str


class ForkSession(CommandBase, frozen=True, kw_only=True):
    """Begin a conversation from the history of another."""


class RenameSession(CommandBase, frozen=True, kw_only=True):
    """Give a conversation a title."""

    title: str


class ArchiveSession(CommandBase, frozen=True, kw_only=True):
    """Put a conversation away."""


class UnarchiveSession(CommandBase, frozen=True, kw_only=True):
    """Bring an archived conversation back."""


class DeleteSession(CommandBase, frozen=True, kw_only=True):
    """Forget a conversation."""


class SetGoal(CommandBase, frozen=True, kw_only=True):
    """Give a conversation a goal; `token_budget` None means no bound."""

    objective: str
    token_budget: int | None = None


class GetGoal(CommandBase, frozen=True, kw_only=True):
    """Ask for a conversation's goal."""


class ClearGoal(CommandBase, frozen=True, kw_only=True):
    """Take a conversation's goal away."""


class GetConfig(CommandBase, frozen=True, kw_only=True):
    """Ask for one setting of the backend."""

    key: str


class SetConfig(CommandBase, frozen=True, kw_only=True):
    """Change one setting of the backend."""

    key: str
    value: str


class UnsetConfig(CommandBase, frozen=True, kw_only=True):
    """Take one setting of the backend away."""

    key: str


class ListConfig(CommandBase, frozen=True, kw_only=True):
    """List the settings of the backend."""


class ReloadConfig(CommandBase, frozen=True, kw_only=True):
    """Have the backend read its settings anew."""


class ListModels(CommandBase, frozen=True, kw_only=True):
    """List the models of the backend."""


class GetCapabilities(CommandBase, frozen=True, kw_only=True):
    """Ask what the backend can do."""


class Ping(CommandBase, frozen=True, kw_only=True):
    """Are you there?"""

    gateway_answers = True


class ShutdownBackend(CommandBase, frozen=True, kw_only=True):
    """End the client's attachment, or the backend where the route says so (docs/translation.md, rule 3.16)."""

    gateway_answers = True


class StoreWrite(CommandBase, frozen=True, kw_only=True):
    """A write into the backend's store (pando `db.write`); `params` is its JSON."""

    method: str
    params: Raw | UnsetType = UNSET


Command = Union[  # noqa: UP007  # thirty-five names read better in a list than joined by bars
    OpenSession,
    ResumeSession,
    ListSessions,
    GetSession,
    GetHistory,
    SubmitInput,
    PromptOnce,
    InjectNote,
    CancelTurn,
    PauseTurn,
    ResumeTurn,
    Compact,
    AnswerApproval,
    AnswerOtp,
    AnswerInteraction,
    ListCompletions,
    ForkSession,
    RenameSession,
    ArchiveSession,
    UnarchiveSession,
    DeleteSession,
    SetGoal,
    GetGoal,
    ClearGoal,
    GetConfig,
    SetConfig,
    UnsetConfig,
    ListConfig,
    ReloadConfig,
    ListModels,
    GetCapabilities,
    Ping,
    ShutdownBackend,
    StoreWrite,
    Unmapped,
]


def resume_session(opening: OpenSession, session: str) -> ResumeSession:
    """Return the command that resumes `session` with the client details of `opening`."""
    return ResumeSession(
        request=opening.request,
        session=session,
        agent=opening.agent,
        user_name=opening.user_name,
        user_email=opening.user_email,
        supports=opening.supports,
        metadata=opening.metadata,
        ext=opening.ext,
    )
