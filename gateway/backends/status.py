"""The state of the connections to the backend of one route, as operators are told it."""

from __future__ import annotations

from msgspec import Struct


class BackendStatus(Struct, kw_only=True):
    """Numbers of connections to a backend, and why the last one failed. Each connection counts itself here."""

    wanted: int = 0
    """Connections that are made, or are tried again and again until they are."""
    connected: int = 0
    """Connections that stand."""
    heard: int = 0
    """Connections that stand and over which the backend has said something."""
    attempts: int = 0
    """Attempts to connect since the start."""
    lost: int = 0
    """Failed attempts and lost connections since the start."""
    dropped: int = 0
    """Connections that ended by themselves after the backend had said something."""
    fault: str = ""
    """Why the last connection failed or was lost; "" once the backend has said something."""
    fault_at: int = 0
    """Time of that fault in nanoseconds since 1970."""

    def note_fault(self, text: str, now: int) -> None:
        """Note that an attempt failed, or that a connection was lost."""
        self.lost += 1
        self.fault, self.fault_at = text, now

    def note_heard(self) -> None:
        """Note the first good frame of a connection."""
        self.heard += 1
        self.fault = ""
