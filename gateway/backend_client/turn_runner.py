"""Run one turn after the other with a backend, and have the user answer its questions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.adapters.base import do_nothing
from dragoman.gateway.backend_client.client import BackendClient
from dragoman.gateway.backend_client.in_process import InProcessEvent
from dragoman.gateway.session.wording import code, code_invalid, code_wanted, find_question, in_words, verdict
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import AnswerApproval, AnswerInteraction, AnswerOtp, CancelTurn, SubmitInput
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    OtpInvalid,
    OtpRequired,
    OtpVerified,
    Reply,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.state import Question
from dragoman.mappings.canonical.values import Failure, Text
from dragoman.mappings.forms import LINE_END, Form, declines

Asked = Question | OtpRequired
CANCEL_WAIT = 3.0  # seconds for the end of a turn that the user cancelled

ASKING_ENDS = ("paused", "completed", "cancelled")
PAUSED = "The turn is paused until the user continues it."


def question_words(asked: Asked) -> str:
    """Return the words of a question, with those that answer it."""
    return code_wanted(asked) if isinstance(asked, OtpRequired) else in_words(asked)


class TypedAnswer:
    """The answer to one question, as a user types it line by line; `prompt` asks for the next line."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._form = Form(asked) if isinstance(asked, InteractionRequired) else None
        self._fault = ""

    @property
    def prompt(self) -> str:
        """Return the question, after what was wrong with the line before."""
        if self._form is not None:
            return self._form.prompt(self._fault)
        words = question_words(self.asked)
        return f"{self._fault}{LINE_END}{words}" if self._fault else words

    def take(self, line: str) -> Command | None:
        """Return the answer that this line completes, or None if a further line is needed."""
        asked, text = self.asked, line.strip()
        if isinstance(asked, OtpRequired):
            return AnswerOtp(code=code(text) or text) if text else None
        if isinstance(asked, ApprovalRequested):
            approved = verdict(text)
            return None if approved is None else AnswerApproval(approved=approved, question=asked.question)
        if declines(text):
            return AnswerInteraction(question=asked.question, kind=asked.kind, declined=True)
        return self._filled_in(asked, text)

    def _filled_in(self, asked: InteractionRequired, text: str) -> Command | None:
        form = self._form
        if form is None:
            return None
        self._fault = form.take(text)
        if not form.done:
            return None
        return AnswerInteraction(question=asked.question, kind=asked.kind, values=form.values)

    def refuse(self, event: InteractionInvalid | OtpInvalid) -> bool:
        """Note that the backend refused the answer; return False if it takes no other."""
        if isinstance(event, OtpInvalid):
            self._fault = code_invalid(event)
            return event.attempts_remaining > 0
        self._fault = self._form.again(event) if self._form is not None else event.text
        return True


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """The end of an input: its turn's end, the `failure` for which there is none, or a `question` without an answer.

    A turn that ended with a question in words has both `ended` and `question`: the next input is the answer.
    """

    ended: TurnEnded | None = None
    failure: Failure | None = None
    question: str | None = None


def question_at_end(ended: TurnEnded) -> str:
    """Return the question in words with which a turn ended, and which the next input answers; "" if there is none.

    A dialect that has no paused turns reports one that waits as completed or cancelled.
    """
    return find_question(ended.text) if ended.end in ASKING_ENDS else ""


def _outcome(ended: TurnEnded | None, failure: Failure | None) -> TurnOutcome:
    """Return the outcome of an input. A turn that ended `paused` waits for the user, whatever its text says."""
    question = question_at_end(ended) if ended is not None else ""
    if not question and ended is not None and ended.end == "paused":
        question = PAUSED
    return TurnOutcome(ended=ended, failure=failure, question=question or None)


class TurnRunner:
    """Runs one turn at a time: sends an input, shows the events of its turn, and has its questions answered.

    `ask` returns the line that the user types at a prompt, None without a user. It may give further events to `take`
    meanwhile. `show_other` is called with events of no turn, and of turns that others began. `accepted` is true once
    the backend has the input.
    """

    def __init__(
        self,
        client: BackendClient,
        show: Callable[[Event], None],
        ask: Callable[[str], str | None],
        show_other: Callable[[InProcessEvent], None] = do_nothing,
    ) -> None:
        self._client = client
        self._show = show
        self._ask = ask
        self._show_other = show_other
        self._begin("")

    def _begin(self, request: str) -> None:
        self._request = request
        self._turn = ""
        self.accepted = False
        self._ended: TurnEnded | None = None
        self._failure: Failure | None = None
        self._answer: TypedAnswer | None = None  # the question that is open
        self._given: TypedAnswer | None = None  # the question whose answer is on its way
        self._verified = False
        self._shown = True

    def run(self, text: str, deadline: float | None = None) -> TurnOutcome:
        """Send an input and return how its turn ended; raise TimeoutError after the deadline."""
        until = None if deadline is None else time.monotonic() + deadline
        while True:
            self._begin(self._client.send_command(SubmitInput(segments=(Text(text=text),))))
            while not self._over:
                incoming = self._client.next_event(None if until is None else until - time.monotonic())
                if incoming is None:
                    raise TimeoutError
                self.take(incoming)
                if self._answer is not None and not self._have_answered():
                    return TurnOutcome(question=question_words(self._answer.asked))
            if not self._verified:
                return _outcome(self._ended, self._failure)

    @property
    def _over(self) -> bool:
        """Return True if no further event is expected: a code may be verified after the turn that asked for it."""
        codes = self._given is not None and isinstance(self._given.asked, OtpRequired)
        return self._verified or self._failure is not None or (self._ended is not None and not codes)

    def cancel(self, *, show: bool = True) -> TurnOutcome:
        """Cancel the turn, and wait for its end for a short time; without `show` its further events are not shown."""
        self._client.send_command(CancelTurn())
        self._answer = self._given = None
        self._shown = show
        until = time.monotonic() + CANCEL_WAIT
        while self._ended is None and self._failure is None:
            incoming = self._client.next_event(until - time.monotonic())
            if incoming is None:
                break
            self.take(incoming)
        return TurnOutcome(ended=self._ended, failure=self._failure)

    def take(self, incoming: InProcessEvent) -> None:
        """Act on an event: show it if it is one of the turn."""
        event = incoming.event
        self._note_answer(event)
        if isinstance(event, Reply) and event.failure is not None and event.request == self._request:
            self._failure = event.failure
        elif isinstance(event, TurnAccepted) and event.request == self._request:
            self._turn, self.accepted = incoming.turn, True
        if event is None or not self._turn or incoming.turn != self._turn:
            self._show_other(incoming)
            return
        if self._shown:
            self._show(event)
        if isinstance(event, Asked):
            self._answer = TypedAnswer(event)
        elif isinstance(event, TurnEnded):
            self._ended = event

    def _note_answer(self, event: Any) -> None:
        match event:
            case InteractionInvalid() | OtpInvalid() if self._given is not None:
                given, self._given = self._given, None
                self._answer = given if given.refuse(event) else None
            case OtpVerified() if self._given is not None:
                self._given, self._verified = None, True
            case ApprovalResolved() | InteractionResolved():
                self._answer = self._given = None

    def _have_answered(self) -> bool:
        """Let the user answer the open question; return False without an answer."""
        while (answer := self._answer) is not None:
            line = self._ask(answer.prompt)
            if line is None:
                return False
            if self._answer is answer and (command := answer.take(line)) is not None:
                self._answer, self._given = None, answer
                self._client.send_command(command)
        return True
