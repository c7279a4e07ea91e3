"""The output of a turn of a primary: text, tool calls, and the rest that the store has."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import events
from dragoman.mappings.pando.translator.output import StreamedOutput


def test_an_answer_gets_its_start_once() -> None:
    output = StreamedOutput()
    first, second = events.TextDelta(text="a"), events.TextDelta(text="b")
    assert output.take(first) == [events.ModelTurnStarted(), first]
    assert output.take(second) == [second]


def test_the_rest_is_the_stored_text_that_was_not_published() -> None:
    output = StreamedOutput()
    output.take(events.TextDelta(text="Hel"))
    assert output.rest("Hello") == [events.TextDelta(text="lo")]
    assert output.rest("Hel") == []


def test_a_stored_text_that_contradicts_the_published_one_is_a_gap() -> None:
    output = StreamedOutput()
    output.take(events.TextDelta(text="Hel"))
    assert [type(event) for event in output.rest("Bye")] == [events.Gap]


def test_texts_before_questions_are_kept_up_to_the_bound_of_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.mappings.pando.translator.output.TEXT_MAX", 4)
    output = StreamedOutput()
    for text, kept in (("ab", ("ab",)), ("cd", ("ab", "cd")), ("e", ())):
        output.add_text(text)
        output = output.next(stored=False)
        assert output.before == kept
