"""Publish sessions to the clients of a route that subscribe to all of its sessions."""

from __future__ import annotations

from dragoman.gateway.link import Link
from dragoman.gateway.routing.policy import Policy
from dragoman.gateway.routing.session_index import SessionIndex
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Event


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
