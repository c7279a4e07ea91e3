"""The events of a turn that goes on over a new connection: those that were heard before are dropped."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.session.resumed_turn import ResumedTurn
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    Gap,
    ReasoningDone,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallStarted,
)
from dragoman.mappings.canonical.state import CallBlock
from tests.gateway.session.test_turn_recovery import in_a_turn
from tests.step_counter import GROWTH, growth


def test_a_delta_inside_a_missed_block_costs_the_same_however_many_came_before() -> None:
    def many_deltas(number: int) -> Callable[[], object]:
        resumed = ResumedTurn(in_a_turn())
        return lambda: resumed.new_events([TextDelta(text="a")] * number)

    assert growth(many_deltas, [100, 100, 200, 400]) <= GROWTH


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
