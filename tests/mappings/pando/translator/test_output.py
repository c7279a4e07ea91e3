"""The output of a turn of a primary: text, tool calls, and the rest that the store has."""

from __future__ import annotations

import pytest

from dragoman.mappings.pando.translator.output import StreamedOutput


def test_texts_before_questions_are_kept_up_to_the_bound_of_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.mappings.pando.translator.output.TEXT_MAX", 4)
    output = StreamedOutput()
    for text, kept in (("ab", ("ab",)), ("cd", ("ab", "cd")), ("e", ())):
        output.add_text(text)
        output = output.next(stored=False)
        assert output.before == kept
