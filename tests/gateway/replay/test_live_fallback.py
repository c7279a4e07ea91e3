"""Which of the two is asked: the recording, or the live backend behind it."""

from __future__ import annotations

from pathlib import Path

from dragoman.gateway.replay.live_fallback import LiveFallback
from dragoman.gateway.replay.reports import Reporter
from dragoman.gateway.replay.scenes import cut
from dragoman.mappings.canonical.commands import CancelTurn, GetHistory, ListCompletions
from dragoman.mappings.canonical.events import TextDelta, TurnEnded
from dragoman.mappings.dialect import Burst
from tests.gateway.replay.recording_builder import RecordingBuilder, WatchedReplay, said, types
from tests.gateway.replay.test_live import Behind


class Both:
    def __init__(self, folder: Path, *, spy: bool, until: int | None = None) -> None:
        tape = RecordingBuilder().turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2"))
        play = tape.play(folder)
        self.watched = WatchedReplay(play if until is None else cut(play, play.ends[until - 1] if until else 0))
        self.behind = Behind()
        self.reporter = Reporter(self.watched.ledger)
        self.forked = LiveFallback(self.watched.backend, self.behind.live, self.reporter, spy=spy)

    def asks(self, *commands: object) -> list[str]:
        """Ask this; what the live backend was asked for it."""
        before = len(self.behind.backend.asked)
        self.forked.send(commands)  # type: ignore[arg-type]  # commands of any kind
        return types(self.behind.backend.asked[before:])


def test_a_spy_passes_on_what_is_not_matched_and_nothing_else(tmp_path: Path) -> None:
    both = Both(tmp_path, spy=True)
    assert both.asks(said("one")) == []
    assert both.asks(said("something else")) == ["SubmitInput"]
    assert both.watched.ledger.counters["replay_passed_on"] == 1
    assert both.watched.ledger.counters["replay_not_recorded"] == 0


def test_a_turn_of_the_live_backend_has_its_commands_and_the_next_input_is_matched_again(tmp_path: Path) -> None:
    both = Both(tmp_path, spy=True)
    both.asks(said("something else"))
    assert both.asks(CancelTurn(), GetHistory()) == ["CancelTurn"]
    both.behind.live.receive([Burst(items=[TurnEnded(end="cancelled")])])
    assert both.asks(said("two")) == []
    assert both.asks(ListCompletions(kind="file", prefix="a")) == ["ListCompletions"]


def test_a_fork_hands_over_when_the_play_is_over(tmp_path: Path) -> None:
    both = Both(tmp_path, spy=False, until=1)
    both.forked.start()
    before = both.behind.backend.started
    assert both.asks(said("one")) == []
    assert (before, both.behind.backend.started) == (False, True)
    assert both.asks(said("two")) == ["SubmitInput"]


def test_before_that_a_fork_is_strict(tmp_path: Path) -> None:
    both = Both(tmp_path, spy=False, until=1)
    assert both.asks(said("something else")) == []
    assert types(both.watched.news()) == ["Reply"]


def test_a_fork_at_the_beginning_has_the_history_alone(tmp_path: Path) -> None:
    both = Both(tmp_path, spy=False, until=0)
    both.forked.start()
    assert both.asks(said("one")) == ["SubmitInput"]


def test_both_end_with_their_session(tmp_path: Path) -> None:
    both = Both(tmp_path, spy=True)
    both.forked.rest()
    both.forked.stop()
    assert both.behind.backend.stopped
    both.watched.backend.send([said("one")])
    assert both.watched.news(after=1) == [], "nothing is played any more"
