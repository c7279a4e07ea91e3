"""The rules of who may see, open and answer a session of a route (docs/design.md, section 5, "Identity").

A session belongs to the principal that opened it; the owner "" means nobody yet. A principal that may not see a session
is answered as if the session did not exist.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.config.model import RouteOptions
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Dialect


class Policy:
    """The rules of one route; `upstream` is the dialect of its backends."""

    def __init__(self, route: RouteOptions, upstream: Dialect) -> None:
        self._upstream = upstream
        self._options: tuple[str, ...] = ()
        self._watchers: list[Callable[[], None]] = []
        self.change_route(route)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when a reload has changed a rule."""
        self._watchers.append(watcher)

    def change_route(self, route: RouteOptions) -> None:
        """Apply the options of a route from now on, also to sessions that are open."""
        before, self._options = self._options, (route.share, route.open)
        self.shared = route.share != "owner"
        self._open_to_all = self._upstream.single_session and route.open == "attach"
        self.sees_all = self.shared or self._open_to_all
        """True if each principal sees every session."""
        if self._options != before:
            for watcher in self._watchers:
                watcher()

    def sees(self, principal: str, state: SessionState) -> bool:
        """Return True if the principal is told of the session, and may attach to it and answer its questions."""
        return self.sees_all or self.opens(principal, state)

    def publishes(self, state: SessionState) -> bool:
        """Return True if every subscriber is told of the session, once its backend has opened it.

        Nobody knows who the subscribers are. A backend that is one session is open from the beginning.
        """
        opened = self._upstream.single_session or state.backend_ids is not None
        return opened and self.sees("", state)

    def opens(self, principal: str, state: SessionState) -> bool:
        """Return True if the principal gets this session when it opens one and the backend has no other."""
        return self._open_to_all or state.owner in ("", principal)
