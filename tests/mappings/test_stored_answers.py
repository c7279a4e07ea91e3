"""The stored text of an answer whose runs ended with questions in words."""

from __future__ import annotations

import pytest

from dragoman.mappings.stored_answers import without_runs
from tests.step_counter import CopiedText


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
