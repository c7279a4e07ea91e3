"""One conversation of a backend whose connections carry many (docs/design.md, section 5: pando), for one session alone.

It stands before a connection of the session's own; gateway/backends/shared.py stands before one that all sessions of a
route have. The first command opens a conversation there, which is none of those that the backend has: nobody else's is
touched, and what the connection tells of them is not the session's. Every command names it as the backend does.

After a lost connection another backend may answer. So the first command asks whether it has the conversation, unless
its list tells so; when it has not, that is said, and the command opens another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from dragoman.gateway.backends.asking import Asking, Refused, Script
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import BackendEvents
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import GetSession, OpenSession
from dragoman.mappings.canonical.events import (
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
from dragoman.mappings.canonical.values import Cause, Ext, Failure
from dragoman.mappings.dialect import Burst, Dialect, Loss

__all__ = ["GONE", "PrivateConversation"]

HELD_MAX = 1024  # commands that wait until it is open: each has a deadline of its own

OF_THE_LIST = (SessionActivated, SessionUpdated, Heartbeat, StoreChanged)
"""How the backend lists it, and what the connection itself watches for: the session is listed by the gateway."""

GONE = "the backend does not have the conversation any more"


class PrivateConversation:
    """The way of `session` to it: a Backend. `upstream` is set before anything is asked."""

    upstream: Upstream

    def __init__(self, session: BackendEvents, dialect: Dialect, services: Services) -> None:
        self._session = session
        self._dialect = dialect
        self._ledger = services.ledger
        self._ids: Ext | None = None  # those of the backend, once it has opened it
        self._sure = False  # that the backend has it
        self._asking: Asking[Command] = Asking(
            lambda command: self.upstream.send([command]),
            self.send,
            self._refuse,
            services=services,
            bound=HELD_MAX,
        )

    # -- what the session asks ---------------------------------------------------------------------------

    def start(self) -> None:
        self.upstream.start()

    def send(self, commands: Sequence[Command]) -> None:
        if self._sure and not self._asking.active:
            self.upstream.send([structs.replace(command, session=self._name) for command in commands])
            return
        if excess := self._asking.hold(commands):
            self._session.lost("too many commands wait for the conversation", excess, "busy")
        if not self._asking.active:
            self._asking.begin(self._make_sure())

    def rest(self) -> None:
        self.upstream.rest()

    def stop(self) -> None:
        self._asking.stop()
        self.upstream.stop()

    def is_called(self, name: str) -> bool:
        """Whether the backend means it by this name."""
        return name == self._name

    @property
    def _name(self) -> str:
        """What the backend calls it; "" before it is open."""
        return self._dialect.public_ids("", self._ids)[0]

    def _make_sure(self) -> Script:
        """Have the backend open it, or say whether it still has it."""
        if self._ids is not None:
            answer = yield GetSession(session=self._name)
            failure = next((item.failure for item in answer if isinstance(item, Reply)), None)
            self._sure = failure is None or failure.cause != "not_found"  # or it says no to each command by itself
            if not self._sure:
                self._gone()
            return
        answer = yield OpenSession(title=self._session.connected().title)
        opened = next((item for item in answer if isinstance(item, SessionOpened)), None)
        if opened is None:
            failure = next((item.failure for item in answer if isinstance(item, Reply)), None)
            raise Refused(failure or Failure(cause="internal", text="the backend did not say what it opened"))
        self._ids, self._sure = opened.ext, True
        self.upstream.attach(self.connected())

    def _refuse(self, held: list[Command], failure: Failure) -> None:
        self._session.receive([Burst(items=[Reply(request=c.request, failure=failure) for c in held])])

    # -- what the backend says ---------------------------------------------------------------------------

    def connected(self) -> SessionState:
        return structs.replace(self._session.connected(), backend_ids=self._ids)

    def receive(self, bursts: list[Burst[Event]]) -> None:
        for burst in bursts:
            if self._asking.is_asked(burst.request):
                self._asking.answer(burst.items)
            elif not burst.session:
                self._aside(burst.items)
            elif self.is_called(burst.session):
                self._told(burst)

    def _told(self, burst: Burst[Event]) -> None:
        items = [item for item in burst.items if not isinstance(item, (*OF_THE_LIST, SessionClosed))]
        if items:
            self._session.receive([structs.replace(burst, items=items)])
        if any(isinstance(item, SessionClosed) for item in burst.items):
            self._session.lost(GONE, self._asking.lost([])[1])
            self._gone()

    def _aside(self, items: Sequence[Any]) -> None:
        """What belongs to no conversation. A list does not have every one that there is
        (docs/dialects/pando.md, section 6).
        """
        for item in items:
            if isinstance(item, SessionsListed):
                if self._ids is not None and not self._asking.active:
                    self._sure = self._name in [row.session for row in item.sessions]
                    if not self._sure:
                        self._asking.begin(self._make_sure())
            elif not isinstance(item, OF_THE_LIST):
                self._ledger.record([Loss(kind=type(item).__name__, why="of the backend, and of no session")])

    def _gone(self) -> None:
        self._ids, self._sure = None, False
        gap = Gap(text=f"{GONE}: what is said next begins another, which knows nothing of it")
        self._session.receive([Burst(items=[gap])])

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> None:
        self._sure = False
        others, held = self._asking.lost(unsent)
        self._session.lost(text, [*others, *held], cause)
