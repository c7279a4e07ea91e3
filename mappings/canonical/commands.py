"""Commands: the requests of a client to a backend (docs/translation.md, section 1, in its order).

`request` is the id that the answer repeats, "" if the client gave none. `session` is the client's name for the session;
"" is the session that the link is attached to.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.mappings.canonical.values import Ext, Segment, only_text, snake_case


class CommandBase(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type", tag=snake_case):
    """Base class of the commands.

    `gateway_answers`: the gateway answers the command if the backend's dialect cannot (docs/translation.md, rules 3.2
    and 3.16). `own_dialect_only`: the gateway refuses the command for a backend of another dialect.
    """

    gateway_answers: ClassVar[bool] = False
    own_dialect_only: ClassVar[bool] = False

    request: str = ""
    session: str = ""
    ext: Ext | None = None

    def implies(self, _field: str) -> bool:
        """Return True if the backend gets the value of this field by other fields of the command."""
        return False


class CommandHead(TypedDict):
    """The fields that every command has."""

    request: str
    session: str
    ext: Ext | None


class OpenSession(CommandBase, frozen=True, kw_only=True):
    """Begin a conversation, with the id `session` if the client asks for one.

    `supports` lists the kinds of forms that the client can show; None means that the client did not say. `model` and
    `cwd` "" mean the backend's default.
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
    """Resume the conversation `session`."""

    agent: str = ""
    user_name: str = ""
    user_email: str = ""
    supports: tuple[str, ...] | None = None
    metadata: Raw | UnsetType = UNSET
    gateway_answers = True


class ListSessions(CommandBase, frozen=True, kw_only=True):
    """List conversations, newest first; `limit` 0 is the dialect's default, `archived` includes archived ones."""

    limit: int = 0
    cursor: str = ""
    query: str = ""
    archived: bool = False
    gateway_answers = True


class GetSession(CommandBase, frozen=True, kw_only=True):
    """Describe one session."""

    gateway_answers = True


class GetHistory(CommandBase, frozen=True, kw_only=True):
    """Get one page of a session's messages, newest first; `limit` 0 is the dialect's default."""

    limit: int = 0
    cursor: str = ""
    gateway_answers = True


class SubmitInput(CommandBase, frozen=True, kw_only=True):
    """Send the user's input, which begins a turn."""

    segments: tuple[Segment, ...]
    model: str = ""

    def implies(self, field: str) -> bool:
        """Return True for `segments` if the input is only text: `text` then says the same."""
        return field == "segments" and only_text(self.segments)


class PromptOnce(CommandBase, frozen=True, kw_only=True):
    """Run one prompt with a result of its own, outside of any turn (codewhale)."""

    prompt: str
    model: str = ""


class InjectNote(CommandBase, frozen=True, kw_only=True):
    """Send a note for the model that is no user input (pod `notify` and `pod_event`)."""

    text: str


class CancelTurn(CommandBase, frozen=True, kw_only=True):
    """Cancel the open turn."""


class PauseTurn(CommandBase, frozen=True, kw_only=True):
    """Pause the open turn."""


class ResumeTurn(CommandBase, frozen=True, kw_only=True):
    """Resume the paused turn."""


class Compact(CommandBase, frozen=True, kw_only=True):
    """Summarise the history."""


class AnswerApproval(CommandBase, frozen=True, kw_only=True):
    """Approve or deny an ApprovalRequested; `question` "" means the last one that this link was shown."""

    approved: bool
    question: str = ""

    def implies(self, field: str) -> bool:
        """Return True for `question`: a session has one open question at a time."""
        return field == "question"


class AnswerOtp(CommandBase, frozen=True, kw_only=True):
    """Send the one-time code that the user typed."""

    code: str


NO_VALUES = "`values` is needed unless `declined`"
"""The text of the failure of an AnswerInteraction without values."""


class AnswerInteraction(CommandBase, frozen=True, kw_only=True):
    """Answer an InteractionRequired with the filled-in form; `values` is a JSON object, UNSET if declined."""

    question: str
    kind: str = ""
    values: Raw | UnsetType = UNSET
    declined: bool = False

    @property
    def is_filled(self) -> bool:
        """True if the form was filled in or declined."""
        return self.declined or self.values is not UNSET


