"""The sessions that clients have asked for, and that their backend has not opened yet (docs/translation.md, rule 3.1).

Such a session has a provisional id and is not listed. It waits at most `open_deadline`, and no longer than its client.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.gateway.link import Link
from dragoman.gateway.session.session import Session

ChosenName = tuple[str, str]
"""A dialect, and the name that one of its clients chose for a session."""


class UnopenedSessions:
    """The sessions of a route that wait for their backend, each with the client that asked for it."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Session, Link]] = {}  # provisional id -> session and client
        self._of_link: dict[str, dict[str, Session]] = {}
        self._chosen: dict[ChosenName, str] = {}
        self._names: dict[str, ChosenName] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter([session for session, _link in self._waiting.values()])

    def __contains__(self, session: object) -> bool:
        return isinstance(session, Session) and session.state.id in self._waiting

    def add(self, session: Session, link: Link) -> None:
        self._waiting[session.state.id] = session, link
        self._of_link.setdefault(link.id, {})[session.state.id] = session

    def remove(self, session: Session) -> None:
        """Remove a session that its backend has opened, or that is dropped; it still has its provisional id."""
        provisional = session.state.id
        _, link = self._waiting.pop(provisional)
        of_link = self._of_link[link.id]
        del of_link[provisional]
        if not of_link:
            del self._of_link[link.id]
        if provisional in self._names:
            del self._chosen[self._names.pop(provisional)]

    def client(self, session: Session) -> Link:
        return self._waiting[session.state.id][1]

    def sessions_of(self, link: Link) -> list[Session]:
        return list(self._of_link.get(link.id, {}).values())

    def choose(self, session: Session, dialect: str, name: str) -> None:
        """Note that a client of this dialect chose this name for a session."""
        if (dialect, name) not in self._chosen:
            self._names[session.state.id] = dialect, name
            self._chosen[dialect, name] = session.state.id

    def chosen_name(self, session: Session) -> str:
        """Return the name that a client chose for a session, or ""."""
        _dialect, name = self._names.get(session.state.id, ("", ""))
        return name

    def is_chosen(self, dialect: str, name: str) -> bool:
        """Return True if a client of this dialect chose this name for a session that waits."""
        return (dialect, name) in self._chosen
