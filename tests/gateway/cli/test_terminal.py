"""The lines that a terminal shows of the events of a turn."""

from __future__ import annotations

from typing import cast

import pytest

from dragoman.gateway.cli.terminal import Terminal, TurnDisplay
from dragoman.gateway.session.wording import in_words
from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import End, Failure


class Lines:
    """Stands for a terminal: it keeps what is written, with how it is written."""

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self.shown: list[str] = []

    def write(self, text: str, _style: str = "") -> None:
        self.shown.append(text)

    def end_line(self) -> None:
        self.shown.append("\n")

    def row(self, text: str) -> None:
        self.shown.append(f"row {text}")

    def note(self, text: str) -> None:
        self.shown.append(f"note {text}")

    def fail(self, text: str) -> None:
        self.shown.append(f"fail {text}")


def shown(*happened: Event, live: bool = True) -> list[str]:
    lines = Lines(live=live)
    display = TurnDisplay(cast("Terminal", lines))
    display.begin()
    for event in happened:
        display.show(event)
        if isinstance(event, events.TurnEnded):
            display.show_end(event)
    return lines.shown


def test_text_is_written_as_it_comes() -> None:
    assert shown(events.TextDelta(text="a"), events.TextDelta(text="b"), events.TextDone(text="ab")) == ["a", "b", "\n"]


@pytest.mark.parametrize(("live", "written"), [(True, ["hm"]), (False, [])])
def test_reasoning_is_shown_to_people_alone(live: bool, written: list[str]) -> None:
    assert shown(events.ReasoningDelta(text="hm"), live=live) == written


@pytest.mark.parametrize(("is_error", "sign"), [(False, "→"), (True, "failed")])
def test_a_tool_call_is_one_line_with_its_arguments_and_result(is_error: bool, sign: str) -> None:
    started = events.ToolCallStarted(call="c", name="ls")
    arguments = events.ToolCallArguments(call="c", name="", json='{"a":1}', done=True)
    finished = events.ToolCallFinished(call="c", name="ls", output="two", is_error=is_error)
    assert shown(started, arguments, finished) == [f'row · ls {{"a":1}} {sign} two']


@pytest.mark.parametrize(
    ("error", "told"),
    [("boom", ["fail Error: boom"]), ("other", ["fail Error: other", "fail The turn failed: boom"])],
)
def test_the_cause_of_a_failed_turn_is_told_unless_it_was_the_last_error(error: str, told: list[str]) -> None:
    ended = events.TurnEnded(end="failed", failure=Failure(cause="internal", text="boom"))
    assert shown(events.ErrorReported(cause="internal", text=error), ended) == told


def test_the_end_of_a_turn_is_told_unless_it_completed() -> None:
    assert shown(events.TurnEnded(end="completed")) == []
    assert shown(events.TurnEnded(end="limit_reached")) == ["note The turn ended: limit reached."]


@pytest.mark.parametrize("end", ["paused", "completed", "cancelled"])
def test_the_end_of_a_turn_that_asks_in_words_is_not_told_because_the_turn_goes_on(end: End) -> None:
    words = in_words(events.ApprovalRequested(question="q", tool="pay", description="1 EUR"))
    assert shown(events.TurnEnded(end=end, text=f"I ask first.\n\n{words}")) == []


def test_the_end_of_a_turn_that_is_paused_without_a_question_is_told() -> None:
    assert shown(events.TurnEnded(end="paused", text="I wait.")) == ["note The turn ended: paused."]
