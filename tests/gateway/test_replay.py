"""Small parts of the replay: parts played one after another, steps played in time, and a replay inside a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway import registry
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability import logs
from dragoman.gateway.overload.fair_queue import STEP, FairQueue
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.part_player import Pace
from dragoman.gateway.replay.playing import Replay, plan_of
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.events import ModelTurnStarted, TextDelta
from tests.gateway.in_memory import ManualClock
from tests.gateway.recording.lines import in_parts
from tests.gateway.replay.recording_builder import RecordingBuilder, WatchedSession, said, types
from tests.services import services, soon

# -- part player -------------------------------------------------------------------------------------


def paced() -> tuple[Pace, ManualClock]:
    """Return the pace of a replay that has reached the first second of its recording (µs)."""
    time = ManualClock()
    pace = Pace(lambda: time.seconds)
    pace.begin(1_000_000)
    return pace, time


def test_a_late_event_does_not_delay_the_following_ones() -> None:
    pace, time = paced()
    time.passes(5)
    assert pace.seconds_until(3_000_000) == -3
    pace.reached(3_000_000)
    assert pace.seconds_until(7_000_000) == 1


def test_a_time_that_goes_back_is_no_pause() -> None:
    pace, _ = paced()
    pace.reached(2_000_000)
    pace.reached(1_500_000)
    assert pace.seconds_until(2_500_000) == 1.5


# -- playing -----------------------------------------------------------------------------------------


STATE = SessionState(id="s")


def replay(
    path: Path,
    options: str = "speed=instant",
    dialect: str = "pod",
    queue: FairQueue | None = None,
    time: ManualClock | None = None,
) -> Replay:
    endpoint = parse(f"replay+file:{path}?{options}")
    return Replay(endpoint, registry.dialect(dialect), plan_of(endpoint), services(time or ManualClock(), queue=queue))


def test_each_session_replays_the_recording_from_its_beginning(tmp_path: Path) -> None:
    made = replay(RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path), dialect="smooth")
    for _ in range(2):
        session = WatchedSession(STATE)
        made.backend(session).send([said("one")])
        assert types(session.events) == ["TurnAccepted", "StatusChanged", "TextDelta", "TurnEnded"]


@pytest.mark.parametrize(("dialect", "told"), [("pod", True), ("smooth", False)])
def test_model_turns_are_replayed_for_dialects_that_have_them(tmp_path: Path, dialect: str, told: bool) -> None:
    session = WatchedSession(STATE)
    path = RecordingBuilder().turn("one", ModelTurnStarted(index=0)).write(tmp_path)
    replay(path, dialect=dialect).backend(session).send([said("one")])
    assert ("ModelTurnStarted" in types(session.events)) == told


def test_a_replay_that_plays_by_itself_needs_no_input(tmp_path: Path) -> None:
    session, time = WatchedSession(STATE), ManualClock()
    path = RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path)
    replay(path, "speed=instant&auto=yes", time=time).backend(session).start()
    time.passes(1.0)
    assert "TextDelta" in types(session.events)


def test_each_command_to_a_replay_ends_the_step_because_it_is_compared_with_all_recorded_ones(tmp_path: Path) -> None:
    queue = FairQueue(soon)
    path = RecordingBuilder().turn("one").write(tmp_path)
    replay(path, queue=queue).backend(WatchedSession(STATE)).send([said("one"), said("another")])
    assert queue.budget.left == -STEP


def test_explanations_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = RecordingBuilder().turn("one").write(tmp_path)
    replay(path, "speed=instant&explain=yes").backend(WatchedSession(STATE)).send([said("one")])
    assert capsys.readouterr().err == "submit_input one: matched with input 1 (exact)\n"


def test_an_incomplete_recording_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = list(open_recording(RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path)).lines())
    first, last = in_parts(tmp_path / "parts.jsonl", lines, 1)
    first.unlink()
    logs.configure("info")
    replay(last)
    assert "part 0 is missing" in capfd.readouterr().err
