"""The sessions behind the listeners of a route: clients that name no session share the one of their listener."""

from __future__ import annotations

from dragoman.gateway.ingress import Ingress
from dragoman.gateway.session.session import Session


class ListenerSessions:
    """The session behind each listener, the listeners that lead to each session, and which sessions stay for them."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}  # endpoint of a listener -> the session behind it
        self._listeners: dict[Session, list[Ingress]] = {}
        self._kept: set[Session] = set()  # sessions that are never forgotten

    def find_session(self, ingress: Ingress) -> Session | None:
        """Return the session that clients of this listener share, None if nobody has connected to it yet."""
        return self._sessions.get(ingress.endpoint)

    def assign(self, ingress: Ingress, session: Session) -> None:
        """Let all further clients of `ingress` share this session."""
        self._release(ingress)
        self._sessions[ingress.endpoint] = session
        self._listeners.setdefault(session, []).append(ingress)

    def _release(self, ingress: Ingress) -> None:
        """Separate a listener from the session behind it."""
        previous = self._sessions.get(ingress.endpoint)
        listeners = self._listeners.get(previous, []) if previous is not None else []
        if previous is not None and ingress in listeners:
            listeners.remove(ingress)
            if not listeners:
                del self._listeners[previous]

    def move(self, session: Session, other: Session) -> None:
        """Let the listeners that lead to `session` lead to another one."""
        for ingress in self._listeners.pop(session, []):
            self.assign(ingress, other)

    def keep(self, session: Session) -> None:
        """Keep a session while the route lives: its backend has no other."""
        self._kept.add(session)

    def remove_session(self, session: Session) -> None:
        """Remove a session that is over: its listeners lead to no session now."""
        self._kept.discard(session)
        for ingress in self._listeners.pop(session, ()):
            self._sessions.pop(ingress.endpoint, None)

    def is_reachable(self, session: Session) -> bool:
        """Return True if clients may still come to a session that nobody has used."""
        return session in self._listeners or session in self._kept

    def is_lasting(self, session: Session) -> bool:
        """Return True if a session is never forgotten: its backend has no other, or a listener always leads to it.

        There is at most one such session for each listener.
        """
        listeners = self._listeners.get(session, ())
        return session in self._kept or any(ingress.is_lasting for ingress in listeners)
