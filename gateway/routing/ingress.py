"""The listener by which a link came, as far as it says which session the link means
(docs/design.md, section 5).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import GetSession, ListSessions, ResumeSession

__all__ = ["LATEST", "NEW", "Directory", "Ingress"]

NEW, LATEST = "new", "latest"


class Directory(Protocol):
    """A directory with a listener for each session of a route: `pod+dir:DIR`."""

    def answer(self, command: ListSessions | GetSession | ResumeSession, own: SessionState) -> Event:
        """Return what a client of session `own` is told of all that stand here."""


class Ingress(Struct, frozen=True, kw_only=True):
    """The listener of a link. `session` is what its endpoint asks for: `new`, `latest`, an id, or "" for the default.

    `endpoint` is its identity. All clients that come by it and name no session by themselves share one. `spawned` says
    that its one peer started this process.
    """

    endpoint: str = ""
    session: str = ""
    directory: Directory | None = None
    spawned: bool = False
