"""The runs before the open turn that are parts of the same run at the backend."""

from __future__ import annotations

import pytest

from dragoman.gateway.session.turn_recovery import as_events, begin_of_run, heard_before, not_heard
from dragoman.gateway.session.wording import ANSWER_APPROVAL, ANSWER_CODE
from dragoman.mappings.canonical import SessionState, events
from dragoman.mappings.canonical.values import Item, Message, Reasoning, Role, ToolCall, ToolResult

QUESTION = f"The agent asks.\n{ANSWER_APPROVAL}"
CALLED: list[Item] = [
    Reasoning(text="hm", turn="t2"),
    ToolCall(call="c", name="ls", arguments="{}", turn="t2"),
    ToolResult(call="c", name="ls", output="x", turn="t2"),
]


def said(role: Role, text: str, turn: str) -> Message:
    return Message(role=role, text=text, turn=turn)


def state(*items: Item) -> SessionState:
    return SessionState(id="s", transcript=list(items), fresh=len(items))


BEFORE = said("user", "Hi", "t1"), said("assistant", "Hello", "t1")
ASKED = said("user", "Delete it", "t2"), *CALLED, said("assistant", f"Let me see.\n\n{QUESTION}", "t2")
AGAIN = said("user", "approve", "t3"), said("assistant", QUESTION, "t3")


def test_a_run_begins_with_the_first_of_the_turns_that_a_question_in_words_joins() -> None:
    assert begin_of_run(state(*BEFORE, *ASKED, *AGAIN)) == len(BEFORE)
    assert begin_of_run(state(*BEFORE, *ASKED)) == len(BEFORE)
    assert begin_of_run(state(*ASKED)) == 0


@pytest.mark.parametrize("last", ["Hello", f"Pay?\n{ANSWER_CODE}", f"{QUESTION}\n\nYou denied it."])
def test_a_run_begins_with_its_turn_if_no_question_parked_the_one_before(last: str) -> None:
    items = said("user", "Hi", "t1"), said("assistant", last, "t1")
    assert begin_of_run(state(*items)) == len(items)
    assert begin_of_run(state()) == 0


def test_questions_and_what_the_user_typed_are_not_among_what_the_backend_told() -> None:
    heard = heard_before(state(*BEFORE, *ASKED, *AGAIN))
    assert heard == [*CALLED, said("assistant", "Let me see.", "t2")]


def test_items_that_were_heard_are_left_out_once_each() -> None:
    first, more, result = said("assistant", "Yes", "t"), said("assistant", "Yes", "u"), CALLED[2]
    assert not_heard([first, *CALLED, more], [first, *CALLED[:2]]) == (result, more)


def test_items_are_told_as_the_events_of_their_turn() -> None:
    assert [*as_events([*CALLED, said("assistant", "Yes", "t2")])] == [
        events.ReasoningStarted(),
        events.ReasoningDelta(text="hm"),
        events.ReasoningDone(text="hm"),
        events.ToolCallStarted(call="c", name="ls"),
        events.ToolCallArguments(call="c", name="ls", json="{}", done=True),
        events.ToolCallFinished(call="c", name="ls", output="x"),
        events.TextDelta(text="Yes"),
        events.TextDone(text="Yes"),
    ]
