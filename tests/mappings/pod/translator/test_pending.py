"""Matching a pod's events with the commands that they answer (docs/translation.md, rule 3.17)."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import Text
from dragoman.mappings.pod.translator.pending import PENDING_MAX, TRACKED, PendingMethod, PendingMethods

X = (Text(text="x"),)


def run(request: str, text: str = "x") -> commands.SubmitInput:
    return commands.SubmitInput(request=request, segments=(Text(text=text),))


def pending(*commands: Command, running: bool = False) -> PendingMethods:
    waiting = PendingMethods()
    for command in commands:
        waiting.add_command(command, running=running)
    return waiting


def requests(waiting: PendingMethods) -> list[str]:
    return [entry.request for entry in waiting.entries]


def request_of(entry: PendingMethod | None) -> str:
    return entry.request if entry is not None else ""


def test_pending_methods_are_full_at_their_limit() -> None:
    waiting = pending(*(run(str(n)) for n in range(PENDING_MAX - 1)))
    assert not waiting.is_full()
    waiting.add_command(run("last"), running=False)
    assert waiting.is_full()


def test_commands_without_any_answer_are_not_tracked() -> None:
    assert TRACKED.isdisjoint({commands.InjectNote, commands.ShutdownBackend, commands.OpenSession, commands.Ping})


def test_find_oldest_keeps_the_command() -> None:
    waiting = pending(commands.Compact(request="a"), run("b"), run("c"))
    assert request_of(waiting.find_oldest(commands.SubmitInput)) == "b"
    assert requests(waiting) == ["a", "b", "c"]


def test_an_unheard_run_is_found_behind_other_commands() -> None:
    waiting = pending(commands.Compact(request="a"), run("b"))
    assert request_of(waiting.take_unheard_run()) == "b"
    assert requests(waiting) == ["a"]


def test_take_oldest_removes_that_command_alone() -> None:
    waiting = pending(run("a"), commands.Compact(request="b"), run("c"))
    assert request_of(waiting.take_oldest(commands.SubmitInput)) == "a"
    assert requests(waiting) == ["b", "c"]
    assert waiting.take_oldest(commands.ResumeTurn) is None


def test_an_echo_matches_the_oldest_run_once() -> None:
    waiting = pending(run("a"), run("b"))
    assert request_of(waiting.match_echo(X)) == "a"
    assert waiting.match_echo(X) is None


def test_an_echo_of_another_text_matches_no_run() -> None:
    assert pending(run("a")).match_echo((Text(text="y"),)) is None


@pytest.mark.parametrize("status_first", [True, False])
def test_a_run_is_accepted_by_echo_and_status_in_either_order(status_first: bool) -> None:
    waiting = pending(run("a"), run("b"))
    steps = [lambda: waiting.match_echo(X), waiting.begin_run]
    for step in reversed(steps) if status_first else steps:
        assert waiting.take_accepted_run() is None
        step()
    assert request_of(waiting.take_accepted_run()) == "a"
    assert requests(waiting) == ["b"]


def test_the_status_of_an_earlier_run_does_not_accept_a_later_one() -> None:
    waiting = pending(run("a"))
    waiting.begin_run()
    assert list(waiting.end_run()) == []
    waiting.match_echo(X)
    assert waiting.take_accepted_run() is None


def test_a_stop_that_came_too_late_is_removed_and_its_error_is_expected() -> None:
    waiting = pending(commands.CancelTurn(request="a"), running=True)
    assert [entry.request for entry in waiting.end_run()] == ["a"]
    assert (waiting.late, waiting.entries) == (1, [])


def test_a_stop_sent_while_nothing_runs_waits_for_its_error() -> None:
    waiting = pending(commands.CancelTurn(request="a"))
    assert list(waiting.end_run()) == []
    assert request_of(waiting.take_refused("not_running")) == "a"


def test_late_errors_are_forgotten_when_a_run_begins() -> None:
    waiting = pending(commands.PauseTurn(request="a"), running=True)
    list(waiting.end_run())
    waiting.begin_run()
    assert waiting.late == 0


@pytest.mark.parametrize(
    ("code", "answered"),
    [
        ("already_running", "run"),
        ("not_running", "pause"),
        ("not_paused", "resume"),
        ("invalid_request", "list"),
        ("internal", ""),
        ("provider_error", ""),
    ],
)
def test_an_error_answers_the_oldest_command_that_can_fail_with_its_code(code: str, answered: str) -> None:
    waiting = pending(
        *(commands.ListCompletions(request="completions", kind="file", prefix=""), commands.PauseTurn(request="pause")),
        *(commands.ListSessions(request="list"), commands.ResumeTurn(request="resume"), run("run"), run("later")),
    )
    assert request_of(waiting.take_refused(code)) == answered


def test_already_running_answers_other_commands_when_no_run_is_pending() -> None:
    waiting = pending(commands.GetSession(request="inspect", session="k"), commands.ResumeTurn(request="resume"))
    assert [request_of(waiting.take_refused("already_running")) for _ in range(3)] == ["inspect", "resume", ""]


def test_take_all_returns_each_command_once() -> None:
    waiting = pending(run("a"), commands.CancelTurn(request="b"))
    waiting.late = 3
    assert [entry.request for entry in waiting.take_all()] == ["a", "b"]
    assert (waiting.take_all(), waiting.late) == ([], 0)
