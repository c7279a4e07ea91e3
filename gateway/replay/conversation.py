"""One conversation of a backend whose connections carry many (design.md, section 5: pando), for one session alone.

It stands before a connection of the session's own, where routing/shared.py stands before one that all sessions of a
route have. The first command opens a conversation there, which is none of those that the backend has: nobody else's is
touched, and what the connection tells of them is not the session's. Every command names it as the backend does. When
the backend turns out not to have it any more that is said, and the next command opens another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from gateway.ledger import Ledger
from gateway.upstream import Connected, Upstream
from mappings.canonical import Command, Event, SessionState
from mappings.canonical.commands import GetSession, OpenSession
from mappings.canonical.events import (
    Gap,
    Heartbeat,
    Reply,
    SessionActivated,
    SessionClosed,
    SessionOpened,
    SessionsListed,
    SessionUpdated,
    StoreChanged,
)
from mappings.canonical.values import Cause, Ext
from mappings.dialect import Burst, Dialect, Loss, NewId

__all__ = ["Conversation"]

OF_THE_LIST = (SessionActivated, SessionUpdated, Heartbeat, StoreChanged)
"""How the backend lists it, and what the connection itself watches for: the session is listed by the gateway."""

GONE = "the backend does not have the conversation any more"


class Conversation:
    """The way of `session` to it: a Backend. `upstream` is set before anything is asked."""

    upstream: Upstream

    def __init__(self, session: Connected, dialect: Dialect, *, ledger: Ledger, new_id: NewId) -> None:
        self._session = session
        self._dialect = dialect
        self._ledger = ledger
        self._new_id = new_id
        self._ids: Ext | None = None  # those of the backend, once it has opened it
        self._opening = ""  # our request for that
        self._doubt = ""  # our request whether it still has it
        self._held: list[Command] = []  # until it is open; bounded by what a session may have under way

    # -- what the session asks ---------------------------------------------------------------------------

    def start(self) -> None:
        self.upstream.start()

    def send(self, commands: Sequence[Command]) -> None:
        if self._ids is not None:
            self.upstream.send([structs.replace(command, session=self._name) for command in commands])
            return
        self._held += commands
        if not self._opening:
            self._opening = self._new_id()
            self.upstream.send([OpenSession(request=self._opening, title=self._session.connected().title)])

    def rest(self) -> None:
        self.upstream.rest()

    def stop(self) -> None:
        self.upstream.stop()

    def is_called(self, name: str) -> bool:
        """Whether the backend means it by this name."""
        return name == self._name

    @property
    def _name(self) -> str:
        """What the backend calls it; "" before it is open."""
        return self._dialect.shown("", self._ids)[0]

    # -- what the backend says ---------------------------------------------------------------------------

    def connected(self) -> SessionState:
        return structs.replace(self._session.connected(), backend_ids=self._ids)

    def receive(self, bursts: list[Burst]) -> None:
        for burst in bursts:
            if burst.request and burst.request == self._opening:
                self._opened(burst)
            elif burst.request and burst.request == self._doubt:
                self._checked(burst)
            elif not burst.session:
                self._aside(burst.items)
            elif self.is_called(burst.session):
                self._told(burst)

    def _opened(self, answer: Burst) -> None:
        """The backend opened it, or will not."""
        self._opening = ""
        held, self._held = self._held, []
        for item in answer.items:
            if isinstance(item, SessionOpened):
                self._ids = item.ext
                self.upstream.attach(self.connected())
                self.send(held)
            elif isinstance(item, Reply):
                refusals = [Reply(request=command.request, failure=item.failure) for command in held]
                self._session.receive([structs.replace(answer, items=refusals)])

    def _told(self, burst: Burst) -> None:
        items = [item for item in burst.items if not isinstance(item, (*OF_THE_LIST, SessionClosed))]
        if items:
            self._session.receive([structs.replace(burst, items=items)])
        if any(isinstance(item, SessionClosed) for item in burst.items):
            self._gone()

    def _aside(self, items: Sequence[Any]) -> None:
        """What belongs to no conversation. A list does not have every one that there is (pando sheet, section 6)."""
        for item in items:
            if isinstance(item, SessionsListed):
                if self._ids is not None and self._name not in [row.session for row in item.sessions]:
                    self._doubt = self._new_id()
                    self.upstream.send([GetSession(request=self._doubt, session=self._name)])
            elif not isinstance(item, OF_THE_LIST):
                self._ledger.record([Loss(kind=type(item).__name__, why="of the backend, and of no session")])

    def _checked(self, answer: Burst) -> None:
        """The answer to whether the backend still has it."""
        self._doubt = ""
        failures = [item.failure for item in answer.items if isinstance(item, Reply)]
        if any(failure is not None and failure.cause == "not_found" for failure in failures):
            self._gone()

    def _gone(self) -> None:
        self._ids = None
        self._session.lost(GONE, [])
        gap: list[Event] = [Gap(text=f"{GONE}: what is said next begins another, which knows nothing of it")]
        self._session.receive([Burst(items=gap)])

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> None:
        ours = (self._opening, self._doubt)
        unsent = [command for command in unsent if command.request not in ours]
        held, self._held = self._held, []
        self._opening = self._doubt = ""
        self._session.lost(text, [*unsent, *held], cause)
