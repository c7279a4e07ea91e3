"""The children of all routes, of which one is ended when a session needs a further one than `children` allows.

A child may be ended if its session loses nothing: it waits for no answer, and another child will know its thread as
well. The child whose session has been idle for longest is ended first. Its session starts another child when a command
needs it, with the thread of the first one.

Other children may depend on a child. It is needed while one of them has not answered a request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Protocol

import structlog
from msgspec import Struct, field

from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.dialect import Translator

log = structlog.get_logger("dragoman.upstream")


class ChildConnection(Protocol):
    """The connection of a session to a child."""

    @property
    def is_spare(self) -> bool:
        """True if the session loses nothing when its child ends."""

    @property
    def state(self) -> SessionState:
        """The state of the session."""

    def suspend(self) -> bool:
        """Close the connection until a command needs it; return True if it stays open."""


class RunningChild(Struct):
    """The child of one connection; `ended` is set once it has ended."""

    translator: Translator[Event, Command]
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class SpareChildren:
    """The connections to the children that run now."""

    def __init__(self) -> None:
        self._running: dict[ChildConnection, RunningChild] = {}

    @contextlib.contextmanager
    def holding(self, connection: ChildConnection, translator: Translator[Event, Command]) -> Iterator[None]:
        """Register a connection as one whose child runs, until the context ends."""
        child = self._running[connection] = RunningChild(translator)
        try:
            yield
        finally:
            del self._running[connection]
            child.ended.set()

    def is_needed(self, connection: ChildConnection) -> bool:
        """Return True if another child depends on the child of this connection and has not answered a request."""
        child = self._running.get(connection)
        serves = child is not None and child.translator.serves_others()
        return serves and any(other.translator.is_waiting() for other in self._running.values() if other is not child)

    async def end_one(self) -> bool:
        """End the spare child that has been idle for longest; return False if every child is needed."""
        spare = [connection for connection in self._running if connection.is_spare]
        if not spare:
            return False
        idle = min(spare, key=lambda connection: connection.state.updated_at)
        log.info("idle child ended, because another session needs one", session=idle.state.id)
        ended = self._running[idle].ended
        idle.suspend()
        await ended.wait()
        return True
