"""The normal form of questions: their words, their answers, and the runs that they end and begin."""

from __future__ import annotations

import pytest

from dragoman.gateway.session.question_form import Given
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionResolved,
    ModelTurnEnded,
    ModelTurnStarted,
    OtpRequired,
    OtpSent,
    QuestionAnswered,
    QuestionAsked,
    StatusChanged,
    TextDelta,
    ToolCallStarted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Origin, Text
from tests.gateway.session.hand_fed import FORM, MAY_I, NormalFormHarness, accepted, asked, kinds

THEIRS = Origin(link="pod-1", request="p1")


def test_a_question_gets_an_id_and_its_words_after_the_text_before_it_is_closed() -> None:
    session = accepted()
    said = session.feed(TextDelta(text="Well. "), MAY_I)
    assert kinds(said) == ["TextDelta", "TextDone", "ApprovalRequested", "QuestionAsked"]
    native, words = said[-2:]
    assert isinstance(native, ApprovalRequested)
    assert isinstance(words, QuestionAsked)
    assert native.question
    assert (words.question, words.before, words.number, words.parked) == (native.question, "Well. ", 1, True)


def test_a_form_keeps_its_own_id_and_names_its_kind() -> None:
    session = NormalFormHarness()
    words = session.feed(FORM)[-1]
    assert isinstance(words, QuestionAsked)
    assert (words.question, words.kind) == ("i", "identity_intake")


def test_a_question_in_words_is_the_last_of_its_run() -> None:
    session = NormalFormHarness()
    session.feed(MAY_I, ToolCallStarted(call="c", name="rm"))
    assert kinds(session.runs[-2].events)[-1] == "QuestionAsked"
    assert kinds(session.runs[-1].events) == ["ToolCallStarted"]


def test_a_question_that_the_route_answers_is_not_put_in_words() -> None:
    session = NormalFormHarness(asks_in_words=False)
    assert kinds(session.feed(MAY_I))[-1] == "ApprovalRequested"
    resolved = session.form.questions.answered(Given(resolved=ApprovalResolved(approved=False)), 9)
    assert kinds([event for run in resolved for event in run.events]) == ["ApprovalResolved"]


@pytest.mark.parametrize("end", [StatusChanged(status="idle"), TurnEnded(end="cancelled"), TurnEnded(end="completed")])
def test_a_question_is_closed_before_its_turn_is(end: Event) -> None:
    session = asked(TextDelta(text="a"))
    said = session.feed(end)
    assert kinds(said)[:2] == ["ApprovalResolved", "QuestionAnswered"]
    assert isinstance(said[-1], TurnEnded)
    assert said[-1].text == "a", "the question is no part of it"
    assert session.state.turn is None


def test_a_further_question_replaces_the_one_before() -> None:
    session = asked()
    said = session.feed(FORM)
    assert kinds(said) == ["ApprovalResolved", "QuestionAnswered", "InteractionRequired", "QuestionAsked"]
    assert isinstance(said[-1], QuestionAsked)
    assert said[-1].number == 2


def test_a_closed_question_counts_as_answered_by_the_pending_answer() -> None:
    session = asked()
    turn = session.state.turn
    assert turn is not None
    assert turn.question is not None
    yes = ApprovalResolved(question=turn.question.asked.question, approved=True)
    session.given = Given(resolved=yes, segments=(Text(text="approve"),), origin=THEIRS)
    said = session.feed(TextDelta(text="gone"))
    assert kinds(said) == ["TurnAccepted", "ApprovalResolved", "QuestionAnswered", "TextDelta"]
    assert said[1] == yes
    assert session.runs[-1].origin == THEIRS


def test_a_typed_answer_continues_as_a_run_of_its_link() -> None:
    session = asked(TextDelta(text="Well. "))
    typed = (Text(text="deny"),)
    given = Given(resolved=ApprovalResolved(question="", approved=False), segments=typed, origin=THEIRS)
    said = session.take_runs(session.form.questions.answered(given, 9))
    assert kinds(said) == ["TurnAccepted", "ApprovalResolved", "QuestionAnswered"]
    assert isinstance(said[-1], QuestionAnswered)
    assert (said[-1].segments, said[-1].before, said[-1].number) == (typed, "Well. ", 1)
    assert session.runs[-1].origin == THEIRS


def test_a_question_that_continues_is_answered_and_asked_in_one_run() -> None:
    session = NormalFormHarness()
    session.feed(FORM)
    said = session.take_runs(session.form.questions.asked_again("And?", 9, segments=(Text(text="Al"),), origin=THEIRS))
    assert kinds(said) == ["TurnAccepted", "QuestionAnswered", "QuestionAsked"]
    assert isinstance(said[-1], QuestionAsked)
    assert (said[-1].text, said[-1].number) == ("And?", 2)
    assert session.state.turn is not None
    assert session.state.turn.question is not None


def test_a_resolution_by_the_backend_closes_the_open_question() -> None:
    session = asked()
    said = session.feed(ApprovalResolved(approved=True))
    assert kinds(said) == ["ApprovalResolved", "QuestionAnswered"]
    session.feed(InteractionResolved(question="x"))
    assert [loss.kind for loss in session.form.losses] == ["InteractionResolved"]


def test_a_requested_code_parks_no_turn_and_is_asked_for_in_words_within_the_turn() -> None:
    session = NormalFormHarness()
    session.accept("Pay")
    said = session.feed(
        TextDelta(text="Hm."),
        OtpRequired(tool="pay", description="d", channels=("sms",), auth_level="end_user"),
        OtpSent(channel="sms", destination="*"),
        TurnEnded(end="completed"),
    )
    assert kinds(said)[:6] == ["TextDelta", "TextDone", "OtpRequired", "QuestionAsked", "OtpSent", "QuestionAsked"]
    assert not any(isinstance(event, QuestionAsked) and event.parked for event in said)
    assert session.state.otp is not None
    assert session.state.otp.refused == (Text(text="Pay"),)


def test_without_model_turns_of_the_backend_each_run_begins_with_the_next_number() -> None:
    session = NormalFormHarness(sends_model_turns=False)
    said = [*session.accept(), *session.feed(MAY_I, TextDelta(text="x"), TurnEnded(end="completed"))]
    indices = [
        event.model_turn if isinstance(event, QuestionAnswered) else event.index
        for event in said
        if isinstance(event, QuestionAnswered | ModelTurnStarted | ModelTurnEnded)
    ]
    assert indices == [0, 1, 1]


def test_a_code_sent_outside_of_turns_is_a_run_of_its_own() -> None:
    session = NormalFormHarness()
    assert kinds(session.feed(OtpSent(channel="sms", destination="*"))) == [
        "OtpSent",
        "QuestionAnswered",
        "QuestionAsked",
    ]
