"""The state of the connections to the backend of one route, for operators, and the decision that a backend is lost.

A backend is lost if a connection over which it had sent something ended by itself, and no connection is established
when `reconnect_grace` has passed. Then a gateway with `--exit-on-backend-loss` ends. A backend that was never reached
may still start, so it is not lost. A backend that is not dialled, because no session needs it, is probed before it
counts as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

LOOK = 0.25  # seconds between two looks: well below `reconnect_grace`


class BackendStatus(Struct, kw_only=True):
    """Numbers of connections to a backend, and why the last one failed. Each connection counts itself here."""

    wanted: int = 0
    """Connections that are established, or that are tried until they are."""
    connected: int = 0
    """Established connections."""
    heard: int = 0
    """Established connections over which the backend has sent something."""
    attempts: int = 0
    """Attempts to connect since the start."""
    lost: int = 0
    """Failed attempts and lost connections since the start."""
    dropped: int = 0
    """Connections that the gateway did not close, lost after the backend had sent something."""
    fault: str = ""
    """The reason why the last connection failed or was lost; "" once the backend has sent something."""
    fault_at: int = 0
    """Time of that fault in nanoseconds since 1970."""

    def note_fault(self, text: str, now: int) -> None:
        self.lost += 1
        self.fault, self.fault_at = text, now

    def note_heard(self) -> None:
        """Note the first good frame of a connection."""
        self.heard += 1
        self.fault = ""


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

    def note_reachable(self, name: str, now: float) -> None:
        """Note that this backend accepts connections. It is checked again after another `reconnect_grace`."""
        self._since[name] = now
