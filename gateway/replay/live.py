"""A live backend behind a replay: of what the recording has not, or of everything past its end.

The session is one conversation to its clients; the live backend knows only what is said to it. So of what it tells
when it is connected to, its ids and its own history are kept from the session, which has the recorded one. Where it is
to go on with that history it is given it, as far as its dialect has a way; what it does not get is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog
from msgspec import structs

from dragoman.gateway.backends.asking import Asking, Script, TimedOut
from dragoman.gateway.replay.lines import SAID_FOR_IT, Counted, uncounted
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession, SubmitInput
from dragoman.mappings.canonical.events import Alert, HistorySnapshot, Reply, SessionOpened, StatusChanged, TurnEnded
from dragoman.mappings.canonical.values import Cause, Ext, Item, Message
from dragoman.mappings.dialect import Burst, Dialect, Loss

__all__ = ["Live"]

HELD_MAX = 64  # commands that wait while it is given the history: as many as wait for a connection
PATIENCE = 5.0  # seconds for that: a pod's parent waits as long for its run to begin (docs/dialects/pod.md, section 11)

log = structlog.get_logger("dragoman.replay")


class Live:
    """One session's live backend, of `dialect`; `backend` is set before anything is asked.

    `tells_model_turns` says that the session relies on its backends for them. `running` is that a turn of it is open.
    """

    backend: Backend

    def __init__(
        self, session: BackendEvents, dialect: Dialect, services: Services, *, name: str, tells_model_turns: bool
    ) -> None:
        self._session = session
        self._dialect = dialect
        self._name = name
        self._drops = frozenset[type]() if tells_model_turns else SAID_FOR_IT
        self._services = services
        self._asking: Asking[Command] = Asking(
            lambda command: self.backend.send([command]),
            self.send,
            lambda held, why: session.lost(why.text, held),
            services=services,
            bound=HELD_MAX,
        )
        self._ids: Ext | None = None
        self._waiting: set[str] = set()  # requests without an answer
        self._input = ""  # that of the last input
        self.running = False

    # -- what the session asks ---------------------------------------------------------------------------

    def send(self, commands: Sequence[Command]) -> None:
        """Ask it this, once it has what it is given of the history."""
        if self._asking.active:
            if excess := self._asking.hold(commands):
                self._session.lost("too many commands wait for the live backend", excess, "busy")
            return
        for command in commands:
            if isinstance(command, SubmitInput):
                self.running, self._input = True, command.request
        self._waiting.update(command.request for command in commands if command.request)
        if commands:
            self.backend.send(commands)

    def stop(self) -> None:
        """The session ends."""
        self._asking.stop()
        self.backend.stop()

    def take_over(self) -> None:
        """It goes on from here: give it what was said, or say that it does not get it."""
        items = [i for i in self._session.connected().transcript if isinstance(i, Message) and i.role != "system"]
        self.backend.start()
        if not items:
            log.info("the live backend goes on", backend=self._name)
        elif self._dialect.takes_history is None:
            self._tell(
                f"the live backend goes on without the {len(items)} messages before: its dialect takes no history"
            )
        else:
            self._asking.begin(self._give(items, self._dialect.takes_history), PATIENCE)

    # -- what it says --------------------------------------------------------------------------------------

    def connected(self) -> SessionState:
        return structs.replace(self._session.connected(), backend_ids=self._ids)

    def receive(self, bursts: list[Burst[Event]]) -> None:
        for burst in bursts:
            items = [_on(item) for item in burst.items if self._concerns(item)]
            if items:
                self._session.receive([structs.replace(burst, items=items)])

    def _concerns(self, item: Any) -> bool:
        """Whether the session hears of it."""
        request = getattr(item, "request", "")
        self._waiting.discard(request)
        if isinstance(item, TurnEnded) or (isinstance(item, StatusChanged) and item.status != "running"):
            self.running = False
        if isinstance(item, SessionOpened):
            self._ids = item.ext
        if self._asking.is_asked(request):
            self._asking.answer(item)
            return False
        if isinstance(item, HistorySnapshot) and not request:
            self._lose(item, "the history of the live backend alone")
            return False
        if isinstance(item, Reply) and item.failure is not None and request == self._input:
            self.running = False  # it was refused
        return not isinstance(item, SessionOpened) and type(item) not in self._drops

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> None:
        others, held = self._asking.lost(unsent)
        concerned = self.running or bool(self._waiting) or bool(others) or bool(held)
        self.running = False
        self._waiting.clear()
        if concerned:
            self._session.lost(text, [*others, *held], cause)
        else:
            log.debug("live backend lost", cause=text)  # what is replayed goes on; its upstream logs it once

    # -- the history -----------------------------------------------------------------------------------------

    def _give(self, items: Sequence[Item], takes: Callable[[Sequence[Item]], Ext | None]) -> Script:
        """Open a conversation, and give it the messages before."""
        try:
            answer = yield self._session.connected().opening or OpenSession()
            if isinstance(answer, SessionOpened):
                answer = yield ResumeSession(session=answer.session, ext=takes(items))
        except TimedOut:
            refusal = "it did not take it in time"
        else:
            refused = answer.failure if isinstance(answer, Reply) else None
            refusal = refused.text if refused is not None else "it did not answer"
            if isinstance(answer, SessionOpened):
                log.info("the live backend goes on", backend=self._name, messages=len(items))
                return
        self._tell(f"the live backend goes on without the {len(items)} messages before: {refusal}")

    def _tell(self, text: str) -> None:
        log.warning(text)
        alert = Alert(level="warn", source="gateway", text=text, at=self._services.clock())
        self._session.receive([Burst(items=[alert])])

    def _lose(self, item: Any, why: str) -> None:
        loss = Loss(kind=type(item).__name__, why=why)
        self._services.ledger.record([loss], session=self._session.connected().id, source=self._dialect.name)


def _on(item: Any) -> Any:
    """It counts its model turns from its own beginning, which is none of the session."""
    return uncounted(item) if isinstance(item, Counted) else item
