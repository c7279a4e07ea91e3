"""Find a backend that was there and is gone, for a gateway that shall end with it (`--exit-on-backend-loss`).

A backend is lost if a connection over which it had said something ended by itself, and no connection stands once
`reconnect_grace` is over. A backend that was never reached may still start, so it is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragoman.gateway.backends.status import BackendStatus

LOOK = 0.25  # seconds between two looks: well below `reconnect_grace`


class BackendLosses:
    """The backends that dropped a connection, and since when."""

    def __init__(self) -> None:
        self._dropped: dict[str, int] = {}
        self._since: dict[str, float] = {}

    def find_lost(
        self, backends: Mapping[str, BackendStatus], now: float, grace_of: Callable[[str], float]
    ) -> str | None:
        """Return the name of a route whose backend is lost, None if there is none.

        Times are in seconds; `grace_of` returns the `reconnect_grace` of a route.
        """
        for name, status in backends.items():
            if status.dropped > self._dropped.get(name, 0):
                self._since.setdefault(name, now)
            self._dropped[name] = status.dropped
            if status.heard:
                self._since.pop(name, None)
            elif not status.connected and now - self._since.get(name, now) >= grace_of(name):
                return name
        return None
