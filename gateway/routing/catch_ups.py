"""Let clients that read slowly catch up with their sessions, in slices between which other links are served."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dragoman.gateway.link import Link
from dragoman.gateway.routing.session_index import SessionIndex

DoWork = Callable[[Link, Iterator[None]], None]
"""Does work of a link in slices, between which other links are served."""


class CatchUps:
    """The catching up of the links of one route: each link has at most one that waits for its next slice."""

    def __init__(self, index: SessionIndex, do_work: DoWork) -> None:
        self._index = index
        self._do_work = do_work
        self._running: set[str] = set()  # ids of links

    def drained(self, link: Link) -> None:
        """Deliver the events that were kept for a peer, which has now read everything that it was sent."""
        if link.id not in self._running:
            self._running.add(link.id)
            self._do_work(link, self._catch_up(link))

    def stop_link(self, link: Link) -> None:
        """Forget a link that is gone: its work was dropped."""
        self._running.discard(link.id)

    def _catch_up(self, link: Link) -> Iterator[None]:
        try:
            for session in self._index.sessions_behind(link):
                yield from session.delivery.catch_up(link)
        finally:
            self._running.discard(link.id)
