"""A script of requests runs first; commands that come meanwhile are held, then sent or failed."""

from __future__ import annotations

from itertools import count

import pytest

from dragoman.gateway.backends.asking import Asking, ConnectionLost, Script, TimedOut
from dragoman.gateway.routing.policy import Refused
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import GetSession, ListSessions, Ping
from dragoman.mappings.canonical.values import Failure
from tests.gateway.in_memory import ManualClock
from tests.services import services

NO = Failure(cause="denied", text="no")


class Asked:
    """A backend whose scripts ask, and the outcome of the commands that they hold."""

    def __init__(self) -> None:
        ids = count(1)
        self.time = ManualClock()
        self.commands: list[Command] = []
        self.released: list[list[str]] = []
        self.failed: list[tuple[list[str], Failure]] = []
        self.got: list[object] = []
        self.asking: Asking[str] = Asking(
            self.commands.append,
            self.released.append,
            lambda held, why: self.failed.append((held, why)),
            services=services(self.time, new_id=lambda: f"own-{next(ids)}"),
            bound=2,
        )

    def two_requests(self) -> Script:
        self.got.append((yield ListSessions()))
        self.got.append((yield GetSession()))

    def forgives(self) -> Script:
        try:
            yield ListSessions()
        except (TimedOut, ConnectionLost) as end:
            self.got.append(type(end))

    def refuses(self) -> Script:
        yield ListSessions()
        raise Refused(NO)


def test_a_script_takes_only_the_answer_to_its_open_request() -> None:
    made = Asked()
    made.asking.begin(made.two_requests())
    made.asking.answer(1)
    assert (made.asking.is_asked("own-1"), made.asking.is_asked("own-2"), made.asking.is_asked("")) == (
        False,
        True,
        False,
    )


def test_commands_held_by_a_refused_script_fail_with_its_failure() -> None:
    made = Asked()
    made.asking.begin(made.refuses())
    made.asking.hold(["a"])
    made.asking.answer(1)
    assert (made.released, made.failed) == ([], [(["a"], NO)])


def test_commands_held_past_the_deadline_fail() -> None:
    made = Asked()
    made.asking.begin(made.two_requests(), within=1.0)
    made.asking.hold(["a"])
    made.time.passes(1.0)
    assert [held for held, _why in made.failed] == [["a"]]
    assert not made.asking.active


def test_a_script_may_continue_without_a_late_answer() -> None:
    made = Asked()
    made.asking.begin(made.forgives(), within=1.0)
    made.asking.hold(["a"])
    made.time.passes(1.0)
    assert (made.got, made.released, made.failed) == ([TimedOut], [["a"]], [])


@pytest.mark.parametrize("end", ["answer", "lost", "stop"])
def test_a_finished_script_leaves_no_timer(end: str) -> None:
    made = Asked()
    made.asking.begin(made.forgives(), within=1.0)
    match end:
        case "answer":
            made.asking.answer(1)
        case "lost":
            made.asking.lost([])
        case _:
            made.asking.stop()
    assert made.time.waiting == []


def test_a_lost_connection_returns_held_and_unwritten_commands() -> None:
    made = Asked()
    made.asking.begin(made.forgives())
    made.asking.hold(["a"])
    own, other = made.commands[0], Ping(request="r")
    assert made.asking.lost([own, other]) == ([other], ["a"])
    assert made.got == [ConnectionLost]
    assert (made.released, made.failed) == ([], [])


def test_a_stopped_script_releases_and_fails_no_command() -> None:
    made = Asked()
    made.asking.begin(made.two_requests(), within=1.0)
    made.asking.hold(["a"])
    made.asking.stop()
    made.asking.answer(1)
    assert (made.asking.active, made.released, made.failed, made.got) == (False, [], [], [])


def test_a_script_that_is_stopped_by_what_it_does_asks_nothing_more() -> None:
    made = Asked()

    def stops() -> Script:
        yield ListSessions()
        made.asking.stop()
        yield GetSession()

    made.asking.begin(stops())
    made.asking.answer(1)
    assert len(made.commands) == 1
    assert not made.asking.active


def test_a_script_during_which_nothing_came_releases_nothing() -> None:
    made = Asked()
    made.asking.begin(made.forgives())
    made.asking.answer(1)
    assert (made.released, made.failed) == ([], [])
