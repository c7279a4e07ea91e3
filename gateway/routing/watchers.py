"""The watchers of a route: functions that are called with each session that is new, has changed or is over."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.session.session import Session


class Watchers:
    """The functions that want to know of changes."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[Session], None]] = []

    def add(self, watcher: Callable[[Session], None]) -> None:
        """Call `watcher` with each session that is new, has changed or is over."""
        self._watchers.append(watcher)

    def tell(self, session: Session) -> None:
        """Tell the watchers that a session is new, has changed or is over."""
        for watcher in self._watchers:
            watcher(session)
