"""A backend of one session, as one conversation of a backend whose connections carry many (docs/design.md, section 5).

The session has a connection of its own. In contrast, gateway/backends/shared.py serves all sessions of a route over one
connection. This class opens a new conversation at the backend with the first command, and every command names that
conversation. The other conversations of the backend are neither touched nor shown to the session.

After a lost connection another backend may answer. So the next command first asks whether the backend has the
conversation, unless the backend's list says so. If it does not, the session is told, and a new one is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from dragoman.adapters.base import Sink, Transport
from dragoman.adapters.wrapped import WrappedTransport
from dragoman.gateway.backends.asking import AskingBackend, Script, failure_in, opened_in, refusals
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import BackendEvents
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import GetSession, OpenSession
from dragoman.mappings.canonical.events import (
    Gap,
    Heartbeat,
    SessionActivated,
    SessionClosed,
    SessionsListed,
    SessionUpdated,
    StoreChanged,
)
from dragoman.mappings.canonical.values import Cause, Ext, Failure
from dragoman.mappings.dialect import Burst, Dialect, Frame, Loss, Step

OF_THE_LIST = (SessionActivated, SessionUpdated, Heartbeat, StoreChanged)
"""Events about the backend's list of conversations, and about the connection; the gateway lists the session itself."""

GONE = "the backend does not have the conversation any more"


class PrivateConversation(AskingBackend):
    """The backend of `session`: one conversation behind the connection that `dial` makes."""

    def __init__(
        self,
        session: BackendEvents,
        dialect: Dialect,
        services: Services,
        dial: Callable[[PrivateConversation], Upstream],
    ) -> None:
        self._dialect = dialect
        self._ledger = services.ledger
        self._ids: Ext | None = None  # the backend's ids of the conversation
        self._exists = False  # True if the backend is known to have the conversation
        super().__init__(session, services, lambda _events: self._dial(dial))

    def _dial(self, dial: Callable[[PrivateConversation], Upstream]) -> Upstream:
        self._upstream = dial(self)
        return self._upstream

    # -- from the session --------------------------------------------------------------------------------

    def send(self, commands: Sequence[Command]) -> None:
        if self._exists and not self._asking.active:
            self._upstream.send([structs.replace(command, session=self._name) for command in commands])
            return
        self._hold(commands)
        if not self._asking.active:
            self._asking.begin(self._find_or_open())

    def is_called(self, name: str) -> bool:
        """Return True if this is the backend's name of the conversation."""
        return name == self._name

    @property
    def _name(self) -> str:
        """The backend's name of the conversation; "" before it is open."""
        return self._dialect.public_ids("", self._ids)[0]

    def _find_or_open(self) -> Script:
        """Ask whether the backend still has the conversation; if none was opened yet, open one."""
        if self._ids is not None:
            answer = yield GetSession(session=self._name)
            failure = failure_in(answer)
            # After another failure the backend refuses each command itself.
            self._exists = failure is None or failure.cause != "not_found"
            if not self._exists:
                self._forget()
            return
        answer = yield OpenSession(title=self._session.connected().title)
        opened = opened_in(answer)
        self._ids, self._exists = opened.ext, True
        self._upstream.attach(self.connected())

    def _refuse(self, held: list[Command], failure: Failure) -> None:
        self._session.receive(refusals(held, failure))

    # -- from the backend --------------------------------------------------------------------------------

    def connected(self) -> SessionState:
        return structs.replace(self._session.connected(), backend_ids=self._ids)

    def receive(self, bursts: list[Burst[Event]]) -> None:
        for burst in bursts:
            if self._asking.is_asked(burst.request):
                self._asking.answer(burst.items)
            elif not burst.session:
                self._take_unaddressed(burst.items)
            elif self.is_called(burst.session):
                self._take_addressed(burst)

    def _take_addressed(self, burst: Burst[Event]) -> None:
        items = [item for item in burst.items if not isinstance(item, (*OF_THE_LIST, SessionClosed))]
        if items:
            self._session.receive([structs.replace(burst, items=items)])
        if any(isinstance(item, SessionClosed) for item in burst.items):
            self._session.lost(GONE, self._asking.lost([])[1])
            self._forget()

    def _take_unaddressed(self, items: Sequence[Any]) -> None:
        """Take events of no conversation. A list may lack conversations (docs/dialects/pando.md, section 6)."""
        for item in items:
            if isinstance(item, SessionsListed):
                if self._ids is not None and not self._asking.active:
                    self._exists = self._name in [row.session for row in item.sessions]
                    if not self._exists:
                        self._asking.begin(self._find_or_open())
            elif not isinstance(item, OF_THE_LIST):
                self._ledger.record([Loss(kind=type(item).__name__, why="it belongs to no session of the backend")])

    def _forget(self) -> None:
        self._ids, self._exists = None, False
        gap = Gap(text=f"{GONE}: the next input begins a new one, which does not know the old one")
        self._session.receive([Burst(items=[gap])])

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        self._exists = False
        return super().lost(text, unsent, cause)


class SessionFilter(WrappedTransport):
    """A transport of `dialect` without the frames that name a session for which `ours` is false."""

    def __init__(self, transport: Transport, dialect: Dialect, ours: Callable[[str], bool]) -> None:
        super().__init__(transport)
        self.send, self.try_send = transport.send, transport.try_send
        self._dialect, self._ours = dialect, ours

    async def run(self, sink: Sink) -> None:
        def hear(frames: Sequence[Frame]) -> int:
            kept = [number for number, frame in enumerate(frames) if all(map(self._ours, self._named(frame)))]
            taken = sink([frames[number] for number in kept]) if kept else 0
            return kept[taken] if taken < len(kept) else len(frames)

        await self._transport.run(hear)

    def _named(self, frame: Frame) -> list[str]:
        """Return the sessions that a frame names; none for an invalid frame, which its translator reports."""
        step: Step[Event] = Step()
        self._dialect.events.receive((frame,), step)
        return [burst.session for burst in step.bursts if burst.session]
