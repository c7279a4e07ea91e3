"""How a link gets its thread: what the client translator's tests do not show."""

from __future__ import annotations

from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical import events as say
from dragoman.mappings.codewhale.translator.opening import Opening
from dragoman.mappings.codewhale.vocabulary import given, keep
from dragoman.mappings.codewhale.wire.requests import ResumeParams, StartParams

THREAD = "thread-00000000-0000-4000-8000-000000000001"
OPENED = say.SessionOpened(request="", session=THREAD[7:], ext=keep(thread_id=THREAD))


def test_a_session_that_was_never_opened_asks_for_nothing_by_itself() -> None:
    assert Opening().resume(SessionState(id="s")) == []


def test_the_folder_of_the_endpoint_goes_with_every_resume_and_a_client_s_own_stays() -> None:
    opening = Opening()
    wanted = ask.OpenSession(ext=keep(params=StartParams(cwd="/route")))
    opening.resume(SessionState(id="s", opening=wanted))
    for said, cwd in ((None, "/route"), (keep(params=ResumeParams(thread_id=THREAD, cwd="/own")), "/own")):
        (command,), _ = opening.admit(ask.ResumeSession(session=THREAD, ext=said))
        assert isinstance(command, ask.ResumeSession)
        assert given(command.ext, "params", ResumeParams, ResumeParams(thread_id="")).cwd == cwd


def test_what_waited_is_asked_of_the_thread_that_was_opened() -> None:
    opening = Opening()
    (wanted,), _ = opening.admit(ask.GetGoal(request="g", session="other", ext=keep(thread_id="other")))
    held, events = opening.answered(wanted, OPENED)
    assert held == [ask.GetGoal(request="g", session=THREAD)]
    assert events == [OPENED]


def test_an_answer_to_something_else_is_just_that() -> None:
    reply = say.Reply(request="r")
    assert Opening().answered(ask.Ping(), reply) == ([], [reply])


def test_a_session_that_a_client_names_is_looked_for_before_any_other_is_opened() -> None:
    (command,), _ = Opening().admit(ask.GetSession(request="r", session=THREAD))
    assert isinstance(command, ask.ResumeSession)
    assert (command.session, command.request) == (THREAD, "r")
