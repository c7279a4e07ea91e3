"""The children of all routes, of which one is ended when a session needs a further one than `children` allows.

A child may be ended if its session loses nothing: it waits for no answer, and another child will know its thread as
well. Of those children the one is ended whose session has been idle for longest. Its session starts another child when
a command needs it, with the thread of the first one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Protocol

import structlog

from dragoman.mappings.canonical import SessionState

log = structlog.get_logger("dragoman.upstream")


class ChildConnection(Protocol):
    """The connection of a session to a child."""

    @property
    def is_spare(self) -> bool:
        """True if the session loses nothing when its child ends."""

    @property
    def state(self) -> SessionState:
        """The state of the session."""

    def rest(self) -> None:
        """Close the connection until a command needs it."""


class SpareChildren:
    """The connections to the children that run now."""

    def __init__(self) -> None:
        self._ended: dict[ChildConnection, asyncio.Event] = {}  # connection -> set once its child has ended

    @contextlib.contextmanager
    def holding(self, connection: ChildConnection) -> Iterator[None]:
        """Count a connection, in this context, among those whose child runs."""
        ended = self._ended[connection] = asyncio.Event()
        try:
            yield
        finally:
            del self._ended[connection]
            ended.set()

    async def end_one(self) -> bool:
        """End the spare child that has been idle for longest; return False if every child is needed."""
        spare = [connection for connection in self._ended if connection.is_spare]
        if not spare:
            return False
        idle = min(spare, key=lambda connection: connection.state.updated_at)
        log.info("idle child ended, because another session needs one", session=idle.state.id)
        ended = self._ended[idle]
        idle.rest()
        await ended.wait()
        return True
