"""Who is there: links come to a session and go, and the last one that goes starts its clock
(docs/design.md, section 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.gateway.link import Link
from dragoman.gateway.timers import Timer

if TYPE_CHECKING:
    from dragoman.gateway.session.session import Session

__all__ = ["Attendance"]


class Attendance:
    """The links of one session, and the timer that runs while there are none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._expiry: Timer | None = None

    @property
    def links(self) -> list[Link]:
        """Everybody who is attached."""
        return [attachment.link for attachment in self._session.delivery.attachments.values()]

    @property
    def deserted(self) -> bool:
        """Whether nobody is here; who subscribes to everything is no company."""
        return all(link.publishes for link in self.links)

    def attach(self, link: Link, request: str) -> None:
        """Show the session to `link`, and keep it informed unless it only makes calls."""
        session = self._session
        if link.publishes:
            session.delivery.attach(link, request)
            return
        self.close()
        session.backend.start()  # before: what it knows at once stands in the first snapshot
        if link.attaches:
            session.delivery.attach(link, request)
        else:
            link.attach(session.state, request)
            self._leave()  # it looked, and is gone

    def look(self) -> None:
        """Connect to the backend for somebody who asks what there is, for as long as after a client that left."""
        self.resting = False
        self._session.backend.start()
        if self.deserted and self._expiry is None:
            self._wait()

    def detach(self, link: Link) -> None:
        """`link` is gone; its turn goes on, the answers to its commands have nowhere to go."""
        session = self._session
        session.lobby.leave(link)
        attached = link.id in session.delivery.attachments  # a probe never was
        session.delivery.detach(link)
        if attached and not link.publishes:
            self._leave()

    def _leave(self) -> None:
        if self.deserted:
            self._session.deserted()
            self._wait()

    def _wait(self) -> None:
        self.close()
        self._expiry = self._session.later(self._session.limits.session_ttl, self._expire)

    def _expire(self) -> None:
        session = self._session
        if session.busy:
            self._wait()
            return
        self._expiry = None
        session.log.info("session idle, closing its backend connection")
        session.backend.rest()
        session.rested(session)
        session.watch(session)

    def close(self) -> None:
        """Call off the clock."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
