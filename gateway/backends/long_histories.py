"""Read the long histories that clients ask for, page by page: a backend returns at most PAGE messages at a time, newest
first (docs/dialects/smooth.md, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from msgspec import structs

from dragoman.adapters.base import do_nothing
from dragoman.gateway.backends.asking import Asking, Script
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.session.weight import of_item
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import GetHistory
from dragoman.mappings.canonical.events import HistorySnapshot
from dragoman.mappings.canonical.values import Item
from dragoman.mappings.dialect import Burst, Loss

PAGE = 100  # messages: the largest page that the schema of every server allows (docs/dialects/smooth.md, section 3)


class LongHistories:
    """The histories of more than PAGE messages that clients of one session have asked for."""

    def __init__(self, session: BackendEvents, services: Services) -> None:
        self._session = session
        self._services = services
        self.readings: dict[str, Asking[Command]] = {}
        """The histories that are read, by the request id of the client. Each page is asked for under the same id."""

    def read(self, command: GetHistory, send: Callable[[Sequence[Command]], None]) -> None:
        """Read a history from the backend of `send`, for as long as its client waits for an answer."""
        reading: Asking[Command] = Asking(
            lambda page: send([page]),
            do_nothing,
            lambda _held, _failure: self.readings.pop(command.request, None),
            services=self._services,
        )
        self.readings[command.request] = reading
        reading.begin(self._answer(command), self._services.limits.accept_deadline)

    def lost(self, unsent: Sequence[Command]) -> None:
        """Stop reading for these requests. Without requests, stop all: a new connection answers no old request."""
        for request in [command.request for command in unsent] or [*self.readings]:
            if request in self.readings:
                self.readings.pop(request).stop()

    def stop(self) -> None:
        self.lost([])

    def _answer(self, command: GetHistory) -> Script:
        items: list[Item] = []
        answer = yield from read_pages(command, items, self._services.limits.transcript_max)
        del self.readings[command.request]
        if isinstance(answer, HistorySnapshot):
            if answer.next_cursor and len(items) < command.limit:
                count_loss(self._services, self._session, "older than the part of a history that is read")
            answer = structs.replace(answer, items=tuple(items))
        self._session.receive([Burst(items=[answer])])


def read_pages(command: GetHistory, items: list[Item], most: int) -> Generator[Command, Any, Any]:
    """Add pages to `items` up to `command.limit` messages or a weight of `most`; return the last answer."""
    weight, cursor = 0, command.cursor
    while True:
        page = yield structs.replace(command, limit=min(PAGE, command.limit - len(items)), cursor=cursor)
        if not isinstance(page, HistorySnapshot):
            return page
        items += page.items
        weight += sum(map(of_item, page.items))
        cursor = page.next_cursor or ""
        complete = not cursor or not page.items or len(items) >= command.limit
        if complete or weight > most:
            return page


def count_loss(services: Services, session: BackendEvents, why: str) -> None:
    """Count messages of a history that are not read."""
    loss = Loss(kind="HistorySnapshot", field="items", why=why)
    services.ledger.record([loss], session=session.state.id)
