"""A session: one conversation with its state, its backend and its clients (docs/design.md, section 5).

A session builds its parts and performs their effects. Events of the backend pass through `receive`, the normal form,
the log and `Delivery` to the clients. Streamed text takes a fast path. Everything here is synchronous; the only timers
are deadlines of the parts.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter
from types import MethodType
from typing import Any

from msgspec import Struct, field, structs

from dragoman.adapters.base import CloseReason, do_nothing
from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.observability import audit
from dragoman.gateway.overload.fair_queue import STREAMED
from dragoman.gateway.services import Services
from dragoman.gateway.session.attachments import Attachment, DeliveryContext
from dragoman.gateway.session.commands import ADDRESSED, Commands, split_answers
from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.digest import summary_of
from dragoman.gateway.session.fold import changes_more_than_description
from dragoman.gateway.session.in_flight import InFlight
from dragoman.gateway.session.inputs import Inputs
from dragoman.gateway.session.log import Log
from dragoman.gateway.session.memory import SessionMemory
from dragoman.gateway.session.narrowing import tool_names_only
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.gateway.session.ports import Backend, Client, EventRecorder
from dragoman.gateway.session.presence import PendingAttach, Presence
from dragoman.gateway.session.question_form import Given
from dragoman.gateway.session.questions import Questions
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.severed_turn import SeveredTurn
from dragoman.gateway.session.turn_states import Trigger, TurnState
from dragoman.gateway.session.weight import in_turn, of_events, of_text
from dragoman.mappings.canonical import Batch, Command, Event, SessionState, events
from dragoman.mappings.canonical.commands import CancelTurn
from dragoman.mappings.canonical.state import Question, ReasoningBlock, TextBlock
from dragoman.mappings.canonical.values import Cause, Failure, SessionSummary
from dragoman.mappings.dialect import Burst, DeltaType, Dialect, StreamedBlock

_DELTA_OF: dict[type, DeltaType] = {TextBlock: events.TextDelta, ReasoningBlock: events.ReasoningDelta}
_DELTAS = frozenset(_DELTA_OF.values())
_TEXT = attrgetter("text")
_ENDED = attrgetter("ended")


class NoBackend:
    """The backend of a session that has ended.

    A session and its backend refer to each other. A stopped session replaces its backend by this one, so that both are
    freed without the garbage collector.
    """

    def start(self) -> None:
        """Do nothing."""

    def send(self, commands: Sequence[Command]) -> None:
        """Drop the commands of a session that has ended."""

    def suspend(self) -> bool:
        return False

    def stop(self) -> None:
        """Do nothing."""


NO_BACKEND = NoBackend()


class SessionObserver(Struct, frozen=True, kw_only=True):
    """Functions that are called when something happens to a session."""

    on_renamed: Callable[[Session, str, bool], Session] = lambda session, _name, _is_first: session
    """Called when the backend has opened the session under this name, or refused it ("").

    Returns the session to attach clients to.

    The last argument is True if the backend has not named the session before.
    """
    on_status: Callable[[Session], None] = do_nothing
    on_suspended: Callable[[Session], None] = do_nothing
    """Called when the connection to the backend was closed, because no client came for `session_ttl`."""
    on_busy: Callable[[Session, bool], None] = do_nothing
    """Called with True when a turn is open or an input waits to be accepted, and with False when neither is."""
    on_run: Callable[[Session, Run], None] = do_nothing
    """Called when events other than text were delivered."""
    changed: set[str] = field(default_factory=set)
    """Called with the id of a session whose position in a list may have changed, but not for streamed text."""


class Session:
    """A conversation of a backend with clients. `connect` makes its connection, and `recorder` records it.

    Its parts refer to it weakly, so a stopped session is freed with the last outside reference.
    """

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
        me: Session = weakref.proxy(self)
        self.state, self._services, self._route = state, services, route
        self._names_only = route.show.tools == "names"
        self._observer, self._observed = observer, state.status
        self.form = _normal_form(me, services, upstream)
        self.log = Log(state, services.limits)
        self.memory = SessionMemory(state, self.log, services, MethodType(_drop_commands, me))
        delivered = DeliveryContext(
            state=state, log=self.log, services=services, route=route, upstream=upstream, recorder=recorder
        )
        self.delivery = Delivery(delivered)
        self.in_flight = InFlight(upstream, services, me, MethodType(_fail_unanswered, me), self.memory.count_commands)
        self._context = context = SessionContext(
            state=state,
            route=route,
            upstream=upstream,
            services=services,
            form=self.form,
            states=self.form.states,
            delivery=self.delivery,
            in_flight=self.in_flight,
            effects=me,
        )
        self.questions = Questions(context)
        self.inputs = Inputs(context, self.questions)
        self.commands = Commands(context, self.inputs, self.questions)
        self._severed = SeveredTurn(context, self.inputs, self.commands)
        self.pending = PendingAttach(state, MethodType(_attach, me), services)
        self.presence: Presence = Presence(context, self.pending)
        self.is_busy = False  # a turn is open, or an input waits to be accepted
        self.backend: Backend = connect(self)

    def stop(self) -> None:
        """End the session: fail an open turn, cancel every timer, detach every client, close the connection."""
        now = self._services.clock()
        failure = Failure(cause="upstream_lost", text="the gateway stops")
        self.deliver(self.form.cut("failed", failure, now), now)
        self.commands.close()
        self._severed.close()
        self.presence.close()
        self.backend.stop()
        self.memory.close()
        self.backend = NO_BACKEND

    # -- clients ---------------------------------------------------------------------------------------

    def on_last_detach(self) -> None:
        """Cancel the turn if the route's option `on_last_detach` says so."""
        self.memory.drop_rendered()
        if self._route.on_last_detach == "cancel" and self._context.is_busy and not self.inputs.of_caller:
            self.commands.cancel(None, CancelTurn())

    def suspended(self) -> None:
        self._observer.on_suspended(self)

    # -- the backend -----------------------------------------------------------------------------------

    def receive(self, bursts: Sequence[Burst[Event]]) -> StreamedBlock | None:
        """Normalise, log and deliver events of the backend. After a few pieces of a block, return the block."""
        now = self._services.clock()
        for burst in bursts:
            items, at = burst.items, burst.at or now
            if self._names_only:  # first, because a history may at once show what a reconnected client missed
                items, losses = tool_names_only(items)
                self._context.count_losses(losses)
            if self._severed.filters_events:
                items = self._severed.take(items, at)
            if not items:
                continue
            if _DELTAS.issuperset(map(type, items)) and self._deliver_text(items, at):
                continue
            if ADDRESSED.isdisjoint(map(type, items)):
                self.deliver(self.form.feed(items, at), at)
                continue
            for answers, some in split_answers(items):
                if answers:
                    for item in some:
                        self.commands.take(item, at)
                else:
                    self.deliver(self.form.feed(some, at), at)
            if events.HistorySnapshot in map(type, items):
                self.memory.trim_transcript()
            self.pending.note_history()  # it is among them, or an answer came: the backend has sent its history
        return None if self._severed.filters_events else self.delivery.groups.streamed

    def _deliver_text(self, events: list[Any], at: int) -> bool:
        """Deliver further pieces of the open block; return False, and do nothing, if the normal form adds anything."""
        turn = self.state.turn
        if turn is None or (block := turn.open) is None or self.form.states.turn is TurnState.DISCARDED:
            return False
        delta = _DELTA_OF[type(block)]
        if not {delta}.issuperset(map(type, events)):
            return False
        block.parts += (texts := [*map(_TEXT, events)])
        self.state.updated_at = turn.now = at
        text = "".join(texts)
        batch = self.log.append([*events], turn.id, turn.origin, at, len(text), of_text(text))
        self.delivery.deliver(batch, plain=True)
        if self.log.turn_weight > self._services.limits.transcript_max:
            self._end_endless(at)
        elif len(events) <= STREAMED:
            self.delivery.groups.open_text(turn, delta)
        return True

    def connected(self) -> None:
        """Do nothing: the translator of the connection is attached to the session anyway."""

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        """Fail the commands that wait for a lost backend, and a turn that cannot outlive its connection."""
        failure = Failure(cause=cause, text=text)
        if self._severed.lost(failure, unsent):
            self.pending.note_history()
            return True
        self.give_up(failure, everything=not unsent)
        self.presence.suspend_backend()
        return False

    def give_up(self, failure: Failure, *, everything: bool = True) -> None:
        """Fail the open turn, and with `everything` all commands that wait for the backend."""
        self._severed.close()
        if everything:
            if self.state.turn is not None:
                self.commands.give_all(CancelTurn)  # an error would end the turn a second time
            self.commands.give_all(object, failure)
        now = self._services.clock()
        self.commands.forget_cancel()
        self.form.states.on(Trigger.GIVEN_UP)
        self.deliver(self.form.cut("failed", failure, now), now)
        self.commands.release(goes_on=False)
        self.pending.note_history()

    # -- effects of the parts --------------------------------------------------------------------------

    def deliver(self, runs: list[Run], at: int) -> None:
        finished: list[tuple[Attachment, Batch]] = []
        try:
            for run in runs:
                if changes_more_than_description(run.events):
                    self.state.updated_at = at
                size = in_turn(run.events, self.state)
                batch = self.log.append(run.events, run.turn, run.origin, at, of_events(run.events), size)
                finished += zip(self.delivery.deliver(batch), repeat(batch), strict=False)
                self._observer.on_run(self, run)
                self._observer.changed.add(self.state.id)
                if run.ended:
                    self.log.end_turn()
                    self.presence.note_use()
                    self.commands.forget_cancel()
                    self.describe()
        except Exception:  # an error of our own code
            if any(map(_ENDED, runs)):  # the turn has ended in the state, but some clients may wait for its end
                _disconnect_clients(self.delivery)
            raise
        between_turns = self.state.turn is None and self.log.turn_weight > 0  # a backend may add items without a turn
        if between_turns:
            self.log.end_turn()
        elif self.log.turn_weight > self._services.limits.transcript_max:
            self._end_endless(at)
        self.note_quiet()
        self.questions.note_question()
        while self.form.unwanted:
            self.questions.deny(self.form.unwanted.pop())
        if self.form.losses:
            self._context.count_losses(self.form.losses)
            self.form.losses.clear()
        self.delivery.notify_finished(finished)
        if between_turns or any(map(_ENDED, runs)):
            self.memory.trim_transcript()  # last, because the log of an ended turn was emptied before

    def _end_endless(self, at: int) -> None:
        """Fail an open turn that is larger than a session may keep, and ask its backend to stop."""
        self.log.end_turn()
        text = f"the turn is over {self._services.limits.transcript_max} bytes"
        self.deliver(self.form.cut("failed", Failure(cause="too_large", text=text), at, discard=True), at)
        self.backend.send([CancelTurn(request=self._services.new_id())])
        self.commands.note_discarded()

    def deliver_event(self, event: Event) -> None:
        now = self._services.clock()
        self.deliver(self.form.feed([event], now), now)

    def describe(
        self, kind: type[events.SessionUpdated | events.SessionActivated | events.SessionClosed] = events.SessionUpdated
    ) -> None:
        """Publish an event about the session to all subscribers: by default, its present description."""
        if self.delivery.publications:
            self.deliver_event(kind(session=self.summary()))

    def summary(self) -> SessionSummary:
        return summary_of(self.state, self.memory.digest)

    def note_quiet(self) -> None:
        if self.state.status != self._observed:
            self._observed = self.state.status
            self._observer.on_status(self)
        if self.is_busy is not (self.state.turn is not None or bool(self.in_flight.input)):  # a property takes a call
            self.is_busy = not self.is_busy
            self._observer.on_busy(self, self.is_busy)

    def opened(self, event: events.SessionOpened) -> Session:
        is_first = self.state.backend_ids is None
        self.state.backend_ids = {**(event.ext or {}), **(self.state.chosen_ids or {})}
        opening = self.state.opening
        self.state.title = event.title or self.state.title or (opening.title if opening is not None else "")
        return self._observer.on_renamed(self, event.session, is_first)

    def refused(self) -> None:
        """Drop the session, because its backend did not open it."""
        self._observer.on_renamed(self, "", False)

    def show(self, client: Client, request: str, event: events.SessionOpened, next_command: Command | None) -> None:
        if self.state.backend_ids is not None:
            _show_opened(self, client, request, event, next_command)
        else:  # the client asked for another session, which was opened first; the backend has not opened this one yet
            self.presence.connect_for_query()
            self.pending.when_known(lambda: _show_opened(self, client, request, event, next_command))


