"""The results of requests become typed answers."""

from __future__ import annotations

from uuid import UUID

import pytest
from msgspec import UNSET, Raw

from dragoman.mappings.canonical.values import Message
from dragoman.mappings.codewhale.to_canonical.replies import capabilities, history, session_opened, sessions_listed
from dragoman.mappings.extras import raw
from dragoman.mappings.rfc3339 import NS
from tests.mappings.codewhale.data import captured_answers, thread_row


def result_of(number: str, id: int) -> Raw:
    """Return the result of one captured answer."""
    return raw(next(answer["result"] for answer in captured_answers(number) if answer.get("id") == id))


def test_a_started_thread_is_a_session_under_its_uuid() -> None:
    opened = session_opened("r", result_of("06", 1))
    assert opened is not None
    assert (opened.request, opened.session) == ("r", "1237b477-0e2b-497c-99c5-4658b0582bc7")


def test_a_list_of_threads_has_names_and_times() -> None:
    listed = sessions_listed("r", result_of("06", 11))
    loaded = sessions_listed("r", result_of("06", 14))
    assert listed is not None
    assert loaded is not None
    assert [row.title for row in listed.sessions] == ['ログの重複 & "quotes" \\ 🧵', "", "branch"]
    assert {row.updated_at for row in listed.sessions} == {1_795_222_341 * NS}
    assert [row.session for row in loaded.sessions] == [row.session for row in listed.sessions]


def test_a_thread_without_a_preview_has_messages_if_it_was_changed() -> None:
    """The server of 0.10.2 tells no preview; lists for most clients leave out a session without messages and title."""
    changes = {"preview": "", "created_at": 1_795_793_830, "updated_at": 1_795_793_832, "cli_version": "0.10.2"}
    used = thread_row("thr_3f903cea") | changes
    unused = used | {"id": "thr_baa24665", "updated_at": 1_795_793_830}
    result = raw({"thread_id": "list", "status": "ok", "threads": [used, unused], "events": [], "data": {}})
    listed = sessions_listed("r", result)
    assert listed is not None
    assert [(row.title, row.messages) for row in listed.sessions] == [("", 1), ("", 0)]


@pytest.mark.parametrize(("thread", "status"), [("thr_3f903cea", "running"), (f"thread-{UUID(int=1)}", "idle")])
def test_only_a_server_that_knows_its_runs_is_believed_that_a_thread_runs(thread: str, status: str) -> None:
    """Servers before 0.10.2 say so of every thread that is not archived, and 0.10.2 of the threads they stored."""
    result = raw({"thread_id": "list", "status": "ok", "threads": [thread_row(thread)], "events": [], "data": {}})
    listed = sessions_listed("r", result)
    assert listed is not None
    assert [row.status for row in listed.sessions] == [status]


def test_messages_in_a_history_that_a_client_gave_are_read() -> None:
    messages = [item for item in history(result_of("06", 5)) or () if isinstance(item, Message)]
    assert [(message.role, message.text) for message in messages] == [
        ("user", "Earlier question\nin two lines"),
        ("assistant", "Earlier answer with `code` → ok"),
        ("system", '"bare string"'),
    ]


def test_the_seed_stores_the_user_s_input() -> None:
    messages = [item for item in history(result_of("13", 9)) or () if isinstance(item, Message)]
    assert {message.role for message in messages} == {"user"}
    assert messages[-1].text == "same size B"


def test_the_methods_tell_the_generation() -> None:
    known = capabilities(result_of("13", 1))
    assert known is not None
    assert "thread/interrupt" not in known.methods


def test_a_result_of_another_shape_is_none() -> None:
    for result in (
        UNSET,
        raw(5),
        raw({"ok": True, "data": 5}),
        raw({"thread_id": "t", "status": "ok", "data": {"history": 5}}),
    ):
        assert session_opened("", result) is None
        assert capabilities(result) is None
        assert history(result) is None
    assert sessions_listed("", raw({"ok": True, "data": 5})) is None
    assert sessions_listed("", raw(5)) is None
    late = {"threads": [thread_row("t") | {"updated_at": 10**4297}], "events": [], "data": {}}
    assert sessions_listed("", raw({"thread_id": "list", "status": "ok", **late})) is None
