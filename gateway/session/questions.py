"""The questions of a backend: who may answer, how an answer reaches the backend, and the deadline without an answer
(docs/design.md, section 5; docs/translation.md, rule 3.3).

A question stays open when its clients leave, but not when its backend is lost. It is shown to every client that
attaches; the first answer counts. A client whose dialect has no questions is asked in words, and its next input is the
answer.
"""

from __future__ import annotations

import structlog
from msgspec import structs

from dragoman.gateway.observability import audit
from dragoman.gateway.overload.fair_queue import REFUSED
from dragoman.gateway.session import one_time_codes, wording
from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.in_flight import PendingCommand, acknowledge
from dragoman.gateway.session.ports import Client
from dragoman.gateway.session.question_form import Given, denied, resolution_of
from dragoman.gateway.timers import Deadline
from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.commands import (
    NO_VALUES,
    Answer,
    AnswerApproval,
    AnswerInteraction,
    SubmitInput,
)
from dragoman.mappings.canonical.state import Question, QuestionBlock
from dragoman.mappings.canonical.values import Cause, Failure, Origin, Segment, flatten
from dragoman.mappings.forms import Form, declines
from dragoman.mappings.rfc3339 import NS

log = structlog.get_logger("dragoman.questions")

GONE = "no question is open"
ANSWERED = "the question was answered already"
OVER = "the question was answered, or the agent does not wait for an answer any more"
NOBODY: dict[str, bool] = {}  # one for all sessions; nothing is added to it


