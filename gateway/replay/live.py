"""A live backend behind a recording: for commands that are not in it (spy), or for everything after its end (fork).

To its clients the session is one conversation; the live backend knows only the commands that it gets itself. The
session has the recorded ids and history, so it is not told those of the live backend. After a fork the live backend
gets the history of the session, if its dialect can take one. If it does not get it, an alert says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog
from msgspec import structs

from dragoman.gateway.backends.asking import AskingBackend, Script, TimedOut
from dragoman.gateway.replay.backend import ReplayBackend
from dragoman.gateway.replay.matching import MatchReport, Reporter, named
from dragoman.gateway.replay.plan import ANSWERED_LOCALLY
from dragoman.gateway.replay.replayed_events import ADDED_BY_SESSION, Counted, uncounted
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.mappings.canonical import Command, Event, SessionState, commands, events
from dragoman.mappings.canonical.values import Cause, Ext, Item, Message
from dragoman.mappings.dialect import Burst, Dialect, Loss

PATIENCE = 5.0  # seconds for the history; a pod's parent waits as long for its run (docs/dialects/pod.md, section 11)

log = structlog.get_logger("dragoman.replay")


class LiveBackend(AskingBackend):
    """The live backend of one session, in `dialect`, which `connect` makes.

    `sends_model_turns` is true if the session relies on its backends for model turns. `running` is true while a turn of
    the live backend is open.
    """

    def __init__(
        self,
        session: BackendEvents,
        dialect: Dialect,
        services: Services,
        connect: Callable[[BackendEvents], Backend],
        *,
        name: str,
        sends_model_turns: bool,
    ) -> None:
        self._dialect = dialect
        self._name = name
        self._left_out = frozenset[type]() if sends_model_turns else ADDED_BY_SESSION
        self._services = services
        self._ids: Ext | None = None
        self._unanswered: set[str] = set()  # requests
        self._input = ""  # request of the last input
        self.running = False
        super().__init__(session, services, connect)

    # -- from the session --------------------------------------------------------------------------------

    def send(self, items: Sequence[Command]) -> None:
        """Send commands to the live backend, or hold them until it has the history."""
        if self._asking.active:
            self._hold(items)
            return
        for command in items:
            if isinstance(command, commands.SubmitInput):
                self.running, self._input = True, command.request
        self._unanswered.update(command.request for command in items if command.request)
        if items:
            self._backend.send(items)

    def take_over(self) -> None:
        """Continue the session with the live backend.

        Send it the history, or show clients an alert if that is not possible.
        """
        items = [i for i in self._session.state.transcript if isinstance(i, Message) and i.role != "system"]
        self._backend.start()
        if not items:
            log.info("the live backend continues the session", backend=self._name)
        elif self._dialect.takes_history is None:
            self._alert(
                f"the live backend continues without the {len(items)} messages before: its dialect takes no history"
            )
        else:
            self._asking.begin(self._give_history(items, self._dialect.takes_history), PATIENCE)

    # -- from the live backend --------------------------------------------------------------------------------------

    @property
    def state(self) -> SessionState:
        return structs.replace(self._session.state, backend_ids=self._ids)

    def connected(self) -> None:
        """Do nothing: the connection of a live backend reports no state to the session."""

    def receive(self, bursts: list[Burst[Event]]) -> None:
        for burst in bursts:
            # The live backend counts its model turns from its own beginning, so the session counts them again.
            kept = [item for item in burst.items if self._is_for_session(item)]
            items = [uncounted(item) if isinstance(item, Counted) else item for item in kept]
            if items:
                self._session.receive([structs.replace(burst, items=items)])

    def _is_for_session(self, item: Any) -> bool:
        """Update the state of the live backend from an event; return True if the session must get the event."""
        request = getattr(item, "request", "")
        self._unanswered.discard(request)
        if isinstance(item, events.TurnEnded) or (isinstance(item, events.StatusChanged) and item.status != "running"):
            self.running = False
        if isinstance(item, events.SessionOpened):
            self._ids = item.ext
        if self._asking.is_asked(request):
            self._asking.answer(item)
            return False
        if isinstance(item, events.HistorySnapshot) and not request:
            loss = Loss(kind=type(item).__name__, why="the history of the live backend alone")
            self._services.ledger.record([loss], session=self._session.state.id, source=self._dialect.name)
            return False
        if isinstance(item, events.Reply) and item.failure is not None and request == self._input:
            self.running = False  # the input was refused
        return not isinstance(item, events.SessionOpened) and type(item) not in self._left_out

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        others, held = self._asking.lost(unsent)
        concerned = self.running or bool(self._unanswered) or bool(others) or bool(held)
        self.running = False
        self._unanswered.clear()
        if concerned:
            self._session.lost(text, [*others, *held], cause)
        else:
            log.debug("live backend lost", cause=text)  # the replay goes on; the upstream logs the loss once
        return False

    # -- the history -----------------------------------------------------------------------------------------

    def _give_history(self, items: Sequence[Item], takes: Callable[[Sequence[Item]], Ext | None]) -> Script:
        """Open a conversation at the live backend with the messages of the session."""
        try:
            opening = self._session.state.opening or commands.OpenSession()
            answer = yield structs.replace(opening, request="")
            if isinstance(answer, events.SessionOpened):
                answer = yield commands.ResumeSession(session=answer.session, ext=takes(items))
        except TimedOut:
            refusal = "the backend did not take the history in time"
        else:
            refused = answer.failure if isinstance(answer, events.Reply) else None
            refusal = refused.text if refused is not None else "the backend did not answer"
            if isinstance(answer, events.SessionOpened):
                log.info("the live backend continues the session", backend=self._name, messages=len(items))
                return
        self._alert(f"the live backend continues without the {len(items)} messages before: {refusal}")

    def _alert(self, text: str) -> None:
        log.warning(text)
        alert = events.Alert(level="warn", source="gateway", text=text, at=self._services.clock())
        self._session.receive([Burst(items=[alert])])


class LiveFallback:
    """The backend of one session that has a recording and a live backend.

    With `spy` the live backend gets the commands that are not in the recording. Without it the live backend gets all
    commands after the end of the recording.
    """

    def __init__(self, replay: ReplayBackend, live: LiveBackend, reporter: Reporter, *, spy: bool) -> None:
        self._replay = replay
        self._live = live
        self._reporter = reporter
        self._replay_over = False
        if spy:
            replay.pass_unrecorded_to(self._pass_on)
        else:
            replay.call_at_end(self._hand_over)

    def start(self) -> None:
        self._replay.start()

    def send(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if not isinstance(command, ANSWERED_LOCALLY) and (self._replay_over or self._live.running):
                self._pass_on(command)
            else:
                self._replay.send([command])

    def suspend(self) -> bool:
        return False  # the connection is kept: the live backend knows this conversation only through it

    def stop(self) -> None:
        self._replay.stop()
        self._live.stop()

    def _pass_on(self, command: Command) -> None:
        self._reporter.report(MatchReport(words=named(command), outcome="passed_on"))
        self._live.send([command])

    def _hand_over(self) -> None:
        if not self._replay_over:
            self._replay_over = True
            self._live.take_over()
