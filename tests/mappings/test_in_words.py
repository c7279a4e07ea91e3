"""Questions in words: the events held back meanwhile, and the stored text of an answer that they interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.mappings.canonical.events import (
    Alert,
    QuestionAnswered,
    QuestionAsked,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
)
from dragoman.mappings.in_words import HELD_MAX, ParkedTurn, without_runs
from tests.step_counter import CopiedText

PARKS = QuestionAsked(text="May I?", question="q", parked=True)
ANSWERED = QuestionAnswered(question="q")
CALL = ToolCallStarted(call="c", name="x")
ARGUMENTS = ToolCallArguments(call="c", name="x", json="{}", done=True)
ALERT = Alert(level="warn", source="pod", text="late")
MORE = TextDelta(text="more")


class Loser:
    """Collects the lost events."""

    def __init__(self) -> None:
        self.lost: list[Any] = []

    def lose(self, source: Any, _field: str, _why: str) -> None:
        self.lost.append(source)


def test_a_question_and_the_events_before_it_are_shown() -> None:
    parked_turn = ParkedTurn()
    assert list(parked_turn.admit_events([MORE, PARKS], Loser().lose)) == [MORE, PARKS]
    assert parked_turn.parked


def test_a_question_that_does_not_park_the_turn_holds_nothing_back() -> None:
    parked_turn = ParkedTurn()
    parked_turn.admit_events([QuestionAsked(text="code?")], Loser().lose)
    assert list(parked_turn.admit_events([CALL], Loser().lose)) == [CALL]


def test_a_held_call_is_shown_after_the_answer() -> None:
    parked_turn = ParkedTurn()
    parked_turn.admit_events([PARKS], Loser().lose)
    assert list(parked_turn.admit_events([CALL], Loser().lose)) == []
    assert list(parked_turn.admit_events([ARGUMENTS], Loser().lose)) == []
    assert list(parked_turn.admit_events([ANSWERED, MORE], Loser().lose)) == [ANSWERED, CALL, ARGUMENTS, MORE]
    assert not parked_turn.parked
    assert parked_turn.held == []


def test_events_outside_of_the_turns_content_are_shown_at_once() -> None:
    parked_turn = ParkedTurn()
    parked_turn.admit_events([PARKS], Loser().lose)
    assert list(parked_turn.admit_events([CALL, ALERT], Loser().lose)) == [ALERT]


def test_a_second_question_in_the_batch_of_the_answer_holds_events_back_again() -> None:
    parked_turn = ParkedTurn()
    parked_turn.admit_events([PARKS], Loser().lose)
    parked_turn.admit_events([CALL], Loser().lose)
    assert list(parked_turn.admit_events([ANSWERED, PARKS], Loser().lose)) == [ANSWERED, CALL, PARKS]
    assert parked_turn.parked
    assert list(parked_turn.admit_events([ARGUMENTS], Loser().lose)) == []


def test_events_above_the_limit_are_counted_as_losses() -> None:
    parked_turn, loser = ParkedTurn(), Loser()
    parked_turn.admit_events([PARKS], loser.lose)
    parked_turn.admit_events([CALL] * (HELD_MAX + 2), loser.lose)
    assert loser.lost == [CALL, CALL]
    assert len(parked_turn.admit_events([ANSWERED], loser.lose)) == 1 + HELD_MAX


def test_a_copy_is_independent() -> None:
    parked_turn = ParkedTurn()
    parked_turn.admit_events([PARKS], Loser().lose)
    parked_turn.admit_events([CALL], Loser().lose)
    twin = parked_turn.copy()
    parked_turn.admit_events([ANSWERED], Loser().lose)
    assert list(twin.admit_events([ARGUMENTS, ANSWERED], Loser().lose)) == [ANSWERED, CALL, ARGUMENTS]


# -- stored answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "runs", "rest"),
    [
        ("One. Two.", ["One."], " Two."),
        ("One. Two.", ["One.\n\nMay I?"], " Two."),
        ("One. Two.", ["May I?"], "One. Two."),
        ("One.\n\nTwo.", ["One.\n\nMay I?\n\nReally?"], "\n\nTwo."),
        ("One. Two. Three.", ["One.\n\nMay I?", "What name?", " Two.\n\nAnd now?"], " Three."),
        ("", ["May I?"], ""),
    ],
)
def test_questions_at_the_end_of_a_run_are_not_looked_for_in_the_store(stored: str, runs: list[str], rest: str) -> None:
    assert without_runs(stored, runs) == rest


def test_a_stored_text_is_copied_once_for_all_runs() -> None:
    before = CopiedText.copies
    assert without_runs(CopiedText("aaab"), ["a"] * 3) == "b"
    assert CopiedText.copies == before + 1


def test_a_run_is_not_compared_character_by_character() -> None:
    class Run(str):
        __slots__ = ()

        def __iter__(self) -> Iterator[str]:
            raise AssertionError("50 ms for each megabyte")

    assert without_runs("One.\n\nTwo.", [Run("One.\n\nMay I?")]) == "\n\nTwo."
