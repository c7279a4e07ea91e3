"""The output of a turn of a primary: text, tool calls, and the rest that the store has."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.pando.translator.output import StreamedOutput
from dragoman.mappings.rfc3339 import NS


def test_texts_before_questions_are_kept_up_to_the_bound_of_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.mappings.pando.translator.output.TEXT_MAX", 4)
    output = StreamedOutput()
    for text, kept in (("ab", ("ab",)), ("cd", ("ab", "cd")), ("e", ())):
        output.add_text(text, 0)
        output = output.next(stored=False)
        assert output.before == kept


def test_output_after_a_silence_is_in_doubt_unless_it_belongs_to_an_open_call_or_announces_the_turn() -> None:
    output = StreamedOutput()
    output.take(events.ToolCallStarted(call="c", name="look"))
    output.take(events.ToolCallArguments(call="c", name="look", json="{}", done=True))
    in_doubt: list[Event] = [events.TextDelta(text="a"), events.ToolCallFinished(call="d", name="look", output="x")]
    certain: list[Event] = [
        events.ToolCallFinished(call="c", name="look", output="x"),
        events.ModelTurnStarted(),
        events.Heartbeat(),
    ]
    assert [output.is_in_doubt(event, NS) for event in [*in_doubt, *certain]] == [True, True, False, False, False]
    assert [output.is_in_doubt(event, NS - 1) for event in in_doubt] == [False, False]
    output.take(events.ModelTurnStarted())
    assert [output.is_in_doubt(event, NS) for event in in_doubt] == [False, False]
