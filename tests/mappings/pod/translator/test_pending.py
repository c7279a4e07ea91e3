"""Matching a pod's events with the commands that they answer (docs/translation.md, rule 3.17)."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import Text
from dragoman.mappings.pod.translator.pending import TRACKED, PendingMethod, PendingMethods

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


def test_commands_without_any_answer_are_not_tracked() -> None:
    assert TRACKED.isdisjoint({commands.InjectNote, commands.ShutdownBackend, commands.OpenSession, commands.Ping})


def test_an_echo_forgets_the_runs_before_its_own() -> None:
    waiting = pending(run("a", "y"), commands.Compact(request="b"), run("c"))
    assert request_of(waiting.take_accepted_run(X)) == "c"
    assert requests(waiting) == ["b"]


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
