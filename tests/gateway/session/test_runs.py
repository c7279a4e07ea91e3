"""Runs of events: kept in order, folded as they come, and never two turns in one."""

from __future__ import annotations

from dragoman.gateway.session.runs import Runs
from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical.events import Alert, StatusChanged, TextDelta, TurnEnded
from dragoman.mappings.canonical.values import Origin

OURS = Origin(link="smooth-1", request="r1")


def runs_of(state: SessionState) -> Runs:
    runs = Runs(state, lambda: "t1", tells_model_turns=True)
    runs.begin(7)
    return runs


def test_a_turn_begins_and_ends_a_run() -> None:
    state = SessionState(id="s")
    runs = runs_of(state)
    runs.emit(StatusChanged(status="running"))
    runs.open_turn(OURS)
    runs.emit(TextDelta(text="x"))
    runs.end_turn(TurnEnded(end="completed", text="x", message="m"))
    runs.emit(Alert(level="warn", source="pod", text="late"))
    assert [(run.turn, run.origin, len(run.events), run.ended) for run in runs.finish()] == [
        ("", Origin(), 1, False),
        ("t1", OURS, 2, True),
        ("", Origin(), 1, False),
    ]


def test_a_new_origin_begins_a_run_in_the_same_turn() -> None:
    state = SessionState(id="s", turn=OpenTurn(id="t1", message="m"))
    runs = runs_of(state)
    runs.emit(TextDelta(text="x"))
    assert state.turn is not None
    state.turn.origin = OURS
    runs.split()
    runs.emit(TextDelta(text="y"))
    assert [(run.turn, run.origin) for run in runs.finish()] == [("t1", Origin()), ("t1", OURS)]


def test_each_step_begins_with_the_open_turn() -> None:
    state = SessionState(id="s", turn=OpenTurn(id="t1", message="m"))
    runs = runs_of(state)
    runs.emit(TextDelta(text="x"))
    runs.begin(8)
    assert runs.finish() == []
    runs.begin(9)
    runs.emit(TextDelta(text="y"))
    assert [run.events for run in runs.finish()] == [[TextDelta(text="y")]]
