"""The commands of a driver and their times, to a backend that the test plays event by event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from dragoman.gateway.recording.show.compare import turns_of
from dragoman.gateway.replay.driving import Driven, DrivenEvents, Driver, DrivingError, resolved, typed
from dragoman.gateway.replay.in_process import COMMAND, InProcessEvent
from dragoman.gateway.session.wording import in_words
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    CancelTurn,
    OpenSession,
    ResumeTurn,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
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
from tests.transport_reader import receive

ASKED = ApprovalRequested(tool="refund", description="42", question="then")
FORM = InteractionRequired(question="f then", kind="identity", spec=Raw(b"{}"), reason="who")


class Backend:
    """The backend at the other end of a driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def hears(self) -> Any:
        """Return the next command."""
        (frame,) = await asyncio.wait_for(receive(self.driver.transport), 5)
        assert isinstance(frame, bytes)
        return COMMAND.decode(frame)

    async def sends(self, *events: Event, turn: str = "t") -> None:
        """Deliver these events to all clients."""
        await self.driver.transport.send(
            [msgspec.json.encode(InProcessEvent(event=event, turn=turn)) for event in events]
        )

    async def answers(self, event: Event) -> None:
        """Send these events to the driver alone."""
        await self.driver.transport.send([msgspec.json.encode(InProcessEvent(event=event))])

    async def opens(self) -> None:
        assert isinstance(await self.hears(), OpenSession)
        await self.driver.transport.send([msgspec.json.encode(InProcessEvent(attached="s"))])

    async def accepts(self, turn: str = "t") -> str:
        """Accept the next input; return its text."""
        command = await self.hears()
        assert isinstance(command, SubmitInput)
        text = flatten(command.segments)
        message = MessageAppended(message=Message(role="user", text=text))
        await self.sends(TurnAccepted(request=command.request), message, turn=turn)
        return text


@asynccontextmanager
async def driving(
    tape: RecordingBuilder, folder: Path, deadline: float = 5
) -> AsyncIterator[tuple[Backend, list[Driven]]]:
    driver, found = Driver(tape.plan(folder), deadline=deadline), list[Driven]()

    async def run() -> None:
        found.append(await driver.run())

    async with asyncio.TaskGroup() as group:
        group.create_task(run(), name="driver")
        yield Backend(driver), found


