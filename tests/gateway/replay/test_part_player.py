"""The player of a part: its pace, an early command, and its end."""

from __future__ import annotations

from pathlib import Path

from dragoman.gateway.replay.options import Pace
from dragoman.gateway.replay.part_player import PartPlayer
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
    playing.player.hurry(lambda: playing.log.append("command"))
    assert playing.log == ["one", "two", "command"]


def test_a_stopped_player_sends_nothing_more(tmp_path: Path) -> None:
    playing = Playing(tmp_path)
    playing.player.stop()
    playing.clock.passes(1)
    assert playing.log == ["one"]
