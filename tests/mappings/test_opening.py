"""The session of a link that carries a single one: commands wait for it and fail with it."""

from __future__ import annotations

from dragoman.mappings.canonical.commands import GetSession, OpenSession, Ping, SubmitInput
from dragoman.mappings.canonical.events import Reply, SessionOpened
from dragoman.mappings.opening import UNOPENED, SessionOpening

INPUT = SubmitInput(request="i", segments=())
OPENED = SessionOpened(request="", session="s")


class Opening(SessionOpening):
    SESSIONLESS = (Ping,)


def test_the_first_command_that_needs_a_session_opens_one_and_waits_for_it() -> None:
    opening = Opening()
    assert opening.admit_command(INPUT) == ([OpenSession()], [])
    assert opening.admit_command(INPUT) == ([], [])


def test_commands_that_waited_are_written_for_the_open_session() -> None:
    opening = Opening()
    (asked,), _ = opening.admit_command(INPUT)
    written, events = opening.take_answer(asked, OPENED)
    assert written == [SubmitInput(request="i", session="s", segments=())]
    assert events == [OPENED]
    assert opening.admit_command(INPUT)[0] == written


def test_a_command_without_a_session_is_written_at_once() -> None:
    assert Opening().admit_command(Ping(request="p")) == ([Ping(request="p")], [])


def test_a_session_that_a_client_names_is_looked_up_first() -> None:
    asked = GetSession(request="g", session="x")
    assert Opening().admit_command(asked) == ([asked], [])


def test_a_malformed_answer_fails_the_commands_that_waited() -> None:
    opening = Opening()
    (asked,), _ = opening.admit_command(INPUT)
    assert opening.take_answer(asked, Reply(request="")) == ([], [Reply(request="i", failure=UNOPENED)])


def test_a_client_whose_session_is_answered_with_something_else_is_refused() -> None:
    opening = Opening()
    (asked,), _ = opening.admit_command(OpenSession(request="o"))
    assert opening.take_answer(asked, Reply(request="o")) == ([], [Reply(request="o", failure=UNOPENED)])