class Questions:
    """The questions of one session; at most one is open at a time."""

    __slots__ = ("_beaten", "_changed_at", "_context", "_deadline", "_form", "_seq", "_shown", "given")

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._shown: QuestionBlock | None = None  # the open question
        self._changed_at = 0  # when it was shown, or the last one was over
        self._seq = 0  # the seq of the first event after it was asked
        self._form: Form | None = None
        self._deadline = Deadline(context.services.schedule)
        self.given: Given | None = None
        """The answer that is on its way to the backend, which may go on before it confirms it."""
        self._beaten = NOBODY  # `_seat` of clients whose answer to the last question is late -> True if asked in words

    @property
    def open(self) -> QuestionBlock | None:
        turn = self._context.state.turn
        return turn.question if turn is not None else None

    def puts_in_words(self, question: Question) -> bool:
        """Return True if clients without a form for a question are asked in words; else the route answers for them."""
        links = self._context.delivery.links
        if any(client.can_be_asked(question) for client in links):
            return True
        policy = self._context.route.approvals  # nothing is approved while no client is attached
        approves = policy == "approve" and isinstance(question, events.ApprovalRequested)
        return policy != "deny" and not (approves and links)

    # -- a question begins and ends --------------------------------------------------------------------

    def note_question(self) -> None:
        """Update the deadline and the state after events that were just delivered have opened or closed a question."""
        before, block = self._shown, self.open
        if block is before:
            return
        if before is not None and before.words is not None:  # else the route has answered it
            links, giver = self._context.delivery.links, self.given.giver if self.given is not None else None
            self._beaten = {_seat(one): not one.can_be_asked(before.asked) for one in links if _seat(one) != giver}
        self._deadline.stop()
        self._form, self.given = None, None
        services = self._context.services
        self._shown, self._changed_at, self._seq = block, services.monotonic(), self._context.state.seq
        if block is None:
            return
        if isinstance(block.asked, events.InteractionRequired):
            self._form = Form(block.asked)
        self._deadline.start(services.limits.answer_deadline, self._expire)
        if block.words is None:
            self._decide(block.asked)

    def _decide(self, question: Question) -> None:
        """Answer a question by the route's option `approvals`, because no client can."""
        approved = self._context.route.approvals == "approve"
        log.warning("question answered by the route", session=self._context.state.id, approved=approved)
        self._give(None, _verdict(question, approved=approved))

    def deny(self, question: Question) -> None:
        """Deny a question of a turn that has ended for its clients, so that the backend stops waiting."""
        self._context.in_flight.forward(None, _verdict(question, approved=False))

    def _expire(self) -> None:
        block = self.open
        if block is None:
            return
        services = self._context.services
        self._deadline.start(services.limits.answer_deadline, self._expire)  # again, in case the denial is lost
        if self.given is not None:
            return
        text = f"no answer within {services.limits.answer_deadline:g} s: denied"
        alert = events.Alert(level="warn", source="gateway", text=text, at=services.clock())
        self._context.effects.deliver_event(alert)
        self._give(None, _verdict(block.asked, approved=False))

    # -- answers in a dialect's own form -----------------------------------------------------------------

    def answer(self, client: Client, command: Answer) -> None:
        """Handle an answer that a client sent as a message of its dialect."""
        if _answer_unheard(self._context, client, command):
            return
        fault = _mismatch(self.open, command) or ("not_found", self._too_late(client))
        if fault[1]:
            _refuse(self._context, client, command, fault)
        else:
            self._give(client, command)

    def _too_late(self, client: Client) -> str:
        """Return the reason why an answer of this client is refused as too late; "" if it is accepted."""
        if self.given is not None:
            return ANSWERED
        if client.attaches and not self._context.delivery.knows(client, self._seq):
            return "the open question was not shown to you yet"
        crossed = _seat(client) in self._beaten and self._has_changed_within(self._context.services.limits.answer_guard)
        return "another client answered the question before" if crossed else ""

    def _has_changed_within(self, seconds: float) -> bool:
        """Return True if the open question was shown, or the last one was over, less than `seconds` ago."""
        return self._context.services.monotonic() - self._changed_at < seconds * NS

    def _is_late_answer(self, client: Client, command: SubmitInput) -> bool:
        """Return True if an input answers a question in words that is over, and is the first of its client since."""
        was_asked = self._beaten.pop(_seat(client), False)  # its next input answers a later question
        is_recent = self._has_changed_within(self._context.services.limits.answer_deadline)
        return was_asked and is_recent and wording.verdict(flatten(command.segments)) is not None

    def _give(self, client: Client | None, command: Answer, segments: tuple[Segment, ...] = ()) -> None:
        block = self.open
        if block is None:
            return
        command = structs.replace(command, question=block.asked.question)
        giver = _seat(client) if client is not None else None
        origin = Origin(link=client.id, request=command.request) if client is not None and segments else None
        self.given = Given(resolved=resolution_of(command), giver=giver, segments=segments, origin=origin)
        _note_answer(self._context, client, command)
        if not self._context.in_flight.forward(client, command, segments):
            self.given = None  # it was refused

    # -- answers in words ------------------------------------------------------------------------------

    def is_typed_answer(self, client: Client, command: SubmitInput) -> bool:
        """Return True if an input of this client answers a question in words, or is a one-time code."""
        return self.waits_for_words(client) or bool(one_time_codes.typed_code(self._context, client, command))

    def take_typed(self, client: Client, command: SubmitInput) -> bool:
        """Handle an input that answers a question; return False if it answers none."""
        block = self.open
        if block is None:
            if self._beaten and self._is_late_answer(client, command):
                client.refuse(command.request, "busy", f"not sent: {OVER}")  # the agent might act on it
                return True
            return one_time_codes.take_typed(self._context, client, command)
        if block.words is None or client.can_be_asked(block.asked):
            return False
        text = flatten(command.segments)
        fault = self._too_late(client)
        if fault:
            client.refuse(command.request, "busy", f"not sent: {fault}")
        elif isinstance(block.asked, events.ApprovalRequested):
            self._read_verdict(client, command, text)
        else:
            self._read_field(client, command, text, block.asked.question)
        return True

    def _read_verdict(self, client: Client, command: SubmitInput, text: str) -> None:
        approved = wording.verdict(text)
        if approved is None:
            client.refuse(command.request, "busy", wording.ANSWER_FIRST)
        else:
            answer = AnswerApproval(request=command.request, session=command.session, approved=approved)
            self._give(client, answer, command.segments)

    def _read_field(self, client: Client, command: SubmitInput, text: str, question: str) -> None:
        form = self._form
        if form is None:
            return
        answer = AnswerInteraction(request=command.request, session=command.session, question=question)
        if declines(text):
            self._give(client, structs.replace(answer, declined=True), command.segments)
            return
        fault = form.take(text)
        if form.done:
            self._give(client, structs.replace(answer, values=form.values), command.segments)
        else:
            self._ask_on(form, fault, command.segments, Origin(link=client.id, request=command.request))
            acknowledge(client, command.request)

    def _ask_on(self, form: Form, fault: str, segments: tuple[Segment, ...], origin: Origin) -> None:
        now = self._context.services.clock()
        asked = self._context.form.questions.asked_again(form.prompt(fault), now, segments=segments, origin=origin)
        self._context.effects.deliver(asked, now)

    def show_again(self, client: Client) -> bool:
        """Show a client the open question in words again; return False if it was not asked in words."""
        block = self.open
        if block is None or block.words is None or not self.waits_for_words(client):
            return False
        begun = events.ModelTurnStarted(index=self._context.form.last_model_turn)
        words = structs.replace(block.words, after_text=False)  # all of this run
        self._context.delivery.show(client, [events.StatusChanged(status="running"), begun, words])
        return True

    def waits_for_words(self, client: Client) -> bool:
        """Return True if this client was asked the open question in words. Its dialect then shows no running turn."""
        block = self.open
        return block is not None and block.words is not None and not client.can_be_asked(block.asked)

    # -- what the backend says to an answer --------------------------------------------------------------

    def note_reply(self, pending: PendingCommand, failure: Failure | None) -> bool:
        """Handle the reply to an answer.

        Return True if the client gets no reply, because it sees that its turn continues.
        """
        command = pending.command
        if not isinstance(command, Answer):
            return False
        block, given, now = self.open, self.given, self._context.services.clock()
        if block is not None and given is not None and command.question == block.asked.question:
            if failure is None:
                self._context.effects.deliver(self._context.form.questions.answered(given, now), now)
            else:
                self.given = None
                if failure.cause == "not_found":
                    lost = Given(resolved=denied(block.asked))
                    self._context.effects.deliver(self._context.form.questions.answered(lost, now), now)
        if not pending.segments or failure is not None:
            return False
        acknowledge(pending.client, command.request)
        return True

    def note_invalid(self, pending: PendingCommand, event: events.InteractionInvalid) -> None:
        """Ask again for a form whose values the backend refused."""
        self.given = None
        client, request = pending.client, pending.command.request
        if client is None:
            return
        if not pending.segments:
            client.send([structs.replace(event, request=request)])
            return
        if self._form is not None:
            self._ask_on(self._form, self._form.again(event), pending.segments, Origin(link=client.id, request=request))
        acknowledge(client, request)


