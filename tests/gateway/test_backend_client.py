"""The blocking client of `send` and `chat`: answers that a user types, and the outcome of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from dragoman.gateway.backend_client.client import BackendClient
from dragoman.gateway.backend_client.in_process import InProcessEvent
from dragoman.gateway.backend_client.turn_runner import TurnOutcome, TurnRunner, TypedAnswer
from dragoman.gateway.endpoint import parse
from dragoman.mappings.canonical import Command, Event, events
from dragoman.mappings.canonical.commands import AnswerApproval, AnswerInteraction, AnswerOtp, SubmitInput
from dragoman.mappings.canonical.values import End, Failure, FieldError
from dragoman.mappings.errors import ConfigError

NAME = Raw(b'{"fields": [{"key": "name", "label": "full name"}]}')
FORM = events.InteractionRequired(question="q", kind="identity_intake", spec=NAME, reason="To find you")
APPROVAL = events.ApprovalRequested(tool="refund", description="Refund 42", question="q")
CODE = events.OtpRequired(tool="refund", description="Refund 42", channels=("sms",), auth_level="high")


class ScriptedClient(BackendClient):
    """A client whose backend answers the n-th command with the n-th list of events."""

    def __init__(self, *answers: Sequence[Event]) -> None:
        self.said: list[Command] = []
        self._answers = list(answers)
        self._events: list[InProcessEvent] = []

    def send_command(self, command: Command) -> str:
        self.said.append(command)
        request = f"client-{len(self.said)}"
        for event in self._answers.pop(0) if self._answers else ():
            told = events.TurnAccepted(request=request) if isinstance(event, events.TurnAccepted) else event
            self._events.append(InProcessEvent(event=told, turn="" if isinstance(event, ANSWERS) else "t"))
        return request

    def next_event(self, timeout: float | None = None) -> InProcessEvent | None:
        return self._events.pop(0) if self._events else None


ANSWERS = (events.Reply, events.InteractionInvalid, events.OtpInvalid, events.OtpVerified)
ACCEPTED = events.TurnAccepted()
ENDED = events.TurnEnded(end="completed", text="Done.")


def run(client: ScriptedClient, *typed: str) -> tuple[TurnOutcome, list[str]]:
    """Return the outcome of a turn, and the prompts at which the user typed these lines."""
    prompts: list[str] = []
    lines = list(typed)

    def ask(words: str) -> str | None:
        prompts.append(words)
        return lines.pop(0) if lines else None

    return TurnRunner(client, lambda _event: None, ask).run("hello"), prompts


def test_an_approval_is_given_by_its_word_alone() -> None:
    answer = TypedAnswer(APPROVAL)
    assert (answer.take("yes please"), answer.take("")) == (None, None)
    assert answer.take("approve\n") == AnswerApproval(approved=True, question="q")


def test_a_form_is_declined_by_skip() -> None:
    declined = AnswerInteraction(question="q", kind="identity_intake", declined=True)
    assert TypedAnswer(FORM).take("skip") == declined


@pytest.mark.parametrize("typed", ["code 123456", "123456"])
def test_a_code_is_typed_with_or_without_the_word(typed: str) -> None:
    assert TypedAnswer(CODE).take(typed) == AnswerOtp(code="123456")


def test_a_form_that_the_backend_refuses_is_asked_again_with_the_fault() -> None:
    fault = FieldError(field="name", text="too short")
    refused = events.InteractionInvalid(question="q", kind="identity_intake", errors=(fault,), text="no")
    client = ScriptedClient([ACCEPTED, FORM], [refused], [events.InteractionResolved(question="q"), ENDED])
    outcome, prompts = run(client, "A", "Ada")
    assert (outcome.ended, len(client.said)) == (ENDED, 3)
    assert prompts[1].startswith("name: too short  \n")


def test_the_input_is_sent_again_after_the_code_was_right() -> None:
    """A turn that asks for a one-time code ends (docs/translation.md, rule 3.3)."""
    refused = events.TurnEnded(end="completed", text="I need a code.")
    client = ScriptedClient([ACCEPTED, CODE, refused], [events.OtpVerified(text="right")], [ACCEPTED, ENDED])
    outcome, _ = run(client, "123456")
    assert [type(command) for command in client.said] == [SubmitInput, AnswerOtp, SubmitInput]
    assert outcome.ended == ENDED


def test_a_code_without_a_further_try_ends_the_wait() -> None:
    wrong = events.OtpInvalid(attempts_remaining=0, text="wrong")
    client = ScriptedClient([ACCEPTED, CODE, ENDED], [wrong])
    outcome, prompts = run(client, "123456")
    assert (outcome.ended, len(prompts)) == (ENDED, 1)


def test_a_question_that_nobody_answers_is_the_outcome() -> None:
    outcome, _ = run(ScriptedClient([ACCEPTED, APPROVAL]))
    assert (outcome.ended, outcome.question) == (None, TypedAnswer(APPROVAL).prompt)


def test_a_question_that_another_client_answered_takes_no_line() -> None:
    client = ScriptedClient([ACCEPTED, APPROVAL])
    turn = TurnRunner(client, lambda _event: None, lambda _words: answered())

    def answered() -> str:
        turn.take(InProcessEvent(event=events.ApprovalResolved(approved=False, question="q"), turn="t"))
        turn.take(InProcessEvent(event=ENDED, turn="t"))
        return "approve"

    assert turn.run("hello").ended == ENDED
    assert [type(command) for command in client.said] == [SubmitInput]


@pytest.mark.parametrize("end", ["paused", "completed", "cancelled"])  # smooth reports a paused turn as cancelled
def test_a_turn_that_ends_with_a_question_in_words_waits_for_its_answer(end: End) -> None:
    text = "One moment.\n\nMay I write?\nAnswer approve or deny."
    outcome, _ = run(ScriptedClient([ACCEPTED, events.TurnEnded(end=end, text=text)]))
    assert outcome.question == "May I write?\nAnswer approve or deny."


def test_a_paused_turn_waits_for_the_user() -> None:
    outcome, _ = run(ScriptedClient([ACCEPTED, events.TurnEnded(end="paused", text="Half")]))
    assert outcome.question == "The turn is paused until the user continues it."


def test_a_refused_input_is_the_outcome() -> None:
    failure = Failure(cause="busy", text="a run is in progress")
    outcome, _ = run(ScriptedClient([events.Reply(request="client-1", failure=failure)]))
    assert outcome == TurnOutcome(failure=failure)


def test_a_cancel_waits_for_the_end_of_the_turn() -> None:
    cancelled: Any = events.TurnEnded(end="cancelled")
    client = ScriptedClient([ACCEPTED], [cancelled])
    turn = TurnRunner(client, lambda _event: None, lambda _words: None)
    with pytest.raises(TimeoutError):
        turn.run("hello", 1.0)
    assert turn.cancel().ended == cancelled


def test_a_backend_that_cannot_be_dialled_is_an_error_of_the_caller() -> None:
    with pytest.raises(ConfigError, match="cannot connect to this"):
        BackendClient(parse("smooth+unix:/nowhere"))


def test_an_error_about_a_directory_without_pods_names_the_directory(tmp_path: Path) -> None:
    with BackendClient(parse(f"pod+dir:{tmp_path}")) as client, pytest.raises(ConfigError) as caught:
        client.open("")
    assert str(caught.value) == f"no pod is running (pod+dir:{tmp_path})"