async def test_inputs_are_sent_one_after_the_other_and_their_answers_compared(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2"))
    async with driving(tape, tmp_path) as (backend, found):
        await backend.opens()
        assert await backend.accepts() == "one"
        await backend.sends(TextDelta(text="1"), TurnEnded(end="completed"))
        assert await backend.accepts("t2") == "two"
        await backend.sends(TextDelta(text="two"), TurnEnded(end="completed"), turn="t2")
    assert (found[0].turns, found[0].same) == (2, False)
    assert [(d.turn, d.what, d.a, d.b) for d in found[0].differences] == [(2, "text", "2", "two")]
    assert str(found[0]) == "turn 2: text\n- 2\n+ two"


@pytest.mark.parametrize("approved", [True, False])
async def test_a_question_gets_its_recorded_answer_under_the_new_id(approved: bool, tmp_path: Path) -> None:
    resolved = ApprovalResolved(approved=approved, question="then")
    tape = RecordingBuilder().turn("one", ASKED, end=None).asks(AnswerApproval(approved=approved, question="then"))
    async with driving(tape.sends(resolved).ends(), tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(ApprovalRequested(tool="refund", description="42", question="now"))
        answer = await backend.hears()
        assert (answer.approved, answer.question) == (approved, "now")
        await backend.sends(ApprovalResolved(approved=approved, question="now"), TurnEnded(end="completed"))
    assert str(found[0]) == ""


async def test_a_form_is_filled_in_as_recorded(tmp_path: Path) -> None:
    filled = AnswerInteraction(question="f then", values=Raw(b'{"name":"Ann"}'))
    tape = (
        RecordingBuilder().turn("one", FORM, end=None).asks(filled).sends(InteractionResolved(question="f then")).ends()
    )
    async with driving(tape, tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(InteractionRequired(question="f now", kind="identity", spec=Raw(b"{}"), reason="who"))
        answer = await backend.hears()
        assert (bytes(answer.values), answer.question) == (b'{"name":"Ann"}', "f now")
        await backend.sends(InteractionResolved(question="f now"), TurnEnded(end="completed"))
    assert str(found[0]) == ""


async def test_a_refused_form_is_filled_in_again_as_recorded(tmp_path: Path) -> None:
    wrong, right = (AnswerInteraction(question="f then", values=Raw(json)) for json in (b'{"n":1}', b'{"n":2}'))
    invalid = InteractionInvalid(question="f then", kind="identity", errors=(), text="no")
    tape = RecordingBuilder().turn("one", FORM, end=None).asks(wrong, invalid).asks(right, Reply(request=""))
    async with driving(tape.sends(InteractionResolved(question="f then")).ends(), tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(FORM)
        first = await backend.hears()
        await backend.answers(structs.replace(invalid, request=first.request))
        second = await backend.hears()
        assert [bytes(answer.values) for answer in (first, second)] == [b'{"n":1}', b'{"n":2}']
        await backend.sends(InteractionResolved(question="f then"), TurnEnded(end="completed"))
    assert str(found[0]) == ""


async def test_a_question_in_words_is_answered_in_words_and_is_no_turn_of_its_own(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", ASKED, end=None).asks(AnswerApproval(approved=True, question="then"))
    tape.sends(ApprovalResolved(approved=True, question="then"), TextDelta(text="Done.")).ends().turn("two")
    async with driving(tape, tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(TextDelta(text=in_words(ASKED)), TurnEnded(end="paused"))
        assert await backend.accepts("t2") == "approve"
        await backend.sends(TextDelta(text="Done."), TurnEnded(end="completed"), turn="t2")
        assert await backend.accepts("t3") == "two"
        await backend.sends(TurnEnded(end="completed"), turn="t3")
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


async def test_a_refused_form_in_words_is_typed_again_from_the_wrong_field(tmp_path: Path) -> None:
    fields = (
        ("Your name? (1 of 2)", "Ada"),
        ("Your phone? (2 of 2)", "1"),
        ("phone: too short\nYour phone? (2 of 2)", "55"),
    )
    async with driving(filled_in_again(), tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts("t0")
        for number, (words, text) in enumerate(fields):
            said = TextDelta(text=f"{words}\nskip declines.")
            await backend.sends(said, TurnEnded(end="paused"), turn=f"t{number}")
            assert await backend.accepts(f"t{number + 1}") == text
        await backend.sends(TextDelta(text="Thanks."), TurnEnded(end="completed"), turn="t3")
    assert (str(found[0]), found[0].turns) == ("", 1)


async def test_a_form_in_words_that_is_not_refused_now_is_not_typed_again(tmp_path: Path) -> None:
    async with driving(filled_in_again(), tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts("t0")
        for number, words in enumerate(("Your name? (1 of 2)", "Your phone? (2 of 2)")):
            said = TextDelta(text=f"{words}\nskip declines.")
            await backend.sends(said, TurnEnded(end="paused"), turn=f"t{number}")
            await backend.accepts(f"t{number + 1}")
        await backend.sends(TextDelta(text="Thanks."), TurnEnded(end="completed"), turn="t2")
    assert [difference.what for difference in found[0].differences] == ["answer"]


async def test_no_answer_is_typed_to_another_prompt(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", ASKED, end=None).asks(AnswerApproval(approved=True, question="then"))
    tape.sends(ApprovalResolved(approved=True, question="then")).ends().turn("two")
    async with driving(tape, tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(TextDelta(text="I did it."), TurnEnded(end="completed"))
        assert await backend.accepts("t2") == "two"
        await backend.sends(TurnEnded(end="completed"), turn="t2")
    assert {difference.what for difference in found[0].differences} == {"text", "question refund", "answer"}


async def test_a_refused_answer_in_words_is_reported(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", ASKED, end=None).asks(AnswerApproval(approved=True, question="then"))
    async with driving(tape.sends(ApprovalResolved(approved=True)).ends(), tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(TextDelta(text=in_words(ASKED)), TurnEnded(end="paused"))
        failure = Failure(cause="busy", text="somebody else answered")
        await backend.answers(Reply(request=(await backend.hears()).request, failure=failure))
    assert found[0].refusals == ("the backend refused: somebody else answered",)


async def test_a_question_that_was_not_recorded_is_denied(tmp_path: Path) -> None:
    async with driving(RecordingBuilder().turn("one"), tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(ASKED)
        assert (await backend.hears()).approved is False
        await backend.sends(ApprovalResolved(approved=False), FORM)
        assert (await backend.hears()).declined is True
        await backend.sends(InteractionResolved(question="f then", declined=True), TurnEnded(end="completed"))
    assert {difference.what for difference in found[0].differences} >= {"question refund", "question identity"}


async def test_a_cancel_is_sent_after_as_much_output_as_recorded(tmp_path: Path) -> None:
    tape = (
        RecordingBuilder()
        .turn("one", TextDelta(text="12345"), end=None)
        .asks(CancelTurn(), Reply(request=""))
        .ends("cancelled")
    )
    async with driving(tape, tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(TextDelta(text="123"))
        await backend.sends(TextDelta(text="45"))
        cancel = await backend.hears()
        assert isinstance(cancel, CancelTurn)
        await backend.answers(Reply(request=cancel.request))
        await backend.sends(TurnEnded(end="cancelled"))
    assert str(found[0]) == ""


async def test_a_turn_that_is_over_is_not_cancelled(tmp_path: Path) -> None:
    tape = (
        RecordingBuilder()
        .turn("one", TextDelta(text="12345"), end=None)
        .asks(CancelTurn(), Reply(request=""))
        .ends("cancelled")
    )
    async with driving(tape, tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(TextDelta(text="1"), TurnEnded(end="completed"))
    assert {difference.what for difference in found[0].differences} == {"text", "end"}


async def test_a_resume_without_effect_ends_no_turn(tmp_path: Path) -> None:
    """A pod refuses it by an error to all clients, so the recording has no answer to it."""
    async with driving(RecordingBuilder().turn("one").asks(ResumeTurn()).turn("two"), tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(TurnEnded(end="completed"))
        resume = await backend.hears()
        assert isinstance(resume, ResumeTurn)
        failure = Failure(cause="not_running", text="nothing is paused")
        await backend.answers(Reply(request=resume.request, failure=failure))
        assert await backend.accepts("t2") == "two"
        await backend.sends(TurnEnded(end="completed"), turn="t2")
    assert found[0].same


async def test_requests_recorded_after_a_turn_are_sent_after_that_turn(tmp_path: Path) -> None:
    wrong = OtpInvalid(request="", attempts_remaining=2, text="wrong")
    tape = RecordingBuilder().turn("one").asks(AnswerOtp(code="1"), wrong).turn("two")
    async with driving(tape, tmp_path) as (backend, found):
        await backend.opens()
        await backend.accepts()
        await backend.sends(TurnEnded(end="completed"))
        code = await backend.hears()
        assert isinstance(code, AnswerOtp)
        await backend.answers(OtpInvalid(request=code.request, attempts_remaining=2, text="wrong"))
        assert await backend.accepts("t2") == "two"
        await backend.sends(TurnEnded(end="completed"), turn="t2")
    assert str(found[0]) == ""


async def test_a_refused_input_is_reported_and_the_next_one_sent(tmp_path: Path) -> None:
    async with driving(RecordingBuilder().turn("one").turn("two"), tmp_path) as (backend, found):
        await backend.opens()
        first = await backend.hears()
        await backend.answers(Reply(request=first.request, failure=Failure(cause="busy", text="compacting")))
        assert await backend.accepts() == "two"
        await backend.sends(TurnEnded(end="completed"))
    assert found[0].refusals == ("the backend refused: compacting",)


async def test_a_silent_backend_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    async with driving(RecordingBuilder().turn("one").turn("two"), tmp_path, deadline=0.05) as (backend, found):
        await backend.opens()
    assert found[0].refusals == ("the backend did not accept an input within 0.05 s",)


async def test_a_backend_that_opens_no_session_cannot_be_driven(tmp_path: Path) -> None:
    driver = Driver(RecordingBuilder().turn("one").plan(tmp_path), deadline=0.05)
    with pytest.raises(DrivingError, match="opened no session in time"):
        await driver.run()


async def test_the_progress_of_driving_is_reported(tmp_path: Path) -> None:
    told: list[int] = []
    driver = Driver(RecordingBuilder().turn("one").plan(tmp_path), progress=told.append)
    async with asyncio.TaskGroup() as group:
        group.create_task(driver.run(), name="driver")
        backend = Backend(driver)
        await backend.opens()
        await backend.accepts()
        await backend.sends(TurnEnded(end="completed"))
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


def test_output_after_a_typed_answer_belongs_to_the_turn_that_asked() -> None:
    log = heard(TextDelta(text=WORDS), TurnEnded(end="paused"))
    log.take_back(WORDS)
    log.take_more(APPROVAL)
    log.take("t2", MessageAppended(message=Message(role="user", text="approve")))
    log.take("t2", TextDelta(text="Done."))
    log.take("t2", TurnEnded(end="completed"))
    log.begin()
    log.take("t3", MessageAppended(message=Message(role="user", text="next")))
    first, second = turns_of(log.events)
    assert [(block.what, block.text) for block in first.blocks] == [("text", "Done."), ("question", "42")]
    assert (first.end, [block.text for block in second.blocks]) == ("completed", ["next"])


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


def test_each_field_is_typed_after_its_own_prompt() -> None:
    answer = AnswerInteraction(question="f", values=Raw(b'{"name":"Ada"}'))
    assert [words.split("\n")[1] for words, _ in typed(INTAKE, answer)] == [
        "Your name? (1 of 2)",
        "Your email? (none leaves it out) (2 of 2)",
    ]


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
    fault = "\n".join(f"{key}: no" for key in wrong) or "Not so."
    assert again[0][0].startswith(f"{fault}\nWho?\nYour ")
    assert not any("no\n" in words or "Not so" in words for words, _ in again[1:])
