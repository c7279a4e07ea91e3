"""Events about sessions and their history."""

from __future__ import annotations

from dragoman.mappings.canonical.events.base import EventBase
from dragoman.mappings.canonical.values import Backend, Item, Message, PastRun, SessionSummary, Status

__all__ = [
    "HistorySnapshot",
    "MessageAppended",
    "SessionActivated",
    "SessionClosed",
    "SessionOpened",
    "SessionUpdated",
    "SessionsListed",
]


class SessionOpened(EventBase, frozen=True, kw_only=True):
    """Answers OpenSession, ResumeSession and GetSession. `agent` is the agent id that the client named."""

    request: str
    session: str
    agent: str = ""
    title: str = ""
    status: Status = "idle"


class SessionUpdated(EventBase, frozen=True, kw_only=True):
    """A session's description changed."""

    session: SessionSummary


class SessionActivated(EventBase, frozen=True, kw_only=True):
    """A client brought this session to the front."""

    session: SessionSummary


class SessionClosed(EventBase, frozen=True, kw_only=True):
    """A session is gone; its last description."""

    session: SessionSummary


class SessionsListed(EventBase, frozen=True, kw_only=True):
    """Answers ListSessions, newest first; `next_cursor` None on the last page."""

    request: str
    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class HistorySnapshot(EventBase, frozen=True, kw_only=True):
    """A session's history: all of it, replacing what was known, or with a `request` the page asked for.

    A whole history is oldest first and tells status and backend where the dialect does; a page is newest
    first, `next_cursor` None on the last. `rotated` marks a history that changed under attached clients.
    `runs` are the runs of a whole history, oldest first, and `conversation` is the backend's id of what it tells,
    both where the dialect tells them. `compacted` says that a summary stands for what was said first; `summed_up` is
    how many of `items` the backend's own account, of which they are no part, stands for then: the session sets it.
    """

    items: tuple[Item, ...]
    request: str = ""
    status: Status | None = None
    backend: Backend | None = None
    next_cursor: str | None = None
    rotated: bool = False
    runs: tuple[PastRun, ...] = ()
    conversation: str = ""
    compacted: bool = False
    summed_up: int = 0


class MessageAppended(EventBase, frozen=True, kw_only=True):
    """The user or the system said something. A system message is internal (docs/translation.md, rule 3.8)."""

    message: Message