def _show_opened(
    session: Session, client: Client, request: str, event: events.SessionOpened, next_command: Command | None
) -> None:
    state = session.state
    state.agent = event.agent or state.agent or (state.opening.agent if state.opening is not None else "")
    if not client.alive:
        return
    audit.note("open", client, session=state.id)
    attached = client.id in session.delivery.attachments
    if attached and (state.turn is not None or not session.delivery.has_seen_all(client)):  # its turn goes on
        client.send([structs.replace(event, request=request, session=state.id, ext=state.ids)])
    else:
        session.delivery.detach(client)  # it may see other forms now
        session.presence.attach(client, "" if next_command is not None else request)
    if next_command is not None:
        session.commands.act(client, next_command)


# Each function calls a part of the session for another part, which is made before it. As lambdas in `__init__` the
# functions would take 0.7 KB more for a session.


def _fail_unanswered(session: Session, request: str, why: str) -> None:
    session.commands.fail_unanswered(request, why)


def _drop_commands(session: Session) -> None:
    session.in_flight.drop()


def _attach(session: Session, client: Client) -> None:
    session.presence.attach(client)
    session.memory.count_rendered()


def _puts_in_words(session: Session, question: Question) -> bool:
    return session.questions.puts_in_words(question)


def _given(session: Session) -> Given | None:
    return session.questions.given


def _normal_form(session: Session, services: Services, upstream: Dialect) -> NormalForm:
    return NormalForm(
        session.state,
        services.new_id,
        sends_model_turns=upstream.events.can_read_type(events.ModelTurnStarted),
        lists_calls=upstream.lists_calls,
        puts_in_words=MethodType(_puts_in_words, session),
        given=MethodType(_given, session),
    )


def _disconnect_clients(delivery: Delivery) -> None:
    """Disconnect the clients of a session, except those that publish other sessions, too."""
    for link in delivery.links:
        if not link.publishes:
            link.end(CloseReason.INTERNAL)
