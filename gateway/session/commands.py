"""The life of one command: each gets exactly one answer, which goes to the client that asked and not into the log
(docs/translation.md, rule 3.18).

    asked      a client or the gateway itself gives it
    written    it waits in `InFlight`, under a request id of our own, until its deadline
    answered   the backend accepted or refused it
    late       the deadline has passed, and its client was told; the backend may still accept an input
    refused    it never reached the backend: too many wait, or another turn runs
    cancelled  the turn is ended by the backend, or here when it cannot or does not (rule 3.4)

A cancelled turn may continue for a limited time:

    cancel_deadline   the backend has not ended the turn: it is ended for the clients, and further input is refused
    accept_deadline   after that: the connection is closed if this ends the turn. The next input gets a new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from msgspec import UNSET, structs

from dragoman.gateway.observability import audit
from dragoman.gateway.session import one_time_codes, titles
from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.history import answer_page, count_left_out
from dragoman.gateway.session.in_flight import PendingCommand
from dragoman.gateway.session.inputs import BUSY, Inputs
from dragoman.gateway.session.ports import Client, Effects
from dragoman.gateway.session.questions import Questions
from dragoman.gateway.session.turn_states import TurnState
from dragoman.gateway.timers import Deadline
from dragoman.mappings.canonical import Command, Event, Unmapped, commands
from dragoman.mappings.canonical.events import (
    HistorySnapshot,
    InteractionInvalid,
    OtpInvalid,
    OtpVerified,
    Reply,
    SessionOpened,
    TurnAccepted,
)
from dragoman.mappings.canonical.values import Cause, Failure, Item
from dragoman.mappings.dialect import Loss

PASSED_OVER = 8  # work (units) of an item of the history that is skipped to find a cursor: 50 ns

NOT_FOUND = Failure(cause="not_found", text="session not found")

ADDRESSED = frozenset(kind for kind in get_args(Event) if kind.answers != "never")
"""Types that may answer a command."""


def answers_command(event: Any) -> bool:
    return event.answers == "always" or (event.answers == "by_request" and bool(event.request))


def split_answers(events: Iterable[Any]) -> list[tuple[bool, list[Any]]]:
    """Return the events in order, split into parts: events that each answer one command (True), and others (False)."""
    parts: list[tuple[bool, list[Any]]] = []
    for event in events:
        answers = event.answers != "never" and answers_command(event)  # no call for those that never do: most of them
        if not parts or parts[-1][0] is not answers:
            parts.append((answers, []))
        parts[-1][1].append(event)
    return parts


class Commands:
    """The commands of one session."""

    __slots__ = ("_cancelled", "_context", "_deadline", "_held", "_in_flight", "_inputs", "_questions")

    def __init__(self, context: SessionContext, inputs: Inputs, questions: Questions) -> None:
        self._context = context
        self._in_flight = context.in_flight
        self._inputs = inputs
        self._questions = questions
        self._cancelled = False  # the backend was asked to end the open turn
        self._deadline = Deadline(context.services.schedule)  # of a cancelled turn
        self._held: list[tuple[Client | None, commands.CancelTurn]] = []  # cancels that wait for the connection

    # -- asked -------------------------------------------------------------------------------------------

    def act(self, client: Client, command: Command) -> None:
        context, severed = self._context, self._context.states.severed
        match command:
            case commands.GetHistory() if context.knows_more_than_backend:
                self._answer(client, _page(context, client, command))
            case commands.SubmitInput():
                self._inputs.submit(client, command)
                self._context.effects.note_quiet()
            case commands.CancelTurn() if not self._inputs.may_cancel(client):
                client.refuse(command.request, "not_running", "no turn of this client is in progress")
            case commands.CancelTurn():
                self.cancel(client, command)
            case commands.AnswerApproval() | commands.AnswerInteraction() | commands.PauseTurn() if severed:
                client.refuse(command.request, "busy", BUSY)
            case commands.PauseTurn():
                self._pause(client, command)
            case commands.ResumeTurn() if self._questions.show_again(client):
                client.send([Reply(request=command.request)])
            case commands.AnswerApproval() | commands.AnswerInteraction():
                self._questions.answer(client, command)
            case commands.AnswerOtp():
                one_time_codes.send(context, client, command)
            case commands.RenameSession() if titles.are_kept_here(context):
                titles.rename(context, client, command)
            case _:
                self._in_flight.forward(client, command)

    def open_session(
        self, client: Client, command: commands.OpeningCommand, next_command: Command | None = None
    ) -> None:
        """Ask the backend to open or find the conversation of a new session, then attach `client`.

        `next_command` is the client's own command for that session, which has the same request.
        """
        before = self._context.state.opening if isinstance(command, commands.GetSession) else None
        self._context.state.opening = _opening_after(before, command)  # a resumed one has its own folder and model
        self._in_flight.forward(client, command, next_command=next_command)

    def _pause(self, client: Client, command: commands.PauseTurn) -> None:
        if self._questions.waits_for_words(client):
            client.send([Reply(request=command.request)])  # a question in words has paused this client's run
        elif self._context.upstream.commands.can_write_type(commands.PauseTurn):
            self._in_flight.forward(client, command)
        elif self._context.route.pause == "cancel":
            self.cancel(client, commands.CancelTurn(request=command.request, session=command.session))
        elif self._context.state.turn is None:
            client.refuse(command.request, "not_running", "no turn is in progress")
        else:
            client.refuse(command.request, "unsupported", "this backend cannot pause; cancel instead")

    # -- cancelled ---------------------------------------------------------------------------------------

    def cancel(self, client: Client | None, command: commands.CancelTurn) -> None:
        """Ask the backend to end the open turn before the deadline.

        A backend that was opened before may run a turn that began before this gateway, unless its turns end with us.
        """
        states = self._context.states
        if not self._inputs.runs and (states.severed or not self._context.may_run_unheard):
            if client is not None:
                client.refuse(command.request, "not_running", "no turn is in progress")
            return
        if states.severed:
            self._held.append((client, command))
            return
        if self._context.is_busy and not self._cancelled:
            audit.note("cancel", client or "gateway", session=self._context.state.id)
            self._cancelled = True
            self._deadline.start(self._context.services.limits.cancel_deadline, self._expire)
        self._in_flight.forward(client, command)

    def release(self, *, goes_on: bool) -> None:
        """Perform the cancels that waited for the connection if the turn continues (`goes_on`); else answer them."""
        held, self._held = self._held, []
        for client, command in held:
            if goes_on:
                self.cancel(client, command)
            elif client is not None:
                client.send([Reply(request=command.request)])

    def _force(self) -> None:
        """End the turn for its clients: the backend has no cancel, or did not end it in time."""
        self.forget_cancel()
        now = self._context.services.clock()
        unaccepted = self.accept_waiting(now)
        if self._context.state.turn is not None:
            self.give_all(commands.CancelTurn)  # an error later would end the turn a second time
            self._context.effects.deliver(self._context.form.cut("cancelled", None, now, discard=not unaccepted), now)

    def _expire(self) -> None:
        self._context.log.warning("the backend did not end the cancelled turn in time; the gateway ends it for clients")
        self._force()
        self.note_discarded()

    def note_discarded(self) -> None:
        """Start `accept_deadline`, before which the backend must end a turn that is over for its clients."""
        self._deadline.stop()
        if self._context.upstream.lost_turn != "goes_on":
            self._deadline.start(self._context.services.limits.accept_deadline, self._disconnect)

    def _disconnect(self) -> None:
        if self._context.states.turn is not TurnState.DISCARDED:
            return
        if self._context.effects.backend.suspend():
            self.note_discarded()  # other sessions need the connection
        else:
            self._context.log.warning("the backend went on with a turn that is over for clients; connection closed")

    def forget_cancel(self) -> None:
        """Stop the deadline of a cancel, so that it does not end the next turn."""
        self._cancelled = False
        self._deadline.stop()

    def accept_waiting(self, at: int) -> bool:
        """Begin the turn of the waiting input without the backend's acceptance; return False if no input waits."""
        pending = self._settle(self._in_flight.input)
        if pending is not None:
            self._inputs.accept(pending, at)
        return pending is not None

    # -- answered, late ----------------------------------------------------------------------------------

    def _settle(self, request: str) -> PendingCommand | None:
        """Stop waiting for the answer to this command, and return it."""
        pending = self._in_flight.settle(request)
        self._context.effects.note_quiet()
        return pending

    def take(self, event: Any, at: int) -> None:
        """Handle an answer of the backend to one command, which may be of another program."""
        shown = self._context.effects
        if isinstance(event, SessionOpened):
            shown = shown.opened(event)
            if not event.request:
                return  # opened for a waiting command, or resumed: no client asked
        if isinstance(event, TurnAccepted):
            event = self._inputs.match_repeated(event)
        pending = self._in_flight.find_command(event.request)
        if pending is None:
            self._inputs.take_unmatched(event, at)
        elif isinstance(event, TurnAccepted):
            self._inputs.accept(pending, at)
            self._settle(event.request)  # last: until then an error of our own code fails the command
        elif isinstance(event, Unmapped):
            self._pass_on(pending, event)
        elif isinstance(event, Reply):
            self.give(event.request, event.failure, event)
        else:
            self._settle(event.request)
            self._take_typed(pending, event, shown)

    def _take_typed(self, pending: PendingCommand, event: Any, shown: Effects) -> None:
        """Handle an answer whose type fits its command."""
        client, command = pending.client, pending.command
        if isinstance(event, SessionOpened):
            self._context.state.opening = _opening_after(self._context.state.opening, command)
            if client is not None:
                shown.show(client, command.request, event, pending.next_command)
        elif isinstance(event, InteractionInvalid):
            self._questions.note_invalid(pending, event)
        elif isinstance(event, OtpVerified | OtpInvalid):
            again = one_time_codes.note_verdict(self._context, pending, event)
            if again is not None and client is not None:
                self.act(client, again)
        elif client is not None:
            self._answer(client, structs.replace(event, request=command.request))

    def _pass_on(self, pending: PendingCommand, event: Unmapped) -> None:
        """Send a message of unknown type to the client whose command it names; the answer may follow."""
        client, context = pending.client, self._context
        if client is not None and client.dialect.name == event.dialect:
            client.send([structs.replace(event, request=pending.command.request)])
        else:
            loss = Loss(kind="Unmapped", why=f"a message of {event.dialect}", sample=event.tag)
            context.services.ledger.record([loss], session=context.state.id, source=event.dialect)

    def _answer(self, client: Client, event: Event) -> None:
        """Send the answer to one command, and count the fields that it loses."""
        client.send([event])
        self._context.services.ledger.count_partial(self._context.upstream, client.dialect, [event])

    def give(self, request: str, failure: Failure | None, event: Reply | None = None) -> None:
        """Tell the client of this request that its command succeeded, or why it failed."""
        pending = self._settle(request)
        if pending is None:
            return
        _note_result(pending, failure)
        if isinstance(pending.command, commands.RenameSession):
            if titles.answer_with_row(self._context, pending, pending.command, failure):
                return
            failure = titles.find_failure(self._context, pending, failure)
        failure = self._note_done(pending.command, failure)
        if not self._questions.note_reply(pending, failure) and pending.client is not None:
            pending.client.send([_reply_to(pending.client, pending.command, failure, event, self._context)])

    def _note_done(self, command: Command, failure: Failure | None) -> Failure | None:
        """Update the session after a command succeeded or failed; return the failure that the client is told."""
        context = self._context
        match command:
            case commands.SubmitInput() if failure is not None:
                self.forget_cancel()
            case commands.CancelTurn() if failure is not None:
                self.forget_cancel()
                if failure.cause == "unsupported":
                    # The turn ends for its clients (docs/translation.md, rule 3.4). Other refusals end nothing.
                    self._force()
                    return None
            case commands.RenameSession() if failure is None:
                titles.note_renamed(context, command)
            case commands.ArchiveSession() | commands.UnarchiveSession() if failure is None:
                context.state.archived = isinstance(command, commands.ArchiveSession)
            case _ if isinstance(command, commands.OpeningCommand) and context.state.backend_ids is None:
                context.effects.refused()
        return failure

    def give_all(self, kind: type, failure: Failure | None = None) -> None:
        """Tell the clients of all waiting commands of this type that they succeeded, or why they failed."""
        for request in self._in_flight.requests(kind):
            self.give(request, failure)

    def close(self) -> None:
        """Stop waiting for answers: the gateway ends."""
        self._in_flight.close()
        self.forget_cancel()

    def fail_unanswered(self, request: str, why: str) -> None:
        pending = self._in_flight.find_command(request)
        cause: Cause = "timeout"
        if pending is not None and isinstance(pending.command, commands.SubmitInput):
            self._inputs.remember_late(request, pending.command)
        elif pending is not None and isinstance(pending.command, commands.OpeningCommand):
            cause = "busy"
        self.give(request, Failure(cause=cause, text=why))


