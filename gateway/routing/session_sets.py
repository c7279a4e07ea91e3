"""Keep four sets of the sessions of a route: not opened yet, busy, shared by a listener, and published to subscribers.

A session that its backend has not opened yet has a provisional id and is not listed. It waits at most `open_deadline`,
and no longer than the client that asked for it (docs/translation.md, rule 3.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from dragoman.gateway.ingress import Ingress
from dragoman.gateway.link import Link
from dragoman.gateway.routing.policy import Policy
from dragoman.gateway.routing.session_index import SessionIndex
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Event

ChosenName = tuple[str, str]
"""A dialect, and the name that one of its clients chose for a session."""


class UnopenedSessions:
    """The sessions of a route that wait for their backend, each with the client that asked for it."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Session, Link, str]] = {}  # provisional id -> session, client and resumed id
        self._of_link: dict[str, dict[str, Session]] = {}
        self._chosen: dict[ChosenName, str] = {}
        self._names: dict[str, ChosenName] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter([session for session, *_ in self._waiting.values()])

    def __contains__(self, session: object) -> bool:
        return isinstance(session, Session) and session.state.id in self._waiting

    def add(self, session: Session, link: Link, resumed: str = "") -> None:
        """Add a session. `resumed` is the id of the session that the client resumes by it, "" if it opens a new one."""
        self._waiting[session.state.id] = session, link, resumed
        self._of_link.setdefault(link.id, {})[session.state.id] = session

    def remove(self, session: Session) -> None:
        """Remove a session that its backend has opened, or that is dropped; it still has its provisional id."""
        provisional = session.state.id
        _, link, _ = self._waiting.pop(provisional)
        of_link = self._of_link[link.id]
        del of_link[provisional]
        if not of_link:
            del self._of_link[link.id]
        if provisional in self._names:
            del self._chosen[self._names.pop(provisional)]

    def client(self, session: Session) -> Link:
        return self._waiting[session.state.id][1]

    def is_wanted(self, session: Session, id: str) -> bool:
        """Return True if the client accepts the session under this id of its backend.

        A backend may open a new session in place of an unknown one. Clients of most dialects expect a refusal then.
        """
        _, link, resumed = self._waiting[session.state.id]
        return link.dialect.resumes_unknown or resumed in ("", id)

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


class BusySessions:
    """The busy sessions of a route, for which a gateway that stops waits."""

    def __init__(self) -> None:
        self._busy: set[Session] = set()
        self._awaited: set[Session] = set()
        self._finished = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._busy)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._busy)

    def note(self, session: Session, busy: bool) -> None:  # by position: it is an observer
        if busy:
            self._busy.add(session)
            return
        self._busy.discard(session)
        self._awaited.discard(session)
        if not self._awaited:
            self._finished.set()

    async def finish(self) -> None:
        """Return once each session that is busy now has been idle at least once."""
        self._awaited = set(self._busy)
        self._finished.clear()
        if self._awaited:
            await self._finished.wait()


class ListenerSessions:
    """The session that each listener's clients share, and the sessions that are kept for listeners."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}  # endpoint of a listener -> the session behind it
        self._listeners: dict[Session, list[Ingress]] = {}
        self._kept: set[Session] = set()  # sessions that are never forgotten

    def find_session(self, ingress: Ingress) -> Session | None:
        """Return the session that the clients of this listener share; None if no client has connected to it yet."""
        return self._sessions.get(ingress.endpoint)

    def assign(self, ingress: Ingress, session: Session) -> None:
        """Let all further clients of `ingress` share this session."""
        self._release(ingress)
        self._sessions[ingress.endpoint] = session
        self._listeners.setdefault(session, []).append(ingress)

    def _release(self, ingress: Ingress) -> None:
        """Forget the session that the clients of a listener share."""
        previous = self._sessions.get(ingress.endpoint)
        listeners = self._listeners.get(previous, []) if previous is not None else []
        if previous is not None and ingress in listeners:
            listeners.remove(ingress)
            if not listeners:
                del self._listeners[previous]

    def move(self, session: Session, other: Session) -> None:
        """Assign the listeners of `session` to another session."""
        for ingress in self._listeners.pop(session, []):
            self.assign(ingress, other)

    def keep(self, session: Session) -> None:
        """Keep a session while the route lives: its backend has no other."""
        self._kept.add(session)

    def remove_session(self, session: Session) -> None:
        """Remove a session that has ended, and forget it for its listeners."""
        self._kept.discard(session)
        for ingress in self._listeners.pop(session, ()):
            self._sessions.pop(ingress.endpoint, None)

    def is_reachable(self, session: Session) -> bool:
        """Return True if clients may still attach to this unused session."""
        return session in self._listeners or session in self._kept

    def is_lasting(self, session: Session) -> bool:
        """Return True if a session is never forgotten: its backend has no other, or a listener always leads to it.

        There is at most one such session for each listener.
        """
        listeners = self._listeners.get(session, ())
        return session in self._kept or any(ingress.is_lasting for ingress in listeners)


class Publications:
    """The subscribers of a route, and the sessions that its policy publishes to them."""

    def __init__(self, index: SessionIndex, policy: Policy) -> None:
        self._index = index
        self._policy = policy
        self._links: list[Link] = []
        self._published: set[str] = set()  # ids of sessions
        policy.watch(self._regroup)

    @property
    def count(self) -> int:
        return len(self._published)

    def add_link(self, link: Link) -> None:
        """Send `link` all further events of the published sessions."""
        self._links.append(link)
        for own in list(self._published):
            session = self._index.live_session(own)
            if session is not None:
                self._update(link, session)

    def remove_link(self, link: Link) -> None:
        self._links.remove(link)

    def send(self, event: Event) -> bool:
        """Send an event that belongs to no session to every subscriber; return False if there is no subscriber."""
        for link in self._links:
            link.send([event])
        return bool(self._links)

    def note_session(self, session: Session) -> None:
        """Update the set of published sessions after this session was created, has changed or has ended."""
        if session in self._index and self._policy.publishes(session.state):
            self._published.add(session.state.id)
        else:
            self._published.discard(session.state.id)

    def update_session(self, session: Session) -> None:
        """Attach every subscriber to a session that is published, and detach them from any other."""
        for link in self._links:
            self._update(link, session)

    def detach_session(self, session: Session) -> None:
        """Detach every subscriber from a session until it is updated."""
        for link in self._links:
            session.presence.detach(link)

    def _regroup(self) -> None:
        """Publish or withdraw each session after a reload has changed the policy."""
        for session in self._index:
            self.note_session(session)
            self.update_session(session)

    def _update(self, link: Link, session: Session) -> None:
        shown = self._policy.publishes(session.state)
        if shown and link.id not in session.delivery.attachments:
            session.presence.attach(link)
        elif not shown:
            session.presence.detach(link)
