"""The opening of a link's thread, where the client translator's tests do not show it."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import SessionState, commands, events
from dragoman.mappings.codewhale.translator.opening import Opening
from dragoman.mappings.codewhale.vocabulary import given, keep
from dragoman.mappings.codewhale.wire.requests import Resume, Start
from dragoman.mappings.codewhale.wire.results import Capabilities

THREAD = "thread-00000000-0000-4000-8000-000000000001"
OPENED = events.SessionOpened(request="", session=THREAD[7:], ext=keep(thread_id=THREAD))


def test_a_session_that_was_never_opened_opens_no_thread_by_itself() -> None:
    assert Opening().resume(SessionState(id="s")) == []


def test_every_resume_has_the_folder_of_the_endpoint_unless_a_client_gave_one() -> None:
    opening = Opening()
    wanted = commands.OpenSession(ext=keep(params=Start.Params(cwd="/route")))
    opening.resume(SessionState(id="s", opening=wanted))
    for said, cwd in ((None, "/route"), (keep(params=Resume.Params(thread_id=THREAD, cwd="/own")), "/own")):
        (command,), _ = opening.admit_command(commands.ResumeSession(session=THREAD, ext=said))
        assert isinstance(command, commands.ResumeSession)
        assert given(command.ext, "params", Resume.Params, Resume.Params(thread_id="")).cwd == cwd


@pytest.mark.parametrize(
    ("server", "cwd"),
    [
        (Capabilities(tool_free_turns=True, methods=[]), None),
        (Capabilities(keeps_context=True, methods=[]), "/route"),  # a gateway, perhaps before an old server
    ],
)
def test_a_server_that_knows_the_folder_of_a_thread_is_told_none(server: Capabilities, cwd: str | None) -> None:
    opening = Opening()
    opening.note_server(server)
    opening.resume(SessionState(id="s", opening=commands.OpenSession(ext=keep(params=Start.Params(cwd="/route")))))
    (command,), _ = opening.admit_command(commands.ResumeSession(session=THREAD))
    assert isinstance(command, commands.ResumeSession)
    assert given(command.ext, "params", Resume.Params, Resume.Params(thread_id="")).cwd == cwd


def test_waiting_commands_are_sent_to_the_thread_that_was_opened() -> None:
    opening = Opening()
    (wanted,), _ = opening.admit_command(commands.GetGoal(request="g", session="other", ext=keep(thread_id="other")))
    held, events = opening.take_answer(wanted, OPENED)
    assert held == [commands.GetGoal(request="g", session=THREAD)]
    assert events == [OPENED]


def test_the_session_that_a_client_names_is_resumed_before_a_new_one_is_opened() -> None:
    (command,), _ = Opening().admit_command(commands.GetSession(request="r", session=THREAD))
    assert isinstance(command, commands.ResumeSession)
    assert (command.session, command.request) == (THREAD, "r")
