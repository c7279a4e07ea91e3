"""The snapshot of a reconnected backend decides how the interrupted turn continues."""

from __future__ import annotations

import pytest

from dragoman.gateway.session.turn_recovery import ResumedTurn, find_turn, missed_events
from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical.events import (
    Event,
    Gap,
    HistorySnapshot,
    MessageAppended,
    ReasoningDone,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallStarted,
)
from dragoman.mappings.canonical.state import CallBlock, TextBlock
from dragoman.mappings.canonical.values import Item, Message, PastRun, Reasoning

ASKED = Message(role="user", text="Hi", id="u")


def answered(text: str) -> tuple[Item, ...]:
    return (ASKED, Message(role="assistant", text=text, id="a"))


def in_a_turn(*parts: str) -> SessionState:
    block = TextBlock(at=0)
    block.parts += parts
    turn = OpenTurn(id="t", message="m", blocks=[block], open=block, accepted=True)
    return SessionState(id="s", turn=turn, transcript=[ASKED])


def test_a_run_with_an_end_ends_the_turn_with_that_end() -> None:
    history = HistorySnapshot(
        items=answered("Hello"), status="idle", runs=(PastRun(first=1, last=2, end="limit_reached"),)
    )
    found = find_turn(in_a_turn("Hel"), "Hi", history, 0)
    assert (found.verdict, found.end) == ("ended", "limit_reached")


@pytest.mark.parametrize(
    ("item", "missed"),
    [
        (ASKED, []),
        (Message(role="system", text="note"), [MessageAppended(message=Message(role="system", text="note"))]),
        (Message(role="user", text="More"), [Gap(text="the message that this turn answers was missed")]),
        (Reasoning(text="hm"), [ReasoningDone(text="hm")]),
        (Message(role="assistant", text="Bye"), []),  # a part of it was missed: the text that was heard stays
    ],
)
def test_an_item_of_the_run_is_told_as_far_as_it_was_not_heard(item: Item, missed: list[Event]) -> None:
    state = in_a_turn("Hel")
    assert state.turn is not None
    assert state.turn.open is not None
    state.turn.open.done = True
    assert missed_events(state.turn, state.transcript, [item]) == missed


def test_received_content_is_left_out_once_and_new_content_stays() -> None:
    resumed = ResumedTurn(in_a_turn("Hel"))
    told: list[Event] = [TextDelta(text="Hello"), TextDelta(text="Hello")]
    assert resumed.new_events(told) == [TextDelta(text="lo"), TextDelta(text="Hello")]


def test_fragments_of_a_call_are_left_out_as_far_as_they_were_received() -> None:
    state = in_a_turn()
    assert state.turn is not None
    call = CallBlock(call="c", name="ls", parts=['{"a'])
    state.turn.blocks, state.turn.calls, state.turn.open = [call], {"c": call}, None
    begun = ToolCallStarted(call="c", name="ls")
    told = ResumedTurn(state).new_events([begun, ToolCallArguments(call="c", name="ls", json='{"all')])
    assert told == [ToolCallArguments(call="c", name="ls", json="ll")]


def test_the_end_of_another_block_tells_that_a_part_may_be_missing() -> None:
    gap, *ended = ResumedTurn(in_a_turn("Hel")).new_events([ReasoningDone(text="hm")])
    assert isinstance(gap, Gap)
    assert ended == [TextDone(text="Hel"), ReasoningDone(text="hm")]


def test_the_end_of_another_block_ends_a_text_that_is_in_the_log() -> None:
    """A reasoning without text opens no block: a later text would be taken for more of the open one."""
    done = ReasoningDone(text="")
    assert ResumedTurn(in_a_turn("Hel"), logged=True).new_events([done]) == [TextDone(text="Hel"), done]


def test_a_status_that_says_running_does_not_end_the_repetition() -> None:
    resumed = ResumedTurn(in_a_turn("Hel"))
    running = StatusChanged(status="running")
    assert resumed.new_events([running, TextDelta(text="Hello")]) == [running, TextDelta(text="lo")]


def test_deltas_that_wait_for_their_done_text_are_released_before_the_end_of_the_turn() -> None:
    resumed = ResumedTurn(in_a_turn())
    idle = StatusChanged(status="idle")
    gap, *released = resumed.new_events([TextDelta(text="lo"), idle])
    assert isinstance(gap, Gap)
    assert released == [TextDelta(text="lo"), idle]


def test_deltas_that_wait_for_their_done_text_are_released_by_the_end_of_another_block() -> None:
    resumed = ResumedTurn(in_a_turn())
    assert resumed.new_events([TextDelta(text="lo")]) == []
    other = ReasoningDone(text="I greet.")
    gap, *released = resumed.new_events([other])
    assert isinstance(gap, Gap)
    assert released == [TextDelta(text="lo"), other]


CUT_OFF = Message(role="assistant", text="Hel", id="a")  # a pod does not log it
WOKEN = PastRun(first=0, last=0)
INPUT = Message(role="user", text="More", id="v")


@pytest.mark.parametrize(
    ("known", "found_running", "items", "runs", "verdict"),
    [
        ((CUT_OFF,), False, (), (WOKEN,), "running"),
        ((CUT_OFF,), False, (INPUT,), (WOKEN, PastRun(first=0, last=1)), "unknown"),
        ((ASKED,), True, (ASKED,), (PastRun(first=0, last=1),), "running"),
        ((ASKED,), True, (ASKED,), (PastRun(first=0, last=1), PastRun(first=1, last=1)), "unknown"),
        ((), True, (), (WOKEN,), "running"),
        ((ASKED,), True, (ASKED, INPUT), (PastRun(first=0, last=1, end="failed"), PastRun(first=1, last=2)), "unknown"),
        ((ASKED,), False, (INPUT,), (PastRun(first=0, last=1),), "running"),  # the history was rewritten
    ],
)
def test_a_turn_without_input_goes_on_unless_another_run_began(
    known: tuple[Item, ...], found_running: bool, items: tuple[Item, ...], runs: tuple[PastRun, ...], verdict: str
) -> None:
    state = SessionState(id="s", turn=OpenTurn(id="t", message="m"), transcript=[*known], found_running=found_running)
    history = HistorySnapshot(items=items, status="running", runs=runs)
    assert find_turn(state, None, history, len(known)).verdict == verdict


def test_an_equal_input_after_the_lost_one_is_another_turn() -> None:
    """A pod does not log an input with an unknown workflow, so the histories differ."""
    runs = PastRun(first=0, last=1), PastRun(first=1, last=2)
    history = HistorySnapshot(items=(ASKED, ASKED), status="running", runs=runs)
    state = SessionState(id="s", turn=OpenTurn(id="t", message="m", accepted=True), transcript=[INPUT, ASKED])
    assert find_turn(state, "Hi", history, 1).verdict == "unknown"
