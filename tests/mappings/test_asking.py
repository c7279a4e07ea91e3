"""What is kept back while clients are asked in words, and in which order it is shown then."""

from __future__ import annotations

from typing import Any

from dragoman.mappings.asking import KEPT_MAX, Asking
from dragoman.mappings.canonical.events import (
    Alert,
    QuestionAnswered,
    QuestionAsked,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
)

PARKS = QuestionAsked(text="May I?", question="q", parked=True)
ANSWERED = QuestionAnswered(question="q")
CALL = ToolCallStarted(call="c", name="x")
ARGUMENTS = ToolCallArguments(call="c", name="x", json="{}", done=True)
ALERT = Alert(level="warn", source="pod", text="late")
MORE = TextDelta(text="more")


class Loser:
    """Counts what is lost."""

    def __init__(self) -> None:
        self.lost: list[Any] = []

    def lose(self, source: Any, _field: str, _why: str) -> None:
        self.lost.append(source)


def test_what_comes_before_a_question_and_the_question_are_shown() -> None:
    asking = Asking()
    assert list(asking.admit([MORE, PARKS], Loser().lose)) == [MORE, PARKS]
    assert asking.parked


def test_a_question_that_parks_nothing_keeps_nothing_back() -> None:
    asking = Asking()
    asking.admit([QuestionAsked(text="code?")], Loser().lose)
    assert list(asking.admit([CALL], Loser().lose)) == [CALL]


def test_the_call_that_waits_is_shown_behind_the_answer() -> None:
    asking = Asking()
    asking.admit([PARKS], Loser().lose)
    assert list(asking.admit([CALL], Loser().lose)) == []
    assert list(asking.admit([ARGUMENTS], Loser().lose)) == []
    assert list(asking.admit([ANSWERED, MORE], Loser().lose)) == [ANSWERED, CALL, ARGUMENTS, MORE]
    assert not asking.parked
    assert asking.kept == []


def test_what_does_not_belong_to_the_turns_content_is_shown_at_once() -> None:
    asking = Asking()
    asking.admit([PARKS], Loser().lose)
    assert list(asking.admit([CALL, ALERT], Loser().lose)) == [ALERT]


def test_a_question_that_is_asked_on_in_the_same_batch_keeps_back_again() -> None:
    asking = Asking()
    asking.admit([PARKS], Loser().lose)
    asking.admit([CALL], Loser().lose)
    assert list(asking.admit([ANSWERED, PARKS], Loser().lose)) == [ANSWERED, CALL, PARKS]
    assert asking.parked
    assert list(asking.admit([ARGUMENTS], Loser().lose)) == []


def test_so_much_is_kept_and_the_rest_counted() -> None:
    asking, loser = Asking(), Loser()
    asking.admit([PARKS], loser.lose)
    asking.admit([CALL] * (KEPT_MAX + 2), loser.lose)
    assert loser.lost == [CALL, CALL]
    assert len(asking.admit([ANSWERED], loser.lose)) == 1 + KEPT_MAX


def test_a_copy_goes_its_own_way() -> None:
    asking = Asking()
    asking.admit([PARKS], Loser().lose)
    asking.admit([CALL], Loser().lose)
    twin = asking.copy()
    asking.admit([ANSWERED], Loser().lose)
    assert list(twin.admit([ARGUMENTS, ANSWERED], Loser().lose)) == [ANSWERED, CALL, ARGUMENTS]