def _seat(client: Client) -> str:
    """Return the id of a client that attaches; "" for a publication, and for all callers that read it."""
    return client.id if client.attaches else ""


def _mismatch(block: QuestionBlock | None, command: Answer) -> tuple[Cause, str] | None:
    """Return the cause and the text why a command does not answer the open question; None if it does."""
    if block is None or isinstance(command, AnswerApproval) is not isinstance(block.asked, events.ApprovalRequested):
        return "not_found", GONE
    if command.question not in ("", block.asked.question):
        return "invalid", "another question is open"
    if isinstance(block.asked, events.InteractionRequired) and isinstance(command, AnswerInteraction):
        if command.kind not in ("", block.asked.kind):
            return "invalid", "the open question is of another kind"
        if not command.is_filled:
            return "invalid", NO_VALUES
    return None


def _answer_unheard(context: SessionContext, client: Client, command: Answer) -> bool:
    """Forward an answer that may be for a question which the backend asked before this gateway started.

    Return False, and do nothing, for any other answer.
    """
    is_unheard = context.state.turn is None and client.dialect is context.upstream and context.may_run_unheard
    if is_unheard:
        _note_answer(context, client, command)
        context.in_flight.forward(client, command)
    return is_unheard


def _refuse(context: SessionContext, client: Client, command: Answer, fault: tuple[Cause, str]) -> None:
    """Refuse an answer, and write a line of the audit log about it."""
    kind = type(command).__name__
    context.services.queue.budget.left -= REFUSED
    audit.refuse(client, fault[1], session=context.state.id, command=kind)
    client.refuse(command.request, *fault)


def _note_answer(context: SessionContext, client: Client | None, command: Answer) -> None:
    """Write a line of the audit log about an answer that goes to the backend."""
    if isinstance(command, AnswerApproval):
        outcome = "approved" if command.approved else "denied"
    else:
        outcome = "declined" if command.declined else "answered"
    session = context.state.id
    audit.note("answer", client or "gateway", session=session, outcome=outcome, question=command.question)


def _verdict(question: Question, *, approved: bool) -> Answer:
    """Return the answer that the gateway itself gives."""
    if isinstance(question, events.ApprovalRequested):
        return AnswerApproval(approved=approved)
    return AnswerInteraction(question=question.question, kind=question.kind, declined=True)
