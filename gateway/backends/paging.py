"""Long histories, read page by page from a backend that gives at most PAGE messages at a time
(docs/dialects/smooth.md, section 5).

A client of another dialect asks for a whole history; its request is written as one for a page, and the next page is
asked for under the same request id until the history, or `transcript_max`, ends.

    session                 pager                          backend
    GetHistory(limit=n) ->  GetHistory(limit=100)      ->
                            GetHistory(cursor=...)     ->  <- HistorySnapshot(next_cursor=...)
    <- HistorySnapshot      every item of every page       <- HistorySnapshot(next_cursor=None)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from dragoman.gateway.backends.upstream import Backend, Connected
from dragoman.gateway.services import Services
from dragoman.gateway.session.weight import of_item
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import GetHistory
from dragoman.mappings.canonical.events import HistorySnapshot
from dragoman.mappings.canonical.values import Cause, Item
from dragoman.mappings.dialect import Burst, Loss

__all__ = ["PAGE", "Pager"]

PAGE = 100  # messages: the largest page that the schema of every server allows (docs/dialects/smooth.md, section 3)
READING_MAX = 256  # histories read at a time; the oldest, which its client waits for no more, is forgotten
ITEM_WEIGHT = 300  # bytes that a message costs beside its text: pages of empty messages end too


class Reading(Struct):
    """A history that is read, newest message first, and how many messages are still wanted."""

    command: GetHistory
    missing: int
    items: list[Item]
    weight: int = 0


class Pager:
    """A session's way to its backend; `backend` is set before anything is asked. It keeps at most `transcript_max`."""

    backend: Backend

    def __init__(self, session: Connected, services: Services) -> None:
        self._session = session
        self._ledger = services.ledger
        self._most = services.limits.transcript_max
        self._readings: dict[str, Reading] = {}

    # -- what the session asks -------------------------------------------------------------------------

    def start(self) -> None:
        self.backend.start()

    def send(self, commands: Sequence[Command]) -> None:
        self.backend.send([self._first_page(command) for command in commands])

    def rest(self) -> None:
        self._readings.clear()
        self.backend.rest()

    def stop(self) -> None:
        self._readings.clear()
        self.backend.stop()

    # -- what the backend says -------------------------------------------------------------------------

    def connected(self) -> SessionState:
        return self._session.connected()

    def receive(self, bursts: list[Burst[Event]]) -> None:
        if not self._readings:
            self._session.receive(bursts)
            return
        answers = [structs.replace(burst, items=self._take(burst.items)) for burst in bursts]
        told = [burst for burst in answers if burst.items]
        if told:
            self._session.receive(told)

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> None:
        """A history that was being read has no further pages; a new connection answers none of the old requests."""
        if not unsent:
            self._readings.clear()
        for command in unsent:
            self._readings.pop(command.request, None)
        self._session.lost(text, unsent, cause)

    # -- page by page ----------------------------------------------------------------------------------

    def _first_page(self, command: Command) -> Command:
        if not isinstance(command, GetHistory) or command.limit <= PAGE:
            return command
        if len(self._readings) >= READING_MAX:
            del self._readings[next(iter(self._readings))]
        self._readings[command.request] = Reading(command=command, missing=command.limit, items=[])
        return structs.replace(command, limit=PAGE)

    def _take(self, items: list[Any]) -> list[Any]:
        """Return `items` with each page of a history that goes on replaced by the whole one, once it is here."""
        left = []
        for item in items:
            reading = self._readings.get(getattr(item, "request", ""))
            if reading is None:
                left.append(item)
            elif not isinstance(item, HistorySnapshot):
                del self._readings[item.request]  # refused
                left.append(item)
            elif not self._goes_on(reading, item):
                del self._readings[item.request]
                left.append(structs.replace(item, items=tuple(reading.items)))
        return left

    def _goes_on(self, reading: Reading, page: HistorySnapshot) -> bool:
        """Keep a page and ask for the next one, if there is one that is wanted and that we keep."""
        reading.items += page.items
        reading.missing -= len(page.items)
        reading.weight += sum(of_item(item) + ITEM_WEIGHT for item in page.items)
        if not page.next_cursor or not page.items or reading.missing <= 0:
            return False
        if reading.weight > self._most:
            why = "older than the transcript_max that is read of a history"
            self._ledger.record([Loss(kind="HistorySnapshot", field="items", why=why)])
            return False
        limit = min(PAGE, reading.missing)
        self.backend.send([structs.replace(reading.command, limit=limit, cursor=page.next_cursor)])
        return True
