"""The live backend behind a replay: the events that the session gets from it, and the history that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from dragoman.gateway import registry
from dragoman.gateway.backends.asking import HELD_MAX
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.replay.live import LiveBackend, LiveFallback
from dragoman.gateway.replay.matching import Reporter
from dragoman.gateway.replay.plan import cut_plan
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import CancelTurn, GetHistory, ListCompletions, OpenSession, ResumeSession
from dragoman.mappings.canonical.events import (
    Alert,
    HistorySnapshot,
    ModelTurnStarted,
    Reply,
    SessionOpened,
    StatusChanged,
    TextDelta,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Failure, Message
from dragoman.mappings.dialect import Burst
from tests.gateway.in_memory import ManualClock
from tests.gateway.replay.recording_builder import RecordingBuilder, WatchedReplay, WatchedSession, said, types
from tests.services import services

SPOKEN = [Message(role="user", text="one"), Message(role="system", text="s"), Message(role="assistant", text="1")]


class Session(WatchedSession):
    """A session in the middle of a conversation, which notes that its backend was lost."""

    def __init__(self) -> None:
        super().__init__(SessionState(id="own", backend_ids={}, transcript=list(SPOKEN)))
        self.losses: list[tuple[str, list[Command]]] = []

    def lost(self, text: str, unsent: Sequence[Command], cause: str = "") -> bool:
        self.losses.append((text, list(unsent)))
        return False


class Backend:
    def __init__(self) -> None:
        self.asked: list[Command] = []
        self.started = self.stopped = False

    def start(self) -> None:
        self.started = True

    def send(self, commands: Sequence[Command]) -> None:
        self.asked += commands

    def suspend(self) -> bool:
        raise AssertionError("it is kept")

    def stop(self) -> None:
        self.stopped = True


class Behind:
    """A live backend of some dialect behind a session."""

    def __init__(self, dialect: str = "pod", *, tells: bool = True) -> None:
        self.session, self.backend, self.time, self.ledger = Session(), Backend(), ManualClock(), Ledger()
        ids = iter(range(100))
        self.live = LiveBackend(
            self.session,
            registry.dialect(dialect),
            services(self.time, ledger=self.ledger, new_id=lambda: f"own {next(ids)}"),
            lambda _events: self.backend,
            name="there",
            sends_model_turns=tells,
        )

    def sends(self, *events: Event) -> list[str]:
        before = len(self.session.events)
        self.live.receive([Burst(items=list(events))])
        return types(self.session.events[before:])


def test_ids_and_history_of_the_live_backend_are_hidden_from_the_session() -> None:
    behind = Behind()
    opened = SessionOpened(request="", session="theirs", ext={"pod.name": msgspec.Raw(b'"x"')})
    assert behind.sends(HistorySnapshot(items=()), opened, TextDelta(text="a")) == ["TextDelta"]
    assert behind.live.state.backend_ids == {"pod.name": msgspec.Raw(b'"x"')}
    assert behind.session.state.backend_ids == {}
    assert [entry.kind for entry in behind.ledger.entries()] == ["HistorySnapshot"]


def test_a_live_connection_begins_without_the_ids_of_the_replay() -> None:
    assert Behind().live.state.backend_ids is None


@pytest.mark.parametrize(("tells", "heard"), [(True, ["ModelTurnStarted"]), (False, [])])
def test_model_turns_are_added_if_the_session_relies_on_them(tells: bool, heard: list[str]) -> None:
    assert Behind(tells=tells).sends(ModelTurnStarted(index=0)) == heard


def test_model_turn_numbers_of_the_live_backend_are_hidden_from_the_session() -> None:
    behind = Behind()
    behind.sends(ModelTurnStarted(index=0))
    assert behind.session.events == [ModelTurnStarted()]


def test_a_turn_of_the_live_backend_runs_from_its_input_to_its_end() -> None:
    behind = Behind()
    behind.live.send([said("go", request="r")])
    assert behind.live.running
    behind.sends(TurnAccepted(request="r"), StatusChanged(status="running"), TextDelta(text="a"))
    behind.live.send([CancelTurn(request="c")])
    behind.sends(Reply(request="c", failure=Failure(cause="unsupported", text="cannot")))
    assert behind.live.running, "its input was taken"
    behind.sends(TurnEnded(end="completed"))
    assert not behind.live.running


def test_a_refused_input_begins_no_live_turn() -> None:
    behind = Behind()
    behind.live.send([said("go", request="r")])
    behind.sends(Reply(request="r", failure=Failure(cause="busy", text="no")))
    assert not behind.live.running


def test_losing_the_live_backend_affects_the_session_only_during_a_live_turn() -> None:
    behind = Behind()
    behind.live.lost("gone", [])
    assert behind.session.losses == []
    behind.live.send([said("go", request="r")])
    behind.live.lost("gone", [])
    assert behind.session.losses == [("gone", [])]
    assert not behind.live.running


@pytest.mark.parametrize("dialect", ["pod", "smooth"])
def test_a_live_backend_that_takes_no_history_continues_without_it_and_that_is_reported(dialect: str) -> None:
    behind = Behind(dialect)
    with capture_logs() as logs:
        behind.live.take_over()
    text = "the live backend continues without the 2 messages before: its dialect takes no history"
    (alert,) = behind.session.events
    assert isinstance(alert, Alert)
    assert (alert.level, alert.text, [entry["event"] for entry in logs]) == ("warn", text, [text])
    assert behind.backend.started
    behind.live.send([said("go")])
    assert types(behind.backend.asked) == ["SubmitInput"]


def test_without_a_history_no_missing_context_is_reported() -> None:
    behind = Behind()
    behind.session.state.transcript = []
    behind.live.take_over()
    assert behind.session.events == []


def test_a_live_backend_that_takes_a_history_gets_it_before_the_first_command() -> None:
    behind = Behind("codewhale")
    behind.session.state.opening = OpenSession(cwd="/src")
    behind.live.take_over()
    behind.live.send([said("go")])
    (opening,) = behind.backend.asked
    assert opening == OpenSession(request="own 0", cwd="/src")
    behind.sends(SessionOpened(request="own 0", session="thread-1"))
    resume = behind.backend.asked[1]
    assert isinstance(resume, ResumeSession)
    assert (resume.session, resume.request) == ("thread-1", "own 1")
    assert resume.ext is not None
    assert msgspec.json.decode(resume.ext["codewhale.params"])["history"] == [
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "1"}]},
    ]
    behind.sends(SessionOpened(request="own 1", session="thread-1"))
    assert types(behind.backend.asked[2:]) == ["SubmitInput"]
    assert behind.session.events == [], "nothing is missing"


def test_a_live_backend_that_refuses_the_history_continues_without_it_and_that_is_reported() -> None:
    behind = Behind("codewhale")
    behind.live.take_over()
    behind.live.send([said("go")])
    behind.sends(Reply(request="own 0", failure=Failure(cause="internal", text="no thread")))
    assert behind.session.events[0].text == "the live backend continues without the 2 messages before: no thread"
    assert types(behind.backend.asked[1:]) == ["SubmitInput"]


def test_a_live_backend_that_does_not_answer_is_not_waited_for() -> None:
    behind = Behind("codewhale")
    behind.live.take_over()
    behind.live.send([said("go")])
    behind.time.passes(6)
    assert behind.session.events[0].text.endswith("the backend did not take the history in time")
    assert types(behind.backend.asked[1:]) == ["SubmitInput"]


def test_waiting_commands_are_bounded_and_fail_with_the_connection() -> None:
    behind = Behind("codewhale")
    behind.live.take_over()
    behind.live.send([said("go", request=f"r{n}") for n in range(HELD_MAX + 1)])
    assert [len(unsent) for _, unsent in behind.session.losses] == [1]
    behind.live.lost("gone", [])
    assert [len(unsent) for _, unsent in behind.session.losses] == [1, HELD_MAX]


def test_the_live_backend_ends_with_its_session() -> None:
    behind = Behind("codewhale")
    behind.live.take_over()
    behind.live.stop()
    assert behind.backend.stopped
    assert behind.time.waiting == []


class ReplayWithLiveBackend:
    def __init__(self, folder: Path, *, spy: bool, until: int | None = None) -> None:
        tape = RecordingBuilder().turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2"))
        play = tape.plan(folder)
        self.watched = WatchedReplay(play if until is None else cut_plan(play, play.ends[until - 1] if until else 0))
        self.behind = Behind()
        self.reporter = Reporter(self.watched.ledger)
        self.forked = LiveFallback(self.watched.backend, self.behind.live, self.reporter, spy=spy)

    def asks(self, *commands: Command) -> list[str]:
        """Send this command; return the commands that reach the live backend."""
        before = len(self.behind.backend.asked)
        self.forked.send(commands)
        return types(self.behind.backend.asked[before:])


def test_a_spy_passes_on_only_commands_that_no_recorded_turn_matches(tmp_path: Path) -> None:
    made = ReplayWithLiveBackend(tmp_path, spy=True)
    assert made.asks(said("one")) == []
    assert made.asks(said("something else")) == ["SubmitInput"]
    assert made.watched.ledger.counters["replay_passed_on"] == 1
    assert made.watched.ledger.counters["replay_not_recorded"] == 0


def test_commands_of_a_live_turn_go_to_it_and_the_next_input_is_matched_again(tmp_path: Path) -> None:
    made = ReplayWithLiveBackend(tmp_path, spy=True)
    made.asks(said("something else"))
    assert made.asks(CancelTurn(), GetHistory()) == ["CancelTurn"]
    made.behind.live.receive([Burst(items=[TurnEnded(end="cancelled")])])
    assert made.asks(said("two")) == []
    assert made.asks(ListCompletions(kind="file", prefix="a")) == ["ListCompletions"]


def test_a_fork_refuses_unrecorded_inputs_before_its_point(tmp_path: Path) -> None:
    made = ReplayWithLiveBackend(tmp_path, spy=False, until=1)
    assert made.asks(said("something else")) == []
    assert types(made.watched.news()) == ["Reply"]


def test_a_fork_at_the_beginning_has_only_the_history(tmp_path: Path) -> None:
    made = ReplayWithLiveBackend(tmp_path, spy=False, until=0)
    made.forked.start()
    assert made.asks(said("one")) == ["SubmitInput"]


def test_replay_and_live_backend_end_with_their_session(tmp_path: Path) -> None:
    made = ReplayWithLiveBackend(tmp_path, spy=True)
    made.forked.suspend()
    made.forked.stop()
    assert made.behind.backend.stopped
    made.watched.backend.send([said("one")])
    assert made.watched.news(after=1) == [], "nothing is played any more"
