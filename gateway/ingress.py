"""The listener of a link, and the session that its clients mean (docs/design.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import GetSession, ListSessions, ResumeSession

NEW, LATEST = "new", "latest"


class Directory(Protocol):
    """A directory with a listener for each session of a route: `pod+dir:DIR`."""

    def answer(
        self,
        command: ListSessions | GetSession | ResumeSession,
        own: SessionState,
        sees: Callable[[SessionState], bool],
    ) -> Event:
        """Return the answer to a client of session `own` about the sessions of this directory that it sees."""


class Ingress(Struct, frozen=True, kw_only=True):
    """The listener of a link. `session` is what its endpoint asks for: `new`, `latest`, an id, or "" for the default.

    `endpoint` identifies the listener: all clients that connect to it and name no session share one. `spawned` says
    that the only client of the listener started this process.
    """

    endpoint: str = ""
    session: str = ""
    directory: Directory | None = None
    spawned: bool = False

    @property
    def is_lasting(self) -> bool:
        """Return True unless the listener came with one session of a directory, and goes with it."""
        return self.directory is None or self.session == NEW
