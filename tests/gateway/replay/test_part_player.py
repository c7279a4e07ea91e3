"""The player of a part: its pace, an early command, and its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.replay.part_player import Pace, PartPlayer
from dragoman.gateway.replay.replayed_events import ReplayedEvents
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.events import TextDelta
from tests.gateway.in_memory import ManualClock
from tests.gateway.replay.recording_builder import RecordingBuilder


class Playing:
    """The player of a recorded part whose second text comes a second after the first; `log` is what it did."""

    def __init__(self, folder: Path) -> None:
        tape = RecordingBuilder().turn("Hi", TextDelta(text="one"), end=None)
        plan = tape.at(1_000).sends(TextDelta(text="two")).plan(folder)
        self.clock = ManualClock()
        self.log: list[str] = []
        events = ReplayedEvents(lambda: SessionState(id="s"), tells_model_turns=False)
        pace = Pace(lambda: self.clock.seconds)
        self.player = PartPlayer(plan, events, pace, self.clock.later, self._send, lambda: self.log.append("end"))
        self.player.begin(plan.inputs[0].parts[0])
        self.player.play()

    def _send(self, *events: Event) -> None:
        self.log += [event.text for event in events if isinstance(event, TextDelta)]


def test_a_part_is_played_at_its_pace_to_its_end(tmp_path: Path) -> None:
    playing = Playing(tmp_path)
    assert playing.log == ["one"]
    playing.clock.passes(1)
    assert playing.log == ["one", "two", "end"]


def test_the_rest_of_a_part_comes_at_once_before_an_early_command(tmp_path: Path) -> None:
    playing = Playing(tmp_path)
    playing.player.skip_pauses(lambda: playing.log.append("command"))
    assert playing.log == ["one", "two", "command"]


def test_a_stopped_player_sends_nothing_more(tmp_path: Path) -> None:
    playing = Playing(tmp_path)
    playing.player.stop()
    playing.clock.passes(1)
    assert playing.log == ["one"]


# -- the pace ------------------------------------------------------------------------------------------


def paced(speed: float, idle_cap: float | None = None) -> tuple[Pace, ManualClock]:
    time = ManualClock()
    pace = Pace(lambda: time.seconds, speed, idle_cap)
    pace.begin(1_000_000)
    return pace, time


@pytest.mark.parametrize(
    ("speed", "idle_cap", "seconds"),
    [
        (1.0, None, 2.5),
        (2.0, None, 1.25),
        (2.0, 1.0, 0.5),  # cut first, and then made shorter
    ],
)
def test_a_pause_is_cut_to_the_idle_cap_and_divided_by_the_speed(
    speed: float, idle_cap: float | None, seconds: float
) -> None:
    pace, _ = paced(speed, idle_cap)
    assert pace.seconds_until(3_500_000) == pytest.approx(seconds)


def test_replay_at_instant_speed_has_no_pauses() -> None:
    pace, _ = paced(0.0)
    assert pace.seconds_until(60_000_000) <= 0


def test_a_late_event_does_not_delay_the_following_ones() -> None:
    pace, time = paced(1.0)
    time.passes(5)
    assert pace.seconds_until(3_000_000) == pytest.approx(-3)
    pace.reached(3_000_000)
    assert pace.seconds_until(7_000_000) == pytest.approx(1)


def test_a_time_that_goes_back_is_no_pause() -> None:
    pace, _ = paced(1.0)
    pace.reached(2_000_000)
    assert pace.seconds_until(1_500_000) == pytest.approx(1)
