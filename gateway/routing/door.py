"""A door: the listener by which a link came, as far as it says which session the link means
(docs/design.md, section 5).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import GetSession, ListSessions, ResumeSession

__all__ = ["LATEST", "NEW", "Directory", "Door"]

NEW, LATEST = "new", "latest"


class Directory(Protocol):
    """Where the sessions of a route stand side by side, each behind a door of its own: `pod+dir:DIR`."""

    def answer(self, command: ListSessions | GetSession | ResumeSession, own: SessionState) -> Event:
        """Return what a client of session `own` is told of all that stand here."""


class Door(Struct, frozen=True, kw_only=True):
    """`endpoint` tells doors apart. `session` is what the endpoint asked for: `new`, `latest`, an id, "" the default.

    Only to clients that name no session by themselves does the door matter: all that come by it share one. `spawned`
    says that its one peer spawned us.
    """

    endpoint: str = ""
    session: str = ""
    directory: Directory | None = None
    spawned: bool = False