def _page(context: SessionContext, client: Client, command: commands.GetHistory) -> HistorySnapshot | Reply:
    """Return the answer to a request for a page of the transcript, and count the items that it leaves out."""
    services, state = context.services, context.state
    if command.cursor:
        services.queue.spend(PASSED_OVER * len(state.transcript))
    passed: list[Item] = []
    page = answer_page(state, command, passed)
    count_left_out(services.ledger, state, context.upstream, client.dialect, passed)
    return page


def _reply_to(
    client: Client, command: Command, failure: Failure | None, event: Reply | None, context: SessionContext
) -> Reply:
    """Return the Reply to a command, with the result of the backend's own (`event`) if the client has its dialect."""
    in_own_dialect = client.dialect.name == context.upstream.name
    result = event.result if event is not None and in_own_dialect else UNSET  # it is JSON of the backend's dialect
    if context.route.share == "owner" and _is_unknown(command, failure):
        failure, result = NOT_FOUND, UNSET  # the backend's text could show that another user has it
    return Reply(request=command.request, failure=failure, result=result)


def _is_unknown(command: Command, failure: Failure | None) -> bool:
    """Return True if the backend does not know the session of this command."""
    asks = isinstance(command, commands.ResumeSession | commands.GetSession)
    return asks and failure is not None and failure.cause == "not_found"


def _note_result(pending: PendingCommand, failure: Failure | None) -> None:
    """Write the outcome of a command that opens or closes a session to the audit log."""
    command, outcome = pending.command, failure.cause if failure is not None else "done"
    if pending.client is None:
        return
    if isinstance(command, commands.OpenSession | commands.ResumeSession) and failure is not None:
        audit.note("open", pending.client, session=command.session, outcome=outcome)
    elif isinstance(command, commands.DeleteSession):
        audit.note("close", pending.client, session=command.session, outcome=outcome)


def _opening_after(before: commands.OpenSession | None, command: Command) -> commands.OpenSession | None:
    """Return the command that would open the conversation again, if its backend forgets it after this command."""
    if isinstance(command, commands.OpenSession):
        return command
    if not isinstance(command, commands.ResumeSession):
        return before
    before = before or commands.OpenSession()
    return structs.replace(before, **(commands.client_details(command) | {"request": before.request}))
