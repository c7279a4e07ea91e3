"""Custody of questions (docs/design.md, section 5; docs/translation.md, rule 3.3): who may answer, what an answer is,
what the deadline does.

A question outlives its clients, not its backend. It is shown to everybody who attaches; the first answer wins. A client
whose dialect has no questions is asked in words, and the next thing that it types is the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec import UNSET, structs

from dragoman.gateway.link import Link
from dragoman.gateway.session import wording
from dragoman.gateway.session.normal_form import Given, denied
from dragoman.gateway.timers import Timer
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    Alert,
    ApprovalRequested,
    ApprovalResolved,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    ModelTurnStarted,
    OtpInvalid,
    OtpVerified,
    QuestionAsked,
    Reply,
    StatusChanged,
    TurnAccepted,
)
from dragoman.mappings.canonical.state import QuestionBlock
from dragoman.mappings.canonical.values import Failure, Origin, Segment, flatten

if TYPE_CHECKING:
    from dragoman.gateway.session.inflight import Pending
    from dragoman.gateway.session.session import Session

__all__ = ["Questions"]

NS = 1_000_000_000

Answer = AnswerApproval | AnswerInteraction
Question = ApprovalRequested | InteractionRequired

log = structlog.get_logger("dragoman.questions")

GONE = "no question is open"
ANSWERED = "the question was answered already"


class Questions:
    """The questions of one session; at most one is open at a time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shown = ""  # the open question's id
        self._shown_at = 0
        self._form: wording.Form | None = None
        self._deadline: Timer | None = None
        self._given: Given | None = None  # the answer that is on its way to the backend
        self._giver = ""  # whose it is, "" for the gateway's own
        self._beaten: set[str] = set()  # links that were shown the last question, which somebody else answered

    @property
    def open(self) -> QuestionBlock | None:
        """The question that the open turn waits for."""
        turn = self._session.state.turn
        return turn.question if turn is not None else None

    def puts_in_words(self, question: Question) -> bool:
        """Whether clients without a form for it are asked in words; else the route answers for them."""
        return not self._decided(question)

    def _decided(self, question: Question) -> bool:
        links = self._session.attendance.links
        if any(link.can_be_asked(question) for link in links):
            return False
        policy = self._session.route.approvals  # with nobody there nothing is approved: who comes back may be asked
        return policy == "deny" or (policy == "approve" and isinstance(question, ApprovalRequested) and bool(links))

    # -- a question begins and ends --------------------------------------------------------------------

    def note(self) -> None:
        """Something was delivered: a question may be open now that was not, or be over."""
        block = self.open
        shown = block.asked.question if block is not None else ""
        if shown == self._shown:
            return
        if self._shown:
            self._beaten = {link.id for link in self._session.attendance.links} - {self._giver}
        self.close()
        self._shown = shown
        if block is None:
            return
        session = self._session
        self._shown_at = session.clock()
        if isinstance(block.asked, InteractionRequired):
            self._form = wording.Form(block.asked)
        self._deadline = session.later(session.limits.answer_deadline, self._expire)
        if block.words is None:
            self._decide(block.asked)

    def close(self) -> None:
        """Call off the deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline, self._form, self._shown = None, None, ""
        self._given, self._giver = None, ""

    def given(self) -> Given | None:
        """The answer that is on its way to the backend; that may go on before it says that it took it."""
        return self._given

    def _decide(self, question: Question) -> None:
        """The route answers, for nobody here can."""
        approved = self._session.route.approvals == "approve"
        log.warning("the route answers a question", session=self._session.state.id, approved=approved)
        self._give(None, _verdict(question, approved=approved))

    def deny(self, question: Question) -> None:
        """Asked in a turn that is over for its clients: nobody will answer."""
        self._session.forward(None, _verdict(question, approved=False))

    def _expire(self) -> None:
        block = self.open
        if block is None:
            return
        session = self._session
        self._deadline = session.later(session.limits.answer_deadline, self._expire)  # should the denial get lost
        if self._given is not None:
            return
        text = f"no answer within {session.limits.answer_deadline:g} s: denied"
        session.say(Alert(level="warn", source="pod", text=text, at=session.clock()))
        self._give(None, _verdict(block.asked, approved=False))

    # -- answers in a dialect's own form -----------------------------------------------------------------

    def answer(self, link: Link, command: Answer) -> None:
        """A client answers by a message of its dialect."""
        block = self.open
        kind = AnswerApproval if block is not None and isinstance(block.asked, ApprovalRequested) else AnswerInteraction
        if block is None or not isinstance(command, kind):
            self._session.refuse(link, command.request, "not_found", GONE)
        elif command.question not in ("", block.asked.question):
            self._session.refuse(link, command.request, "invalid", "another question is open")
        elif fault := self._too_late(link):
            self._session.refuse(link, command.request, "not_found", fault)
        else:
            self._give(link, command)

    def _too_late(self, link: Link) -> str:
        """Why an answer of this link does not count, "" if it does."""
        if self._given is not None:
            return ANSWERED
        if link.attaches and not self._session.delivery.has_seen_all(link):
            return "the open question was not shown to you yet"
        crossed = self._session.clock() - self._shown_at < self._session.limits.answer_guard * NS
        return "the question before was answered by somebody else" if crossed and link.id in self._beaten else ""

    def _give(self, link: Link | None, command: Answer, segments: tuple[Segment, ...] = ()) -> None:
        block = self.open
        if block is None:
            return
        command = structs.replace(command, question=block.asked.question)
        self._giver = link.id if link is not None else ""
        origin = Origin(link=self._giver, request=command.request) if segments else None
        self._given = Given(resolved=_resolved(command), segments=segments, origin=origin)
        if not self._session.forward(link, command, segments):
            self._given = None  # it was refused

    # -- answers in words ------------------------------------------------------------------------------

    def hear(self, link: Link, command: SubmitInput) -> bool:
        """Whether an input was meant for a question, and was dealt with."""
        block = self.open
        if block is None:
            return self._hear_code(link, command)
        if block.words is None or link.can_be_asked(block.asked):
            return False
        said = flatten(command.segments)
        fault = self._too_late(link)
        if fault:
            self._session.refuse(link, command.request, "busy", f"not sent: {fault}")
        elif isinstance(block.asked, ApprovalRequested):
            self._hear_verdict(link, command, said)
        else:
            self._hear_field(link, command, said)
        return True

    def _hear_verdict(self, link: Link, command: SubmitInput, said: str) -> None:
        approved = wording.verdict(said)
        if approved is None:
            self._session.refuse(link, command.request, "busy", wording.ANSWER_FIRST)
        else:
            answer = AnswerApproval(request=command.request, session=command.session, approved=approved)
            self._give(link, answer, command.segments)

    def _hear_field(self, link: Link, command: SubmitInput, said: str) -> None:
        form = self._form
        if form is None:
            return
        answer = AnswerInteraction(request=command.request, session=command.session, question=self._shown)
        if wording.declines(said):
            self._give(link, structs.replace(answer, declined=True), command.segments)
            return
        fault = form.take(said)
        if form.done:
            self._give(link, structs.replace(answer, values=form.values), command.segments)
        else:
            self._ask_on(form, fault, command.segments, Origin(link=link.id, request=command.request))
            _acknowledge(link, command.request)

    def _ask_on(self, form: wording.Form, fault: str, segments: tuple[Segment, ...], origin: Origin) -> None:
        now = self._session.clock()
        text = form.prompt(fault)
        self._session.deliver(self._session.form.asked_again(text, now, segments=segments, origin=origin), now)

    def show_again(self, link: Link) -> bool:
        """Whether a question in words is open to this client; then it is shown again, and nothing is answered."""
        block = self.open
        if block is None or block.words is None or link.can_be_asked(block.asked):
            return False
        begun = ModelTurnStarted(index=self._session.form.next_model_turn())
        words = structs.replace(block.words, after_text=False)  # all of this run
        self._session.delivery.show(link, [StatusChanged(status="running"), begun, words])
        return True

    def in_words(self, link: Link) -> bool:
        """Whether this client waits at a question in words: to it nothing runs."""
        block = self.open
        return block is not None and block.words is not None and not link.can_be_asked(block.asked)

    # -- one-time codes: no park, the turn has ended ---------------------------------------------------

    def _hear_code(self, link: Link, command: SubmitInput) -> bool:
        state = self._session.state
        code = wording.code(flatten(command.segments))
        if not code or state.otp is None or state.turn is not None or link.can_be_asked(state.otp.asked):
            return False
        answer = AnswerOtp(request=command.request, session=command.session, code=code)
        self._session.forward(link, answer, command.segments)
        return True

    # -- what the backend says to an answer --------------------------------------------------------------

    def replied(self, pending: Pending, failure: Failure | None) -> bool:
        """An answer was taken or refused; whether the turn that goes on is itself the reply to its client."""
        command = pending.command
        if not isinstance(command, Answer):
            return False
        block, given, now = self.open, self._given, self._session.clock()
        if block is not None and given is not None and command.question == self._shown:
            if failure is None:
                self._session.deliver(self._session.form.answered(given, now), now)
            else:
                self._given, self._giver = None, ""
                if failure.cause == "not_found":
                    lost = Given(resolved=denied(block.asked))
                    self._session.deliver(self._session.form.answered(lost, now), now)
        if not pending.segments or failure is not None:
            return False
        _taken(pending)
        return True

    def judged(self, pending: Pending, event: InteractionInvalid | OtpInvalid | OtpVerified) -> None:
        """The backend says what it thinks of an answer."""
        if isinstance(event, InteractionInvalid):
            self._given, self._giver = None, ""
        state = self._session.state
        refused = state.otp.refused if state.otp is not None else ()
        if isinstance(event, OtpVerified) or (isinstance(event, OtpInvalid) and event.attempts_remaining <= 0):
            state.otp = None
        link = pending.link
        if link is None:
            return
        if not pending.segments:
            link.send([structs.replace(event, request=pending.command.request)])
        elif isinstance(event, InteractionInvalid):
            self._refused_form(pending, event, link)
            _taken(pending)
        elif isinstance(event, OtpInvalid):
            self._note(link, pending, wording.code_invalid(event))
        elif self._session.route.otp_resend and refused:
            again = SubmitInput(request=pending.command.request, session=pending.command.session, segments=refused)
            self._session.command(link, again)
        else:
            self._note(link, pending, f"{event.text}\nSend your message again.")

    def _refused_form(self, pending: Pending, event: InteractionInvalid, link: Link) -> None:
        if self._form is None:
            return
        origin = Origin(link=link.id, request=pending.command.request)
        self._ask_on(self._form, self._form.again(event), pending.segments, origin)

    def _note(self, link: Link, pending: Pending, text: str) -> None:
        """Answer in words what was typed outside of any turn; who waits for an answer of his own gets it."""
        now = self._session.clock()
        self._session.deliver(self._session.form.noted(text, now, segments=pending.segments), now)
        if link.dialect.has_request_ids:
            link.send([QuestionAsked(text=text), Reply(request=pending.command.request)])
        else:
            _taken(pending)


def _taken(pending: Pending) -> None:
    """An answer in words was dealt with: who is attached sees what comes of it, who only calls is told so."""
    if pending.link is not None:
        _acknowledge(pending.link, pending.command.request)


def _acknowledge(link: Link, request: str) -> None:
    if not link.attaches:
        link.send([TurnAccepted(request=request)])


def _verdict(question: Question, *, approved: bool) -> Answer:
    """The gateway's own answer."""
    if isinstance(question, ApprovalRequested):
        return AnswerApproval(approved=approved)
    return AnswerInteraction(question=question.question, kind=question.kind, declined=True)


def _resolved(command: Answer) -> ApprovalResolved | InteractionResolved:
    if isinstance(command, AnswerApproval):
        return ApprovalResolved(question=command.question, approved=command.approved)
    return InteractionResolved(question=command.question, declined=command.declined or command.values is UNSET)
