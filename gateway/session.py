"""A session: one conversation, with its state, its way to the backend and the commands that are under way.

Links attach to sessions; sessions own the way to their backend (design.md, section 5). Everything here is synchronous:
what the backend says comes in by `receive`, what clients ask by `command`, and both leave by `Delivery` or to one link.
The only timers are deadlines, and the scheduler for them is injected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import structlog
from msgspec import UNSET, Struct, structs

from adapters.base import CloseReason
from gateway.answers import ADDRESSED, answers_one
from gateway.config import Limits, RouteOptions
from gateway.delivery import Delivery
from gateway.history import page, trim
from gateway.ledger import Ledger
from gateway.link import Link
from gateway.lobby import Lobby
from gateway.runs import Run
from gateway.timers import Later, Timer
from gateway.turn import NormalForm
from gateway.upstream import Backend
from mappings.canonical import Batch, Command, SessionState
from mappings.canonical.commands import (
    CancelTurn,
    GetHistory,
    GetSession,
    OpenSession,
    ResumeSession,
    ShutdownBackend,
    SubmitInput,
)
from mappings.canonical.events import (
    BackendShutdown,
    ModelTurnStarted,
    Reply,
    SessionOpened,
    TurnAccepted,
)
from mappings.canonical.unmapped import Unmapped
from mappings.canonical.values import Cause, Failure, Message, Origin, SessionSummary, flatten
from mappings.dialect import Burst, Clock, Dialect, Loss, NewId

__all__ = ["Session"]

log = structlog.get_logger("dragoman.session")

PENDING_MAX = 256  # commands of all links that wait for the backend's answer

OPENING = (OpenSession, ResumeSession, GetSession)
"""Commands that ask a backend which opens conversations for one."""


class Pending(Struct, frozen=True, kw_only=True):
    """A command that was written to the backend and has no answer yet."""

    link: Link
    command: Command
    timer: Timer


class Session:
    """One conversation. `backend` is set by whoever makes the session, before anything attaches."""

    backend: Backend

    def __init__(
        self, state: SessionState, *, route: RouteOptions, upstream: Dialect, limits: Limits, ledger: Ledger,
        clock: Clock, new_id: NewId, later: Later,
    ) -> None:  # fmt: skip
        self.state = state
        self._route = route
        self._upstream = upstream
        self._limits = limits
        self._ledger = ledger
        self._clock = clock
        self._new_id = new_id
        self._later = later
        self._form = NormalForm(state, new_id, tells_model_turns=upstream.events.says(ModelTurnStarted))
        self.delivery = Delivery(
            state, ledger, log_max=limits.log_max, log_bytes=limits.log_bytes, catch_up=limits.catch_up,
            coalesce=route.overflow == "coalesce",
        )  # fmt: skip
        self._pending: dict[str, Pending] = {}
        self._input: str = ""  # the pending SubmitInput's upstream request: at most one
        self._turn_weight = 0
        self._given_up: tuple[str, SubmitInput] | None = None  # the last input that was not accepted in time
        self._cancelling: Timer | None = None
        self._expiry: Timer | None = None
        self.changed: Callable[[Session], None] = lambda _session: None  # its backend named it, or refused it
        self.lobby = Lobby(self.attach, later, limits.snapshot_wait)
        self.quiet = asyncio.Event()  # no turn is open, and no input waits to be accepted
        self.quiet.set()
        self.log = log.bind(session=state.id)

    # -- links -----------------------------------------------------------------------------------------

    def attach(self, link: Link, request: str = "") -> None:
        """Show this session to `link` and keep it informed."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self.backend.start()  # before: what it knows at once stands in the first snapshot
        self.delivery.attach(link, request)

    def detach(self, link: Link) -> None:
        """`link` is gone; its turn goes on, the answers to its commands have nowhere to go."""
        self.lobby.leave(link)
        attached = link.id in self.delivery.attachments  # a probe never was
        self.delivery.detach(link)
        if attached and not self.delivery.attachments:
            self._expiry = self._later(self._limits.session_ttl, self._expire)

    def _expire(self) -> None:
        if self.state.turn is not None or self._input:
            self._expiry = self._later(self._limits.session_ttl, self._expire)
            return
        self._expiry = None
        self.log.info("session idle, closing its backend connection")
        self.backend.rest()

    def stop(self) -> None:
        """The gateway ends: tell the clients of an open turn, call off every deadline, close the way to the backend."""
        now = self._clock()
        failure = Failure(cause="upstream_lost", text="the gateway stops")
        self._deliver(self._form.end("failed", failure, now), now)
        for pending in self._pending.values():
            pending.timer.cancel()
        self._stop_cancelling()
        if self._expiry is not None:
            self._expiry.cancel()
        self.lobby.close()
        self.backend.stop()

    @property
    def vacant(self) -> bool:
        """Nobody is here and nothing was ever said: a probe's session."""
        never_used = self.state.backend_ids is None and not self._pending and not self.state.transcript
        return never_used and not self.delivery.attachments and self.state.turn is None

    def summary(self) -> SessionSummary:
        """This session as a row of a list."""
        messages = self.state.messages()
        title = self.state.title or next((m.text for m in messages if m.role == "user"), "")
        return SessionSummary(
            session=self.state.id, title=title, updated_at=self.state.updated_at, messages=len(messages),
            status=self.state.status, ext=self.state.backend_ids,
        )  # fmt: skip

    def open(self, link: Link, command: OpenSession | ResumeSession | GetSession) -> None:
        """Have the backend open or find the conversation of a new session; `link` is attached once it stands."""
        if isinstance(command, OpenSession):
            self.state.opening = command
        self._forward(link, command)

    # -- what clients ask ------------------------------------------------------------------------------

    def command(self, link: Link, command: Command) -> None:
        """Act on a command of an attached link; it gets exactly one answer (translation.md 3.18)."""
        match command:
            case GetHistory() if self.state.backend_ids is None:
                self._page(link, command)
            case SubmitInput():
                self._submit(link, command)
            case CancelTurn():
                self._cancel(link, command)
            case ShutdownBackend():
                link.send([Reply(request=command.request)])
                link.send([BackendShutdown(reason="detached")])
                link.end(CloseReason.DONE)
            case Unmapped():
                self.refuse(link, command.request, "unsupported", f"unknown command {command.tag!r}")
            case _:
                self._forward(link, command)

    def refuse(self, link: Link, request: str, cause: Cause, text: str) -> None:
        """Answer a command with an error."""
        link.send([Reply(request=request, failure=Failure(cause=cause, text=text))])

    def _page(self, link: Link, command: GetHistory) -> None:
        answer = page(self.state, command.request, command.limit or 50, command.cursor)
        if answer is None:
            self.refuse(link, command.request, "invalid", f"unknown cursor {command.cursor!r}")
        else:
            link.send([answer])

    def _submit(self, link: Link, command: SubmitInput) -> None:
        if not flatten(command.segments).strip():
            self.refuse(link, command.request, "invalid", "the input is empty")
        elif self._form.discarding:
            self.refuse(link, command.request, "busy", "the cancelled turn has not ended in the backend yet; try again")
        elif self.state.turn is not None or self._input:
            self.refuse(link, command.request, "busy", "a turn is already in progress in this session")
        else:
            self._input = self._forward(link, command)
            self._note_quiet()

    def _cancel(self, link: Link, command: CancelTurn) -> None:
        ours = self.state.turn is not None or bool(self._input)
        if not ours and self.state.status != "running":  # a run may have begun and not said anything yet: a resumed one
            self.refuse(link, command.request, "not_running", "no turn is in progress")
            return
        if ours and self._cancelling is None:
            self._cancelling = self._later(self._limits.cancel_deadline, self._force_cancel)
        self._forward(link, command)

    def _forward(self, link: Link, command: Command) -> str:
        """Write a command to the backend under a request id of our own; that id, or "" if it was refused."""
        if len(self._pending) >= PENDING_MAX:
            self.refuse(link, command.request, "busy", "too many commands wait for the backend")
            return ""
        request = self._new_id()
        timer = self._later(self._limits.accept_deadline, lambda: self._unanswered(request))
        self._pending[request] = Pending(link=link, command=command, timer=timer)
        self.backend.send([structs.replace(command, request=request)])
        return request if request in self._pending else ""

    def _unanswered(self, request: str) -> None:
        pending = self._pending.get(request)
        if pending is not None and isinstance(pending.command, SubmitInput):
            self._given_up = request, pending.command
        self._answer(request, Failure(cause="timeout", text="the backend did not answer in time"))

    def _force_cancel(self) -> None:
        self._cancelling = None
        now = self._clock()
        unaccepted = self._settle(self._input)
        if unaccepted is not None:  # nobody knows if it was taken; for its client it is a turn, cancelled
            self._accepted(unaccepted, now)
        if self.state.turn is None:
            return
        self.log.warning("backend did not end the cancelled turn in time, ending it for its clients")
        for request in [r for r, pending in self._pending.items() if isinstance(pending.command, CancelTurn)]:
            self._answer(request, None)  # an error later would end the turn a second time
        self._deliver(self._form.end("cancelled", None, now, discard=unaccepted is None), now)

    # -- what the backend says ---------------------------------------------------------------------------

    def receive(self, bursts: Sequence[Burst]) -> None:
        """The backend said this: normalise, log, fold, deliver."""
        now = self._clock()
        for burst in bursts:
            items, at = burst.items, burst.at or now
            if ADDRESSED.isdisjoint(map(type, items)):
                self._deliver(self._form.feed(items, at), at)
                continue
            for answers, some in groupby(items, answers_one):
                if answers:
                    for item in some:
                        self._take_answer(item, at)
                else:
                    self._deliver(self._form.feed(list(some), at), at)
            self._trim()
            self.lobby.open()  # a whole history stands among them, or an answer: the backend has told what there was

    def _take_answer(self, event: Any, at: int) -> None:
        if isinstance(event, SessionOpened):
            self.state.backend_ids = event.ext
            self.changed(self)
            if not event.request:
                return  # opened for what waited, or resumed: nobody asked
        if isinstance(event, TurnAccepted):
            event = self._said_again(event)
        pending = self._pending.get(event.request)
        if pending is None:
            self._ledger.record(
                [Loss(kind=type(event).__name__, why="answers no command of ours")], session=self.state.id
            )
            return
        if isinstance(event, TurnAccepted):
            self._settle(event.request)
            self._accepted(pending, at)
        elif isinstance(event, SessionOpened):
            self._settle(event.request)
            self._opened(pending, event)
        elif isinstance(event, Reply):
            self._answer(event.request, event.failure, event)
        else:
            self._settle(event.request)
            pending.link.send([structs.replace(event, request=pending.command.request)])

    def _said_again(self, event: TurnAccepted) -> TurnAccepted:
        """The same words sent once more after they were given up: what the backend accepts is the second sending."""
        pending = self._pending.get(self._input)
        if pending is None or self._given_up is None or not isinstance(pending.command, SubmitInput):
            return event
        request, command = self._given_up
        same = event.request == request and pending.command.segments == command.segments
        return structs.replace(event, request=self._input) if same else event

    def _opened(self, pending: Pending, event: SessionOpened) -> None:
        """The backend opened, or found, what this client asked for."""
        self.state.agent = event.agent or self.state.agent
        if pending.link.alive:
            self.attach(pending.link, pending.command.request)

    def _accepted(self, pending: Pending, at: int) -> None:
        command = pending.command
        if not isinstance(command, SubmitInput):
            return
        message = Message(role="user", text=flatten(command.segments), segments=command.segments)
        origin = Origin(link=pending.link.id, request=command.request)
        self._deliver(self._form.accept(origin, message, at), at)

    def _answer(self, request: str, failure: Failure | None, event: Reply | None = None) -> None:
        pending = self._settle(request)
        if pending is None:
            return
        if failure is not None and isinstance(pending.command, CancelTurn | SubmitInput):
            self._stop_cancelling()  # there is nothing to cancel: the deadline must not end the next turn
        if isinstance(pending.command, OPENING) and self.state.backend_ids is None:
            self.changed(self)  # it was not opened: nothing of it remains
        result = event.result if event is not None else UNSET
        pending.link.send([Reply(request=pending.command.request, failure=failure, result=result)])

    def _settle(self, request: str) -> Pending | None:
        pending = self._pending.pop(request, None)
        if pending is not None:
            pending.timer.cancel()
        if request == self._input:
            self._input = ""
            self._note_quiet()
        return pending

    def connected(self) -> SessionState:
        """The backend can be reached; this is what it may be asked to go on with."""
        return self.state

    def lost(self, cause: str, unsent: Sequence[Command]) -> None:
        """The backend cannot be reached: what waits for it fails, and so does the open turn (design.md, section 6)."""
        failure = Failure(cause="upstream_lost", text=cause)
        for request in [command.request for command in unsent] or list(self._pending):
            self._answer(request, failure)
        now = self._clock()
        self._stop_cancelling()
        self._form.discarding = False
        self._deliver(self._form.end("failed", failure, now), now)
        self.lobby.open()

    def _stop_cancelling(self) -> None:
        if self._cancelling is not None:
            self._cancelling.cancel()
            self._cancelling = None

    # -- the way out -------------------------------------------------------------------------------------

    def _deliver(self, runs: list[Run], at: int) -> None:
        for run in runs:
            opened = bool(run.turn) and type(run.events[0]) is TurnAccepted
            batch = self.batch(run, at)
            self._turn_weight += self.delivery.deliver(batch, opened=opened, ended=run.ended)
            if run.ended:
                self._turn_weight = 0
                self._stop_cancelling()
                self._trim()
        if self._turn_weight > self._limits.transcript_max and self.state.turn is not None:
            self._end_endless(at)
        self._note_quiet()
        if self._form.losses:
            self._ledger.record(self._form.losses, session=self.state.id)
            self._form.losses.clear()

    def _end_endless(self, at: int) -> None:
        """The open turn is larger than what a session keeps: it ends here, and its backend is asked to stop."""
        self._turn_weight = 0
        failure = Failure(cause="too_large", text=f"the turn is over {self._limits.transcript_max} characters")
        self._deliver(self._form.end("failed", failure, at, discard=True), at)
        self.backend.send([CancelTurn(request=self._new_id())])

    def _note_quiet(self) -> None:
        if self.state.turn is None and not self._input:
            self.quiet.set()
        else:
            self.quiet.clear()

    def batch(self, run: Run, at: int) -> Batch:
        """A run as the next batch of the log."""
        state = self.state
        batch = Batch(
            session=state.id, epoch=state.epoch, first_seq=state.seq, events=run.events, turn=run.turn,
            origin=run.origin, at=at,
        )  # fmt: skip
        state.seq += len(run.events)
        state.updated_at = at
        return batch

    def _trim(self) -> None:
        dropped = trim(self.state, self._limits.transcript_max)
        if dropped:
            loss = Loss(kind="transcript", why="older than transcript_max", count=dropped)
            self._ledger.record([loss], session=self.state.id)