class ListCompletions(CommandBase, frozen=True, kw_only=True):
    """List completions of `prefix`; `kind` is file, knowledge or workflow."""

    kind: str
    prefix: str


class ForkSession(CommandBase, frozen=True, kw_only=True):
    """Begin a conversation from the history of another."""


class RenameSession(CommandBase, frozen=True, kw_only=True):
    """Set the title of a conversation."""

    title: str


class ArchiveSession(CommandBase, frozen=True, kw_only=True):
    """Archive a conversation."""


class UnarchiveSession(CommandBase, frozen=True, kw_only=True):
    """Restore an archived conversation."""


class DeleteSession(CommandBase, frozen=True, kw_only=True):
    """Delete a conversation."""


class SetGoal(CommandBase, frozen=True, kw_only=True):
    """Set the goal of a conversation; `token_budget` None means no limit."""

    objective: str
    token_budget: int | None = None


class GetGoal(CommandBase, frozen=True, kw_only=True):
    """Get the goal of a conversation."""


class ClearGoal(CommandBase, frozen=True, kw_only=True):
    """Remove the goal of a conversation."""


class GetConfig(CommandBase, frozen=True, kw_only=True):
    """Get one setting of the backend."""

    key: str


class SetConfig(CommandBase, frozen=True, kw_only=True):
    """Change one setting of the backend."""

    key: str
    value: str


class UnsetConfig(CommandBase, frozen=True, kw_only=True):
    """Remove one setting of the backend."""

    key: str


class ListConfig(CommandBase, frozen=True, kw_only=True):
    """List the settings of the backend."""


class ReloadConfig(CommandBase, frozen=True, kw_only=True):
    """Make the backend reload its settings."""


class ListModels(CommandBase, frozen=True, kw_only=True):
    """List the models of the backend."""


class GetCapabilities(CommandBase, frozen=True, kw_only=True):
    """Ask for the capabilities of the backend."""


class Ping(CommandBase, frozen=True, kw_only=True):
    """Check that the backend is alive."""

    gateway_answers = True


class ShutdownBackend(CommandBase, frozen=True, kw_only=True):
    """Detach the client, or shut down the backend if the route says so (docs/translation.md, rule 3.16)."""

    gateway_answers = True


class StoreWrite(CommandBase, frozen=True, kw_only=True):
    """Write into the backend's store (pando `db.write`, codewhale `goal_record_progress`); `params` is its JSON."""

    own_dialect_only = True

    method: str
    params: Raw | UnsetType = UNSET


OpeningCommand = OpenSession | ResumeSession | GetSession
"""A command that a backend answers with SessionOpened."""

Answer = AnswerApproval | AnswerInteraction
"""An answer to a question of a turn."""
ANSWERS = (AnswerApproval, AnswerInteraction, AnswerOtp)
"""Commands that answer a request of the backend to the user: the answer to a question, or a one-time code."""

STOPS = (CancelTurn, PauseTurn)
"""Commands that stop the agent in an open turn."""

OF_A_TURN = (*STOPS, ResumeTurn, *ANSWERS)
"""Commands about an open turn."""

SETTINGS = (GetConfig, SetConfig, UnsetConfig, ListConfig, ReloadConfig, ListModels)
CONFIGURATION = (*SETTINGS, GetCapabilities)
"""Commands about the settings, and about the abilities, of a backend."""


def client_details(opening: OpenSession | ResumeSession) -> dict[str, Any]:
    """Return the fields that OpenSession and ResumeSession share, except `session`."""
    names = ("request", "agent", "user_name", "user_email", "supports", "metadata", "ext")
    return {name: getattr(opening, name) for name in names}


def resume_session(opening: OpenSession, session: str) -> ResumeSession:
    """Return the command that resumes `session` with the client details of `opening`."""
    return ResumeSession(session=session, **client_details(opening))
