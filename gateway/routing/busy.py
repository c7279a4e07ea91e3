"""The sessions of a route that are busy: a turn is open, or an input waits to be accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from dragoman.gateway.session.session import Session


class BusySessions:
    """The busy sessions of a route, so that a gateway that stops asks no other."""

    def __init__(self) -> None:
        self._busy: set[Session] = set()
        self._awaited: set[Session] = set()
        self._finished = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._busy)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._busy)

    def note(self, session: Session, busy: bool) -> None:  # by position: it is an observer
        if busy:
            self._busy.add(session)
            return
        self._busy.discard(session)
        self._awaited.discard(session)
        if not self._awaited:
            self._finished.set()

    async def finish(self) -> None:
        """Return once each session that is busy now was not busy for a moment."""
        self._awaited = set(self._busy)
        self._finished.clear()
        if self._awaited:
            await self._finished.wait()
