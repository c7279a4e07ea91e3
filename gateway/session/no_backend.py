"""The backend of a session that has ended.

A session and its backend know each other. A stopped session takes this backend in place of its own, so that both are
freed at once, and not by a later run of the garbage collector.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.mappings.canonical import Command


class NoBackend:
    """A backend that does nothing."""

    def start(self) -> None:
        """Do nothing."""

    def send(self, commands: Sequence[Command]) -> None:
        """Drop the commands: the session has failed all that waited, and takes no more."""

    def rest(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


NO_BACKEND = NoBackend()
