"""The commands of a driver and their times, to a backend that the test plays event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

import pytest
from msgspec import Raw, structs

from dragoman.gateway.backend_client.client import BackendClient
from dragoman.gateway.backend_client.in_process import InProcessEvent
from dragoman.gateway.replay.driving import Driven, DrivenEvents, Driver, resolved, typed
from dragoman.gateway.session.wording import in_words
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    CancelTurn,
    PauseTurn,
    ResumeTurn,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    MessageAppended,
    OtpInvalid,
    Reply,
    TextDelta,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.state import Question
from dragoman.mappings.canonical.values import Failure, FieldError, Message, flatten
from tests.gateway.replay.recording_builder import RecordingBuilder

DEADLINE = 20.0
ASKED = ApprovalRequested(tool="refund", description="42", question="then")
FORM = InteractionRequired(question="f then", kind="identity", spec=Raw(b"{}"), reason="who")


class Client:
    """The client of a driver, whose other end the test plays."""

    def __init__(self) -> None:
        self.said: SimpleQueue[Command] = SimpleQueue()
        self.told: SimpleQueue[InProcessEvent] = SimpleQueue()
        self._requests = count(1)

    def open(self) -> None:
        """Open a session at once."""

    def send_command(self, command: Command) -> str:
        request = f"r{next(self._requests)}"
        self.said.put(structs.replace(command, request=request))
        return request

    def next_event(self, timeout: float) -> InProcessEvent | None:
        try:
            return self.told.get(timeout=timeout) if timeout > 0 else None
        except Empty:
            return None


class Backend:
    """The backend at the other end of a driver."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def hears(self) -> Any:
        """Return the next command."""
        return self._client.said.get(timeout=DEADLINE)

    @property
    def has_read_all(self) -> bool:
        """True if the driver has sent no further command."""
        return self._client.said.empty()

    def sends(self, *events: Event, turn: str = "t") -> None:
        """Deliver these events to all clients."""
        for event in events:
            self._client.told.put(InProcessEvent(event=event, turn=turn))

    def answers(self, event: Event) -> None:
        """Send this event to the driver alone."""
        self._client.told.put(InProcessEvent(event=event))

    def accepts(self, turn: str = "t") -> str:
        """Accept the next input; return its text."""
        command = self.hears()
        assert isinstance(command, SubmitInput)
        text = flatten(command.segments)
        message = MessageAppended(message=Message(role="user", text=text))
        self.sends(TurnAccepted(request=command.request), message, turn=turn)
        return text


@contextmanager
def driving(
    tape: RecordingBuilder,
    folder: Path,
    deadline: float = DEADLINE,
    progress: Callable[[int], None] = lambda _turns: None,
) -> Iterator[tuple[Backend, list[Driven]]]:
    """Run a driver in a thread; the list has its result when the block is left."""
    client, found = Client(), list[Driven]()
    driver = Driver(cast("BackendClient", client), tape.plan(folder), deadline=deadline, progress=progress)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(driver.run)
        yield Backend(client), found
        found.append(running.result(DEADLINE))


def approved() -> RecordingBuilder:
    """Return a recording whose turn is open and whose question was approved."""
    return RecordingBuilder().turn("one", ASKED, end=None).asks(AnswerApproval(approved=True, question="then"))


def cancelled() -> RecordingBuilder:
    """Return a recording whose turn was cancelled after five characters."""
    tape = RecordingBuilder().turn("one", TextDelta(text="12345"), end=None)
    return tape.asks(CancelTurn(), Reply(request="")).ends("cancelled")


