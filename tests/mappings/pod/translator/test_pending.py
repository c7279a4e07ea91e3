"""Which command of ours an event of a pod answers (docs/translation.md, rule 3.17)."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical.values import Text
from dragoman.mappings.pod.translator.pending import PENDING_MAX, TRACKED, Entry, Pending

X = (Text(text="x"),)


def run(request: str, text: str = "x") -> ask.SubmitInput:
    return ask.SubmitInput(request=request, segments=(Text(text=text),))


def pending(*commands: Command, running: bool = False) -> Pending:
    waiting = Pending()
    for command in commands:
        waiting.add(command, running=running)
    return waiting


def requests(waiting: Pending) -> list[str]:
    return [entry.request for entry in waiting.entries]


def who(entry: Entry | None) -> str:
    return entry.request if entry is not None else ""


def test_it_is_full_at_its_bound() -> None:
    waiting = pending(*(run(str(n)) for n in range(PENDING_MAX - 1)))
    assert not waiting.full()
    waiting.add(run("last"), running=False)
    assert waiting.full()


def test_commands_without_any_answer_are_not_tracked() -> None:
    assert TRACKED.isdisjoint({ask.InjectNote, ask.ShutdownBackend, ask.OpenSession, ask.Ping})


def test_looking_for_the_oldest_leaves_it() -> None:
    waiting = pending(ask.Compact(request="a"), run("b"), run("c"))
    assert who(waiting.oldest(ask.SubmitInput)) == "b"
    assert requests(waiting) == ["a", "b", "c"]


def test_taking_the_oldest_takes_that_one_alone() -> None:
    waiting = pending(run("a"), ask.Compact(request="b"), run("c"))
    assert who(waiting.take(ask.SubmitInput)) == "a"
    assert requests(waiting) == ["b", "c"]
    assert waiting.take(ask.ResumeTurn) is None


def test_an_echo_is_that_of_the_oldest_run_once() -> None:
    waiting = pending(run("a"), run("b"))
    assert who(waiting.echo(X)) == "a"
    assert waiting.echo(X) is None


def test_an_echo_of_another_text_is_nobody_s() -> None:
    assert pending(run("a")).echo((Text(text="y"),)) is None


@pytest.mark.parametrize("status_first", [True, False])
def test_a_run_is_accepted_by_echo_and_status_in_either_order(status_first: bool) -> None:
    waiting = pending(run("a"), run("b"))
    steps = [lambda: waiting.echo(X), waiting.run_began]
    for step in reversed(steps) if status_first else steps:
        assert waiting.accepted() is None
        step()
    assert who(waiting.accepted()) == "a"
    assert requests(waiting) == ["b"]


def test_a_status_before_the_run_s_own_does_not_last_beyond_its_end() -> None:
    waiting = pending(run("a"))
    waiting.run_began()
    assert list(waiting.run_ended()) == []
    waiting.echo(X)
    assert waiting.accepted() is None


def test_a_stop_that_came_too_late_is_taken_and_its_error_expected() -> None:
    waiting = pending(ask.CancelTurn(request="a"), running=True)
    assert [entry.request for entry in waiting.run_ended()] == ["a"]
    assert (waiting.late, waiting.entries) == (1, [])


def test_a_stop_that_was_sent_while_nothing_ran_waits_for_its_error() -> None:
    waiting = pending(ask.CancelTurn(request="a"))
    assert list(waiting.run_ended()) == []
    assert who(waiting.refused("not_running")) == "a"


def test_late_errors_are_forgotten_when_a_run_begins() -> None:
    waiting = pending(ask.PauseTurn(request="a"), running=True)
    list(waiting.run_ended())
    waiting.run_began()
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
def test_an_error_answers_the_oldest_command_that_can_have_it(code: str, answered: str) -> None:
    waiting = pending(
        *(ask.ListCompletions(request="completions", kind="file", prefix=""), ask.PauseTurn(request="pause")),
        *(ask.ListSessions(request="list"), ask.ResumeTurn(request="resume"), run("run"), run("later")),
    )
    assert who(waiting.refused(code)) == answered


def test_already_running_answers_other_commands_when_no_run_waits() -> None:
    waiting = pending(ask.GetSession(request="inspect", session="k"), ask.ResumeTurn(request="resume"))
    assert [who(waiting.refused("already_running")) for _ in range(3)] == ["inspect", "resume", ""]


def test_when_the_link_ends_all_of_them_are_given_back_once() -> None:
    waiting = pending(run("a"), ask.CancelTurn(request="b"))
    waiting.late = 3
    assert [entry.request for entry in waiting.drain()] == ["a", "b"]
    assert (waiting.drain(), waiting.late) == ([], 0)
