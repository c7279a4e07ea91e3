"""Results of calls as typed answers, and their fields in ext."""

from __future__ import annotations

import pytest
from msgspec import UNSET, Raw

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.values import Failure, Message, Text
from dragoman.mappings.extras import raw
from dragoman.mappings.pando.to_canonical.replies import (
    pong,
    session_opened,
    sessions_listed,
    stored_rows,
    time_of,
    typed_answer,
    with_text,
)
from dragoman.mappings.pando.vocabulary import given

SESSION = {"id": "s-1", "title": "T", "updated_at": "2026-05-09T23:28:20+02:00", "message_count": 4}


def message(role: str, content: str) -> dict[str, str]:
    return {"id": "m", "role": role, "content": content, "created_at": "2026-05-09T21:28:20Z"}


def test_a_list_of_messages_leaves_out_messages_with_only_calls() -> None:
    rows = stored_rows(
        raw([message("user", "hi"), message("assistant", ""), message("tool", "42"), message("system", "x")])
    )
    said = with_text(rows or ())
    assert [(m.role, m.text) for m in said] == [("user", "hi"), ("system", "42"), ("system", "x")]
    assert given(said[1].ext, "role", str, "") == "tool"


def test_messages_of_one_second_have_an_order_by_milliseconds_and_keep_the_time_of_the_store() -> None:
    """A client may sort several pages by milliseconds, so the order must not depend on the page."""
    rows = stored_rows(raw([message("user", text) for text in "abc"])) or ()
    first = 1_778_362_100_000  # ms
    assert [row.at // 1_000_000 for row in rows] == [first, first + 1, first + 2]
    assert given(rows[2].ext, "created_at", str, "") == "2026-05-09T21:28:20Z"


def test_a_time_that_is_none_and_very_long_is_dropped() -> None:
    assert [time_of(text) for text in ("soon" * 16, "soon!" * 16)] == [(0, "soon" * 16), (0, UNSET)]


def test_messages_of_other_seconds_and_without_a_time_keep_what_the_store_says() -> None:
    times = ["", "2027-01-01T00:00:00Z", "2026-01-01T00:00:00Z"]
    rows = stored_rows(raw([message("user", "a") | {"created_at": at} for at in times])) or ()
    assert [row.at // 1_000_000_000 for row in rows] == [0, 1_798_761_600, 1_767_225_600]


@pytest.mark.parametrize("result", [b"null", b"[]"])
def test_no_list_and_an_empty_one_are_the_same(result: bytes) -> None:
    assert stored_rows(Raw(result)) == ()


@pytest.mark.parametrize("result", [Raw(b"5"), Raw(b'{"x":[]}'), UNSET])
def test_a_result_of_another_shape_is_none(result: Raw) -> None:
    assert stored_rows(result) is None
    assert sessions_listed("r", Raw(b"5")) is None
    assert session_opened("r", Raw(b"5")) is None
    assert pong("r", Raw(b"5"), 0) is None


def test_names_in_any_case_and_unknown_ones_are_read_as_go_reads_them() -> None:
    (said,) = stored_rows(Raw(b'[{"ID":"m","Role":"user","CONTENT":"hi","more":1,"created_at":null}]')) or ()
    assert (said.id, said.text, said.at) == ("m", "hi", 0)
    assert isinstance(said, Message)


def test_a_local_time_is_written_as_it_was_read() -> None:
    listed = sessions_listed("r", raw([SESSION]))
    assert listed is not None
    assert listed.sessions[0].updated_at == 1_778_362_100 * 10**9
    assert given(listed.sessions[0].ext, "updated_at", str, "") == SESSION["updated_at"]


def test_state_sync_lists_the_same_sessions() -> None:
    listed = sessions_listed("r", raw({"sessions": [SESSION], "active_session_id": "s-1", "instance_id": "i"}))
    assert listed is not None
    assert [row.session for row in listed.sessions] == ["s-1"]


def test_an_activation_names_the_session_that_was_asked_for() -> None:
    opened = session_opened("r", raw({"ok": True}), "s-9")
    assert opened is not None
    assert (opened.session, given(opened.ext, "id", str, "")) == ("s-9", "s-9")


def test_an_accepted_input_is_answered_by_the_acceptance_of_its_turn() -> None:
    command = commands.SubmitInput(request="r", segments=(Text(text="Hi"),))
    assert typed_answer(command, events.Reply(request="own"), 0) == events.TurnAccepted(request="r")


def test_a_refusal_has_no_typed_answer() -> None:
    refused = events.Reply(request="own", failure=Failure(cause="internal", text="no"))
    assert typed_answer(commands.CancelTurn(request="r"), refused, 0) is None
