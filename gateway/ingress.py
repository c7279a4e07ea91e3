"""The listener of a link, and the session that its clients mean (docs/design.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import GetSession, ListSessions, ResumeSession

NEW, LATEST = "new", "latest"
AboutPods = ListSessions | GetSession | ResumeSession
AnswerAboutPods = Callable[[AboutPods, SessionState, Callable[[SessionState], bool]], Event]
"""Answers a client of this session that asks about the sessions of a `pod+dir:` directory."""


class Ingress(Struct, frozen=True, kw_only=True):
    """The listener of a link. `session` is what its endpoint asks for: `new`, `latest`, an id, or "" for the default.

    `endpoint` identifies the listener: all clients that connect to it and name no session share one. `spawned` says
    that the only client of the listener started this process. `about_pods` is set for a listener of a directory that
    has one for each session of the route.
    """

    endpoint: str = ""
    session: str = ""
    about_pods: AnswerAboutPods | None = None
    spawned: bool = False

    @property
    def is_lasting(self) -> bool:
        """Return True unless the listener lives as long as one session of a directory."""
        return self.about_pods is None or self.session == NEW
