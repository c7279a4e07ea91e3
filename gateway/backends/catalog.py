"""The list of conversations that a backend stores, also of those that are no session of the gateway.

A BackendCatalog is a proxy between the control session and its backend, because a list belongs to no client's session
(docs/design.md, section 6). It asks for the store with each list, and remembers the names that the list gave. A backend
that has no list adds nothing to the sessions that live here. One that is late adds the rows of its last list, because a
codewhale 0.10.2 lists nothing while a turn runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from msgspec import json, structs

from dragoman.gateway.backends.asking import Asking, RelayedBackend, Script, TimedOut
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.session_index import Rows
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import Cause, SessionSummary
from dragoman.mappings.dialect import Burst, Loss

# rows that are asked for: the largest page of servers (docs/dialects/smooth.md, section 3: list_conversations)
STORED_MAX = 200
ROWS_MAX = 1_000  # rows that are read if a backend sends more than it is asked for: 20 to 40 us each, in one step
# Lists that wait for one answer; a further one shows only the sessions that live here. A page asks once in a while, so
# so many are a flood, and each holds its command.
WAITING_MAX = 1024
NAMES_MAX = 10_000  # remembered names, of some 1,000 conversations; the oldest is forgotten first
ROW_MAX = 16 * 1024  # bytes of a row as JSON that is remembered: real ones have some hundred

SendRows = Callable[[Rows], None]


class BackendCatalog(RelayedBackend):
    """The backend of a control session, which lists its stored conversations."""

    def __init__(
        self, route: str, control: BackendEvents, services: Services, connect: Callable[[BackendEvents], Backend]
    ) -> None:
        self._route = route
        self._services = services
        self._lists = {archived: self._list_asking(archived) for archived in (False, True)}
        self._rows: dict[bool, Rows] = {}
        self._names: dict[str, SessionSummary] = {}
        super().__init__(control, connect)

    def _list_asking(self, archived: bool) -> Asking[SendRows]:
        """Return the request for a list, with or without archived conversations.

        All callers of `ask` share its answer.
        """
        return Asking(
            lambda command: self._backend.send([command]),
            lambda waiting: _send_to_all(waiting, self._rows.get(archived, ())),
            lambda waiting, _failure: _send_to_all(waiting, ()),
            services=self._services,
            bound=WAITING_MAX,
        )

    def ask(self, archived: bool, send_rows: SendRows) -> None:
        """Call `send_rows` with the rows of the backend's conversations, including those that are open here."""
        asking = self._lists[archived]
        if asking.hold([send_rows]):
            send_rows(())
        elif not asking.active:
            asking.begin(self._list(archived), self._services.limits.connect_deadline)

    def find_row(self, name: str) -> SessionSummary | None:
        """Return the row of the conversation that a list has shown to clients under this name."""
        return self._names.get(name)

    def stop(self) -> None:
        for asking in self._lists.values():
            asking.stop()
        super().stop()

    def receive(self, bursts: list[Burst[Event]]) -> None:
        for burst in bursts:
            others = [item for item in burst.items if not self._takes(item)]
            if others:
                self._session.receive([structs.replace(burst, items=others)])

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        """Ask once more for a list, over the next connection. Without a connection it is answered without the store."""
        others = [command for command in unsent if not isinstance(command, ListSessions)]
        if others or not unsent:
            self._session.lost(text, others, cause)  # first: a control session without a connection is suspended
        for asking in self._lists.values():
            if any(asking.is_asked(command.request) for command in unsent):
                _send_to_all(asking.lost([])[1], ())
            else:
                asking.answer(None)
        return False

    def _takes(self, item: Any) -> bool:
        for asking in self._lists.values():
            if asking.is_asked(getattr(item, "request", "")):
                asking.answer(item)
                return True
        return False

    def _list(self, archived: bool) -> Script:
        try:
            listed = yield ListSessions(limit=STORED_MAX, archived=archived)
            if listed is None:  # the connection was lost
                listed = yield ListSessions(limit=STORED_MAX, archived=archived)
        except TimedOut:
            self._lose("the backend did not return its list in time")
            return
        self._rows.pop(archived, None)
        if isinstance(listed, SessionsListed):
            self._rows[archived] = tuple(map(self._remembered, listed.sessions[:ROWS_MAX]))
            if len(listed.sessions) > ROWS_MAX:
                self._lose(f"after the first {ROWS_MAX:,} rows of a list", len(listed.sessions) - ROWS_MAX)
            if listed.next_cursor is not None:
                self._lose(f"older than the {STORED_MAX} conversations that a store is asked for")

    def _remembered(self, row: SessionSummary) -> SessionSummary:
        """Return a row under its canonical id, and remember it by every name that a client is shown for it.

        A row of more than ROW_MAX bytes is returned but not remembered, because the backend may send others without
        end.
        """
        known = structs.replace(row, session=canonical_id(self._route, row.session))
        if len(json.encode(row)) > ROW_MAX:
            return known
        shown = [dialect.public_ids(known.session, known.ext) for dialect in [*self._services.dialects().values()]]
        for name in chain(*shown, [known.session]):
            remember(self._names, name, row, NAMES_MAX)
        return known

    def _lose(self, why: str, count: int = 1) -> None:
        self._services.ledger.record([Loss(kind="SessionsListed", field="sessions", why=why, count=count)])


def _send_to_all(waiting: Sequence[SendRows], rows: Rows) -> None:
    for send_rows in waiting:
        send_rows(rows)
