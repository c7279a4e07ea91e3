"""The states of a turn: the table that runs the code is the one that the design shows."""

from __future__ import annotations

import pytest

from dragoman.gateway.session.turn_states import TURN, Trigger, TurnState, TurnStates
from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical.events import ApprovalRequested
from dragoman.mappings.canonical.state import QuestionBlock
from tests.docs import DESIGN, with_turn_states


def states(*triggers: Trigger) -> TurnStates:
    made = TurnStates(SessionState(id="s"))
    for trigger in triggers:
        made.on(trigger)
    return made


def test_the_diagram_in_the_design_document_is_generated_from_the_table() -> None:
    text = DESIGN.read_text("utf-8")
    assert with_turn_states(text) == text, "make docs"


def test_each_state_has_a_row_and_is_reached_again_and_each_trigger_has_a_transition() -> None:
    assert set(TURN) == {next_state for row in TURN.values() for next_state in row.values()} == set(TurnState)
    assert {trigger for row in TURN.values() for trigger in row} == set(Trigger)


def test_a_turn_that_ended_only_for_its_clients_is_discarded_until_its_backend_ends_it() -> None:
    cut = (Trigger.BEGUN, Trigger.CUT, Trigger.ENDED)
    assert states(*cut).turn is TurnState.DISCARDED
    assert states(*cut, Trigger.RAN_OUT).turn is TurnState.NONE


def test_a_trigger_without_a_row_changes_nothing() -> None:
    assert states(Trigger.RAN_OUT, Trigger.ANSWERED).turn is TurnState.NONE


@pytest.mark.parametrize(("asked", "state"), [(False, TurnState.OPEN), (True, TurnState.PARKED)])
def test_a_session_that_has_a_turn_begins_with_it(asked: bool, state: TurnState) -> None:
    turn = OpenTurn(id="t", message="m")
    if asked:
        turn.question = QuestionBlock(asked=ApprovalRequested(question="q", tool="rm", description="?"))
    assert TurnStates(SessionState(id="s", turn=turn)).turn is state
