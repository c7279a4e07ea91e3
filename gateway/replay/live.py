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

from dragoman.gateway.ledger import Ledger
from dragoman.gateway.replay.lines import SAID_FOR_IT, Counted, uncounted
from dragoman.gateway.timers import Later, Timer
from dragoman.gateway.upstream import Backend, Connected
from dragoman.mappings.canonical import Command, SessionState
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession, SubmitInput
from dragoman.mappings.canonical.events import Alert, HistorySnapshot, Reply, SessionOpened, StatusChanged, TurnEnded
from dragoman.mappings.canonical.values import Cause, Ext, Item, Message
from dragoman.mappings.dialect import Burst, Dialect, Loss, NewId

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
        self, session: Connected, dialect: Dialect, *, name: str, tells_model_turns: bool, ledger: Ledger,
        clock: Callable[[], int], new_id: NewId, later: Later,
    ) -> None:  # fmt: skip
        self._session = session
        self._dialect = dialect
        self._name = name
        self._drops = frozenset[type]() if tells_model_turns else SAID_FOR_IT
        self._ledger = ledger
        self._clock = clock
        self._new_id = new_id
        self._later = later
        self._ids: Ext | None = None
        self._asked: Command | None = None  # by us, on its way to the history
        self._history: list[Item] = []
        self._held: list[Command] = []
        self._timer: Timer | None = None
        self._waiting: set[str] = set()  # requests without an answer
        self._input = ""  # that of the last input
        self.running = False

    # -- what the session asks ---------------------------------------------------------------------------

    def send(self, commands: Sequence[Command]) -> None:
        """Ask it this, once it has what it is given of the history."""
        if self._asked is not None:
            room = HELD_MAX - len(self._held)
            self._held += commands[:room]
            if commands[room:]:
                self._session.lost("too many commands wait for the live backend", commands[room:], "busy")
            return
        for command in commands:
            if isinstance(command, SubmitInput):
                self.running, self._input = True, command.request
        self._waiting.update(command.request for command in commands if command.request)
        self.backend.send(commands)

    def stop(self) -> None:
        """The session ends."""
        self._rung()
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
            self._history = list(items)
            self._timer = self._later(PATIENCE, lambda: self._given("it did not take it in time"))
            self._ask(structs.replace(self._session.connected().opening or OpenSession(), request=self._new_id()))

    # -- what it says --------------------------------------------------------------------------------------

    def connected(self) -> SessionState:
        return structs.replace(self._session.connected(), backend_ids=self._ids)

    def receive(self, bursts: list[Burst]) -> None:
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
        if request and self._asked is not None and request == self._asked.request:
            self._answered(item)
            return False
        if isinstance(item, HistorySnapshot) and not request:
            self._lose(item, "the history of the live backend alone")
            return False
        if isinstance(item, Reply) and item.failure is not None and request == self._input:
            self.running = False  # it was refused
        return not isinstance(item, SessionOpened) and type(item) not in self._drops

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> None:
        unsent = [command for command in unsent if self._asked is None or command.request != self._asked.request]
        held = self._held
        concerned = self.running or bool(self._waiting) or bool(unsent) or bool(held)
        self.running, self._asked, self._held = False, None, []
        self._waiting.clear()
        self._rung()
        if concerned:
            self._session.lost(text, [*unsent, *held], cause)
        else:
            log.debug("live backend lost", cause=text)  # what is replayed goes on; its upstream logs it once

    # -- the history -----------------------------------------------------------------------------------------

    def _ask(self, command: Command) -> None:
        self._asked = command
        self.backend.send([command])

    def _answered(self, event: Any) -> None:
        opened = isinstance(event, SessionOpened)
        takes = self._dialect.takes_history
        if opened and isinstance(self._asked, OpenSession) and takes is not None:
            again = ResumeSession(request=self._new_id(), session=event.session, ext=takes(self._history))
            self._ask(again)
            return
        refused = event.failure.text if isinstance(event, Reply) and event.failure is not None else "it did not answer"
        self._given("" if opened else refused)

    def _given(self, refusal: str) -> None:
        self._rung()
        held, self._held, self._asked = self._held, [], None
        count = len(self._history)
        if refusal:
            self._tell(f"the live backend goes on without the {count} messages before: {refusal}")
        else:
            log.info("the live backend goes on", backend=self._name, messages=count)
        if held:
            self.send(held)

    def _tell(self, text: str) -> None:
        log.warning(text)
        alert = Alert(level="warn", source="gateway", text=text, at=self._clock())
        self._session.receive([Burst(items=[alert])])

    def _rung(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _lose(self, item: Any, why: str) -> None:
        loss = Loss(kind=type(item).__name__, why=why)
        self._ledger.record([loss], session=self._session.connected().id, source=self._dialect.name)


def _on(item: Any) -> Any:
    """It counts its model turns from its own beginning, which is none of the session."""
    return uncounted(item) if isinstance(item, Counted) else item
