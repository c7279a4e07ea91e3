"""A session: one conversation, with its state, its way to the backend and the commands that are under way.

Links attach to sessions; sessions own the way to their backend (docs/design.md, section 5). Everything here is
synchronous: what the backend says comes in by `receive`, what clients ask by `command`, and both leave by `Delivery` or
to one link. The only timers are deadlines, and the scheduler for them is injected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import structlog
from msgspec import Struct, structs

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.services import Services
from dragoman.gateway.session.commands import ADDRESSED, BUSY, Commands, answers_one
from dragoman.gateway.session.context import Effects, SessionContext
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.fold import happens
from dragoman.gateway.session.history import page, summary, trim
from dragoman.gateway.session.narrowing import tool_names_only
from dragoman.gateway.session.normal_form import Given, NormalForm
from dragoman.gateway.session.ports import Backend, Client, EventRecorder
from dragoman.gateway.session.presence import PendingAttach, Presence
from dragoman.gateway.session.questions import Questions
from dragoman.gateway.session.reconnect import Reconnect
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.turn_states import Trigger, TurnState
from dragoman.gateway.session.weight import of_events
from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    CancelTurn,
    GetHistory,
    GetSession,
    OpenSession,
    PauseTurn,
    RenameSession,
    ResumeSession,
    ResumeTurn,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    InteractionRequired,
    ModelTurnStarted,
    Reply,
    SessionActivated,
    SessionClosed,
    SessionOpened,
    SessionUpdated,
    TextDelta,
    TurnAccepted,
)
from dragoman.mappings.canonical.state import TextBlock
from dragoman.mappings.canonical.unmapped import Unmapped
from dragoman.mappings.canonical.values import Cause, Failure, Segment
from dragoman.mappings.dialect import Burst, Dialect, Loss

__all__ = ["Session", "SessionObserver"]

log = structlog.get_logger("dragoman.session")

_ONLY_TEXT = frozenset({TextDelta})
_TEXT = attrgetter("text")


class SessionObserver(Struct, frozen=True, kw_only=True):
    """Functions that are called when something happens to a session."""

    on_renamed: Callable[[Session, str], Session] = lambda session, _name: session
    """The backend opened the session under this name, or refused it (""). Return the session that clients are shown."""
    on_status: Callable[[Session], None] = lambda _session: None
    on_rested: Callable[[Session], None] = lambda _session: None
    """Nobody came for `session_ttl`, and the connection to the backend was closed."""
    on_run: Callable[[Session, Run], None] = lambda _session, _run: None
    """Events were delivered, and they are more than text."""


class Session:
    """One conversation. `connect` makes its connection to the backend, and `recorder` records it."""

    def __init__(
        self,
        state: SessionState,
        route: RouteOptions,
        upstream: Dialect,
        services: Services,
        *,
        connect: Callable[[Session], Backend],
        observer: SessionObserver = SessionObserver(),  # noqa: B008  # frozen
        recorder: EventRecorder | None = None,
    ) -> None:
        self.state = state
        self.route = route
        self._names_only = route.show.tools == "names"
        self.services = services
        self.limits, self.clock = services.limits, services.clock
        self.upstream, self.ledger = upstream, services.ledger
        self._new_id = services.new_id
        self.form = NormalForm(
            state,
            services.new_id,
            tells_model_turns=upstream.events.can_read_type(ModelTurnStarted),
            tells_calls=upstream.tells_calls,
            puts_in_words=self._puts_in_words,
            given=self._given,
        )
        self.states = self.form.states
        self.delivery = Delivery(
            state, services, coalesce=route.overflow == "coalesce", source=upstream.name, track=recorder
        )
        self._turn_weight = 0
        self._observer = observer
        self._observed = state.status
        context = SessionContext(
            state=state,
            route=route,
            upstream=upstream,
            services=services,
            form=self.form,
            states=self.states,
            delivery=self.delivery,
            log=log.bind(session=state.id),
        )
        self.questions = Questions(context, self)
        self.commands = Commands(context, self.questions, self)
        self.reconnect = Reconnect(context, self.commands, self)
        self.pending = PendingAttach(self.attach, services)
        self.presence = Presence(
            context, self.pending, lambda: self.backend, self.deserted, lambda: observer.on_rested(self)
        )
        self.quiet = asyncio.Event()  # no turn is open, and no input waits to be accepted
        self.quiet.set()
        self.backend = connect(self)

    def _puts_in_words(self, question: ApprovalRequested | InteractionRequired) -> bool:
        return self.questions.puts_in_words(question)

    def _given(self) -> Given | None:
        return self.questions.given()

    def name(self, id: str) -> None:
        """Give the session its id: the backend has told it, and nobody was told another one."""
        self.state.id = id

    # -- links -----------------------------------------------------------------------------------------

    def attach(self, link: Client, request: str = "") -> None:
        """Show this session to `link` and keep it informed."""
        self.presence.attach(link, request)

    def detach(self, link: Client) -> None:
        """`link` is gone."""
        self.presence.detach(link)

    def deserted(self) -> None:
        """Nobody is here any more."""
        if self.route.on_last_detach == "cancel" and self.busy:
            self.commands.cancel(None, CancelTurn())

    def stop(self) -> None:
        """The gateway ends: tell the clients of an open turn, call off every deadline, close the way to the backend."""
        now = self.clock()
        failure = Failure(cause="upstream_lost", text="the gateway stops")
        self.deliver(self.form.cut("failed", failure, now), now)
        self.commands.close()
        self.questions.close()
        self.reconnect.close()
        self.presence.close()
        self.pending.close()
        self.backend.stop()

    @property
    def vacant(self) -> bool:
        """Nobody is here and nothing was ever said: a probe's session."""
        never_used = self.state.ids is None and not self.commands.in_flight and not self.state.transcript
        return never_used and self.presence.deserted and self.state.turn is None

    def open(
        self, link: Client, command: OpenSession | ResumeSession | GetSession, then: Command | None = None
    ) -> None:
        """Have the backend open or find the conversation of a new session; `link` is attached once it stands.

        With `then` that is what the link asked of it, by the same request.
        """
        if isinstance(command, OpenSession):
            self.state.opening = command
        elif isinstance(command, ResumeSession):
            self.state.opening = _opening_of(command)
        self.commands.forward(link, command, then=then)

    # -- what clients ask ------------------------------------------------------------------------------

    def command(self, link: Client, command: Command) -> None:
        """Act on a command of an attached link; it gets exactly one answer (docs/translation.md, rule 3.18)."""
        match command:
            case GetHistory() if self.state.backend_ids is None or not self.upstream.stores_history:
                self._page(link, command)
            case SubmitInput():
                self.commands.submit(link, command)
                self.note_quiet()
            case CancelTurn():
                self.commands.cancel(link, command)
            case AnswerApproval() | AnswerInteraction() | PauseTurn() if self.reconnect.severed:
                link.refuse(command.request, "busy", BUSY)
            case PauseTurn():
                self._pause(link, command)
            case ResumeTurn() if self.questions.show_again(link):
                link.send([Reply(request=command.request)])
            case AnswerApproval() | AnswerInteraction():
                self.questions.answer(link, command)
            case RenameSession() if not self.upstream.commands.can_write_type(RenameSession):
                self._rename(link, command)
            case Unmapped():
                link.refuse(command.request, "unsupported", f"unknown command {command.tag!r}")
            case _:
                self.forward(link, command)

    def _page(self, link: Client, command: GetHistory) -> None:
        answer = page(self.state, command.request, command.limit or 50, command.cursor)
        if answer is None:
            link.refuse(command.request, "invalid", f"unknown cursor {command.cursor!r}")
        else:
            link.send([answer])

    def _rename(self, link: Client, command: RenameSession) -> None:
        """Where the backend keeps no titles the gateway does."""
        self.entitle(command.title)
        if link.attaches:
            link.send([Reply(request=command.request)])
        else:
            link.attach(self.state, command.request)

    def entitle(self, title: str) -> None:
        """Give the session this title."""
        self.state.title = title
        row = summary(self.state)
        self.say(SessionUpdated(session=structs.replace(row, title=title, updated_at=self.clock())))

    def _pause(self, link: Client, command: PauseTurn) -> None:
        if self.questions.in_words(link):
            link.send([Reply(request=command.request)])  # to this client the run is paused already
        elif self.upstream.commands.can_write_type(PauseTurn):
            self.forward(link, command)
        elif self.route.pause == "cancel":
            self.commands.cancel(link, CancelTurn(request=command.request, session=command.session))
        elif self.state.turn is None:
            link.refuse(command.request, "not_running", "no turn is in progress")
        else:
            link.refuse(command.request, "unsupported", "this backend cannot pause; cancel instead")

    def forward(self, link: Client | None, command: Command, segments: tuple[Segment, ...] = ()) -> str:
        """Write a command to the backend under a request id of our own; return that id, or "" if it was refused."""
        return self.commands.forward(link, command, segments)

    def write(self, command: Command) -> None:
        """Write a command to the backend."""
        self.backend.send([command])

    def opened(self, event: SessionOpened) -> Effects:
        """Take the names that the backend gave; return the session that clients are shown for this one."""
        self.state.backend_ids = {**(event.ext or {}), **(self.state.chosen_ids or {})}
        self.state.title = event.title or self.state.title
        return self._observer.on_renamed(self, event.session)

    def refused(self) -> None:
        """Drop the session: its backend did not open it, and nothing of it remains."""
        self._observer.on_renamed(self, "")

    def show(self, link: Client, request: str, event: SessionOpened, then: Command | None) -> None:
        """Attach the client that had the session opened, and act on what it asked of it."""
        self.state.agent = event.agent or self.state.agent
        if not link.alive:
            return
        self.attach(link, "" if then is not None else request)
        if then is not None:
            self.command(link, then)

    @property
    def busy(self) -> bool:
        """Whether a turn is open, or an input waits to be accepted."""
        return self.states.busy

    # -- what the backend says ---------------------------------------------------------------------------

    def receive(self, bursts: Sequence[Burst[Event]]) -> None:
        """The backend said this: normalise, log, fold, deliver."""
        now = self.clock()
        for burst in bursts:
            items, at = burst.items, burst.at or now
            if self.reconnect.listens:
                items = self.reconnect.take(items, at)
                if not items:
                    continue
            if _ONLY_TEXT.issuperset(map(type, items)) and self._more_text(items, at):
                continue
            if self._names_only:
                items, losses = tool_names_only(items)
                self.ledger.record(losses, session=self.state.id)
            if ADDRESSED.isdisjoint(map(type, items)):
                self.deliver(self.form.feed(items, at), at)
                continue
            for answers, some in groupby(items, answers_one):
                if answers:
                    for item in some:
                        self.commands.take(item, at)
                else:
                    self.deliver(self.form.feed(list(some), at), at)
            self._trim()
            self.pending.open()  # a whole history stands among them, or an answer: the backend has told what there was

    def _more_text(self, events: list[Any], at: int) -> bool:
        """Give further text of the open block to everybody: the direct call for what a turn mostly consists of.

        False, and nothing done, where the normal form has anything to add.
        """
        state, turn = self.state, self.state.turn
        block = turn.open if turn is not None else None
        if turn is None or type(block) is not TextBlock or self.states.turn is TurnState.DISCARDED:
            return False
        texts = [*map(_TEXT, events)]
        block.parts += texts
        turn.now = at
        batch = Batch(
            session=state.id,
            epoch=state.epoch,
            first_seq=state.seq,
            events=[*events],
            turn=turn.id,
            origin=turn.origin,
            at=at,
            ids=state.chosen_ids if state.backend_ids is None else state.backend_ids,
        )
        state.seq += len(texts)
        state.updated_at = at
        weight = sum(map(len, texts))
        self._turn_weight += weight
        self.delivery.deliver(batch, weight, opened=False, ended=False, plain=True)
        if self._turn_weight > self.limits.transcript_max:
            self._end_endless(at)
        return True

    def connected(self) -> SessionState:
        """The backend can be reached; this is what it may be asked to go on with."""
        return self.state

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        """The backend cannot be reached: what waits for it fails, and so does a turn that cannot outlive this."""
        failure = Failure(cause=cause, text=text)
        if self.reconnect.lost(failure, unsent):
            self.pending.open()
            return True
        self.give_up(failure, everything=not unsent)
        return False

    def give_up(self, failure: Failure, *, everything: bool = True) -> None:
        """Fail the open turn, and with `everything` all that waits for the backend."""
        self.reconnect.close()
        if everything:
            self.commands.fail(failure)
        now = self.clock()
        self.commands.cancel_over()
        self.states.on(Trigger.GIVEN_UP)
        self.deliver(self.form.cut("failed", failure, now), now)
        self.reconnect.over()
        self.pending.open()

    # -- the way out -------------------------------------------------------------------------------------

    def deliver(self, runs: list[Run], at: int) -> None:
        """Log what happened and give it to everybody."""
        for run in runs:
            opened = bool(run.turn) and type(run.events[0]) is TurnAccepted
            batch = self._batch(run, at)
            weight = of_events(batch.events)
            self._turn_weight += weight
            self.delivery.deliver(batch, weight, opened=opened, ended=run.ended)
            self._observer.on_run(self, run)
            if run.ended:
                self._turn_weight = 0
                self.commands.cancel_over()
                self._trim()
                self.describe()
        if self._turn_weight > self.limits.transcript_max and self.state.turn is not None:
            self._end_endless(at)
        self.note_quiet()
        self.questions.note()
        while self.form.unwanted:
            self.questions.deny(self.form.unwanted.pop())
        if self.form.losses:
            self.ledger.record(self.form.losses, session=self.state.id)
            self.form.losses.clear()

    def _end_endless(self, at: int) -> None:
        """The open turn is larger than what a session keeps: it ends here, and its backend is asked to stop."""
        self._turn_weight = 0
        failure = Failure(cause="too_large", text=f"the turn is over {self.limits.transcript_max} characters")
        self.deliver(self.form.cut("failed", failure, at, discard=True), at)
        self.backend.send([CancelTurn(request=self._new_id())])

    def note_quiet(self) -> None:
        if self.state.status != self._observed:
            self._observed = self.state.status
            self._observer.on_status(self)
        (self.quiet.clear if self.busy else self.quiet.set)()

    def describe(self, kind: type[SessionUpdated | SessionActivated | SessionClosed] = SessionUpdated) -> None:
        """Tell those who subscribe to everything what this session is now, or what was done with it."""
        if any(link.publishes for link in self.presence.links):
            self.say(kind(session=summary(self.state)))

    def say(self, event: Event) -> None:
        """The gateway itself tells the clients something."""
        now = self.clock()
        self.deliver(self.form.feed([event], now), now)

    def _batch(self, run: Run, at: int) -> Batch:
        """A run as the next batch of the log."""
        state = self.state
        batch = Batch(
            session=state.id,
            epoch=state.epoch,
            first_seq=state.seq,
            events=run.events,
            turn=run.turn,
            origin=run.origin,
            at=at,
            ids=state.ids,
        )
        state.seq += len(run.events)
        if happens(run.events):
            state.updated_at = at
        return batch

    def _trim(self) -> None:
        if dropped := trim(self.state, self.limits.transcript_max):
            loss = Loss(kind="transcript", why="older than transcript_max", count=dropped)
            self.ledger.record([loss], session=self.state.id)


def _opening_of(command: ResumeSession) -> OpenSession:
    """Return what the conversation is opened with again, should its backend forget it."""
    return OpenSession(
        agent=command.agent,
        user_name=command.user_name,
        user_email=command.user_email,
        supports=command.supports,
        metadata=command.metadata,
        ext=command.ext,
    )