def test_inputs_are_sent_one_after_the_other_and_their_answers_compared(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2"))
    with driving(tape, tmp_path) as (backend, found):
        assert backend.accepts() == "one"
        backend.sends(TextDelta(text="1"), TurnEnded(end="completed"))
        assert backend.accepts("t2") == "two"
        backend.sends(TextDelta(text="two"), TurnEnded(end="completed"), turn="t2")
    assert (found[0].turns, found[0].same) == (2, False)
    assert [(d.turn, d.what, d.a, d.b) for d in found[0].differences] == [(2, "text", "2", "two")]
    assert str(found[0]) == "turn 2: text\n- 2\n+ two"


@pytest.mark.parametrize("approved", [True, False])
def test_a_question_gets_its_recorded_answer_under_the_new_id(approved: bool, tmp_path: Path) -> None:
    resolved = ApprovalResolved(approved=approved, question="then")
    tape = RecordingBuilder().turn("one", ASKED, end=None).asks(AnswerApproval(approved=approved, question="then"))
    with driving(tape.sends(resolved).ends(), tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(ApprovalRequested(tool="refund", description="42", question="now"))
        answer = backend.hears()
        assert (answer.approved, answer.question) == (approved, "now")
        backend.sends(ApprovalResolved(approved=approved, question="now"), TurnEnded(end="completed"))
    assert str(found[0]) == ""


def test_a_form_is_filled_in_as_recorded(tmp_path: Path) -> None:
    filled = AnswerInteraction(question="f then", values=Raw(b'{"name":"Ann"}'))
    tape = (
        RecordingBuilder().turn("one", FORM, end=None).asks(filled).sends(InteractionResolved(question="f then")).ends()
    )
    with driving(tape, tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(InteractionRequired(question="f now", kind="identity", spec=Raw(b"{}"), reason="who"))
        answer = backend.hears()
        assert (bytes(answer.values), answer.question) == (b'{"name":"Ann"}', "f now")
        backend.sends(InteractionResolved(question="f now"), TurnEnded(end="completed"))
    assert str(found[0]) == ""


def test_a_form_whose_values_are_not_in_the_recording_is_declined(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", FORM, end=None).asks(AnswerInteraction(question="f then"))
    with driving(tape.sends(InteractionResolved(question="f then")).ends(), tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(InteractionRequired(question="f now", kind="identity", spec=Raw(b"{}"), reason="who"))
        answer = backend.hears()
        assert (answer.declined, answer.question) == (True, "f now")
        backend.sends(InteractionResolved(question="f now", declined=True), TurnEnded(end="completed"))
    assert [difference.what for difference in found[0].differences] == ["answer"]


def test_a_question_in_words_is_answered_in_words_and_is_no_turn_of_its_own(tmp_path: Path) -> None:
    tape = approved()
    tape.sends(ApprovalResolved(approved=True, question="then"), TextDelta(text="Done.")).ends().turn("two")
    with driving(tape, tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(TextDelta(text=in_words(ASKED)), TurnEnded(end="paused"))
        assert backend.accepts("t2") == "approve"
        backend.sends(TextDelta(text="Done."), TurnEnded(end="completed"), turn="t2")
        assert backend.accepts("t3") == "two"
        backend.sends(TurnEnded(end="completed"), turn="t3")
    assert (str(found[0]), found[0].turns) == ("", 2)


SIGN_UP = InteractionRequired(
    question="f then", kind="identity_intake", spec=Raw(b'{"fields":[{"key":"name"},{"key":"phone"}]}'), reason=""
)


def filled_in_again() -> RecordingBuilder:
    """Return a recording in which a form is answered, refused, answered again, and accepted."""
    wrong, right = (
        AnswerInteraction(question="f then", values=Raw(json))
        for json in (b'{"name":"Ada","phone":"1"}', b'{"name":"Ada","phone":"55"}')
    )
    errors = (FieldError(field="phone", text="too short"),)
    invalid = InteractionInvalid(question="f then", kind="identity_intake", errors=errors, text="no")
    tape = RecordingBuilder().turn("one", SIGN_UP, end=None).asks(wrong, invalid).asks(right, Reply(request=""))
    return tape.sends(InteractionResolved(question="f then"), TextDelta(text="Thanks.")).ends()


def test_a_refused_form_in_words_is_typed_again_from_the_wrong_field(tmp_path: Path) -> None:
    fields = (
        ("Your name? (1 of 2)", "Ada"),
        ("Your phone? (2 of 2)", "1"),
        ("phone: too short  \nYour phone? (2 of 2)", "55"),
    )
    with driving(filled_in_again(), tmp_path) as (backend, found):
        backend.accepts("t0")
        for number, (words, text) in enumerate(fields):
            said = TextDelta(text=f"{words}  \nskip declines.")
            backend.sends(said, TurnEnded(end="paused"), turn=f"t{number}")
            assert backend.accepts(f"t{number + 1}") == text
        backend.sends(TextDelta(text="Thanks."), TurnEnded(end="completed"), turn="t3")
    assert (str(found[0]), found[0].turns) == ("", 1)


def test_a_form_in_words_that_is_not_refused_now_is_not_typed_again(tmp_path: Path) -> None:
    with driving(filled_in_again(), tmp_path) as (backend, found):
        backend.accepts("t0")
        for number, words in enumerate(("Your name? (1 of 2)", "Your phone? (2 of 2)")):
            said = TextDelta(text=f"{words}  \nskip declines.")
            backend.sends(said, TurnEnded(end="paused"), turn=f"t{number}")
            backend.accepts(f"t{number + 1}")
        backend.sends(TextDelta(text="Thanks."), TurnEnded(end="completed"), turn="t2")
    assert [difference.what for difference in found[0].differences] == ["answer"]


def test_no_answer_is_typed_to_another_prompt(tmp_path: Path) -> None:
    tape = approved()
    tape.sends(ApprovalResolved(approved=True, question="then")).ends().turn("two")
    with driving(tape, tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(TextDelta(text="I did it."), TurnEnded(end="completed"))
        assert backend.accepts("t2") == "two"
        backend.sends(TurnEnded(end="completed"), turn="t2")
    assert {difference.what for difference in found[0].differences} == {"text", "question refund", "answer"}


def test_a_refused_answer_in_words_is_reported(tmp_path: Path) -> None:
    tape = approved()
    with driving(tape.sends(ApprovalResolved(approved=True)).ends(), tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(TextDelta(text=in_words(ASKED)), TurnEnded(end="paused"))
        failure = Failure(cause="busy", text="somebody else answered")
        backend.answers(Reply(request=backend.hears().request, failure=failure))
    assert found[0].refusals == ("the backend refused: somebody else answered",)


def test_a_question_that_was_not_recorded_is_denied(tmp_path: Path) -> None:
    with driving(RecordingBuilder().turn("one"), tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(ASKED)
        assert backend.hears().approved is False
        backend.sends(ApprovalResolved(approved=False), FORM)
        assert backend.hears().declined is True
        backend.sends(InteractionResolved(question="f then", declined=True), TurnEnded(end="completed"))
    assert {difference.what for difference in found[0].differences} == {
        "question refund",
        "question identity",
        "answer",
    }


def test_a_cancel_is_sent_after_as_much_output_as_recorded(tmp_path: Path) -> None:
    with driving(cancelled(), tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(TextDelta(text="123"))
        backend.sends(TextDelta(text="45"))
        cancel = backend.hears()
        assert isinstance(cancel, CancelTurn)
        backend.answers(Reply(request=cancel.request))
        backend.sends(TurnEnded(end="cancelled"))
    assert str(found[0]) == ""


def test_a_turn_that_is_over_is_not_cancelled(tmp_path: Path) -> None:
    with driving(cancelled(), tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(TextDelta(text="1"), TurnEnded(end="completed"))
    assert backend.has_read_all
    assert {difference.what for difference in found[0].differences} == {"text", "end"}


def test_a_resume_without_effect_ends_no_turn(tmp_path: Path) -> None:
    """A pod refuses it by an error to all clients, so the recording has no answer to it."""
    with driving(RecordingBuilder().turn("one").asks(ResumeTurn()).turn("two"), tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(TurnEnded(end="completed"))
        resume = backend.hears()
        assert isinstance(resume, ResumeTurn)
        failure = Failure(cause="not_running", text="nothing is paused")
        backend.answers(Reply(request=resume.request, failure=failure))
        assert backend.accepts("t2") == "two"
        backend.sends(TurnEnded(end="completed"), turn="t2")
    assert found[0].same


def test_a_refused_pause_does_not_end_the_turn(tmp_path: Path) -> None:
    """A smooth server, for example, cannot pause a turn: it goes on to its end."""
    tape = RecordingBuilder().turn("one", TextDelta(text="123"), end=None)
    tape.asks(PauseTurn(), Reply(request="")).ends("paused").asks(ResumeTurn(), Reply(request=""))
    tape.begins().sends(TextDelta(text="45")).ends().turn("two")
    with driving(tape, tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(TextDelta(text="123"))
        for kind in (PauseTurn, ResumeTurn):
            command = backend.hears()
            assert isinstance(command, kind)
            failure = Failure(cause="unsupported", text=f"no {kind.__name__}")
            backend.answers(Reply(request=command.request, failure=failure))
        backend.sends(ASKED)
        assert isinstance(backend.hears(), AnswerApproval), "the next input waits for the end of the turn"
        backend.sends(ApprovalResolved(approved=False), TurnEnded(end="completed"))
        assert backend.accepts("t2") == "two"
        backend.sends(TurnEnded(end="completed"), turn="t2")
    assert found[0].refusals == ("the backend refused: no PauseTurn", "the backend refused: no ResumeTurn")


def test_requests_recorded_after_a_turn_are_sent_after_that_turn(tmp_path: Path) -> None:
    wrong = OtpInvalid(request="", attempts_remaining=2, text="wrong")
    tape = RecordingBuilder().turn("one").asks(AnswerOtp(code="1"), wrong).turn("two")
    with driving(tape, tmp_path) as (backend, found):
        backend.accepts()
        backend.sends(TurnEnded(end="completed"))
        code = backend.hears()
        assert isinstance(code, AnswerOtp)
        backend.answers(OtpInvalid(request=code.request, attempts_remaining=2, text="wrong"))
        assert backend.accepts("t2") == "two"
        backend.sends(TurnEnded(end="completed"), turn="t2")
    assert str(found[0]) == ""


def test_a_refused_input_is_reported_and_the_next_one_sent(tmp_path: Path) -> None:
    with driving(RecordingBuilder().turn("one").turn("two"), tmp_path) as (backend, found):
        first = backend.hears()
        backend.answers(Reply(request=first.request, failure=Failure(cause="busy", text="compacting")))
        assert backend.accepts() == "two"
        backend.sends(TurnEnded(end="completed"))
    assert found[0].refusals == ("the backend refused: compacting",)


def test_a_silent_backend_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    with driving(RecordingBuilder().turn("one").turn("two"), tmp_path, deadline=0.05) as (_, found):
        pass  # the backend says nothing
    assert found[0].refusals == ("the backend did not accept an input within 0.05 s",)


def test_the_progress_of_driving_is_reported(tmp_path: Path) -> None:
    told: list[int] = []
    with driving(RecordingBuilder().turn("one"), tmp_path, progress=told.append) as (backend, _):
        backend.accepts()
        backend.sends(TurnEnded(end="completed"))
    assert told == [0, 1]


APPROVAL = ApprovalRequested(tool="refund", description="42", question="q")
SPEC = b'{"fields":[{"key":"name"},{"key":"email","required":false}]}'
INTAKE = InteractionRequired(question="f", kind="identity_intake", spec=Raw(SPEC), reason="Who?")
DECLINED = InteractionResolved(question="f", declined=True)
WORDS = in_words(APPROVAL)


def heard(*events: Any, turn: str = "t1") -> DrivenEvents:
    log = DrivenEvents()
    for event in events:
        log.take(turn, event)
    return log


def text(log: DrivenEvents) -> str:
    return "".join(event.text for _, event in log.events if isinstance(event, TextDelta))


@pytest.mark.parametrize(
    "parts", [[f"So. {WORDS}"], ["So. ", WORDS], ["So. ", *WORDS], ["So", f". {WORDS[:5]}", WORDS[5:]]]
)
def test_the_text_of_a_question_is_removed_however_it_was_streamed(parts: list[str]) -> None:
    log = heard(*(TextDelta(text=part) for part in parts), TurnEnded(end="paused"))
    assert log.take_back(WORDS)
    assert text(log) == "So. "
    assert not any(isinstance(event, TurnEnded) for _, event in log.events)


def test_other_text_and_the_end_of_its_turn_stay() -> None:
    log = heard(TextDelta(text=f"{WORDS} Or so."), TurnEnded(end="completed"))
    before = list(log.events)
    assert not log.take_back(WORDS)
    assert log.events == before
    assert not DrivenEvents().take_back(WORDS)


@pytest.mark.parametrize(
    ("asked", "answer", "said", "becomes"),
    [
        (APPROVAL, AnswerApproval(approved=True), ["approve"], ApprovalResolved(approved=True)),
        (APPROVAL, AnswerApproval(approved=False), ["deny"], ApprovalResolved(approved=False)),
        (
            INTAKE,
            AnswerInteraction(question="f", values=Raw(b'{"name":"Ada"}')),
            ["Ada", "none"],
            InteractionResolved(question="f"),
        ),
        (INTAKE, AnswerInteraction(question="f", declined=True), ["skip"], DECLINED),
        (INTAKE, AnswerInteraction(question="f"), ["skip"], DECLINED),
    ],
)
def test_an_answer_is_typed_word_for_word(asked: Question, answer: Command, said: list[str], becomes: Any) -> None:
    assert [text for _, text in typed(asked, answer)] == said
    assert resolved(asked, answer) == becomes


@pytest.mark.parametrize(
    ("wrong", "answer", "said"),
    [
        (("email",), AnswerInteraction(question="f", values=Raw(b'{"name":"Ada","email":"a@b"}')), ["a@b"]),
        ((), AnswerInteraction(question="f", values=Raw(b'{"name":"Ada","email":"a@b"}')), ["Ada", "a@b"]),
        (("name", "email"), AnswerInteraction(question="f", declined=True), ["skip"]),
    ],
)
def test_a_refused_form_is_typed_again_from_the_wrong_field(
    wrong: tuple[str, ...], answer: Command, said: list[str]
) -> None:
    errors = tuple(FieldError(field=key, text="no") for key in wrong)
    refused = InteractionInvalid(question="f", kind="identity_intake", errors=errors, text="Not so.")
    again = list(typed(INTAKE, answer, refused))
    assert [text for _, text in again] == said
    fault = "  \n".join(f"{key}: no" for key in wrong) or "Not so."
    assert again[0][0].startswith(f"{fault}  \nWho?  \nYour ")
    assert not any("no  \n" in words or "Not so" in words for words, _ in again[1:])
