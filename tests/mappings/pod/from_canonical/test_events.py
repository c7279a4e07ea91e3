"""The pod events that canonical events become for attached clients."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw, json

from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import Failure, ImageAttachment, Message, SessionSummary, Text
from dragoman.mappings.pod.projection import Projection
from tests.mappings.pod.rendered import batch, said


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ("completed", [{"event": "run_end", "data": {"result": "finished"}}]),
        ("limit_reached", [{"event": "run_end", "data": {"result": "limit_reached"}}]),
        ("paused", [{"event": "run_end", "data": {"result": "paused"}}]),
        ("rolled_back", [{"event": "run_end", "data": {"result": "rolled_back"}}]),
        ("cancelled", [{"event": "error", "data": {"code": "internal", "message": "Cancelled"}}]),
        ("failed", []),
    ],
)
def test_each_of_the_six_ends_has_its_form(end: Any, line: list[Any]) -> None:
    assert said(events.TurnResult(end=end)) == line


def test_a_gap_is_sent_to_pod_clients_as_an_alert() -> None:
    (line,) = said(events.Gap(text="lost", count=3))
    assert (line["event"], line["data"]["level"], line["data"]["message"]) == ("alert", "warn", "lost")


def test_a_backend_that_runs_after_a_reconnect_is_shown_running() -> None:
    rotated, status = said(events.HistorySnapshot(items=(), status="running"))
    assert (rotated["event"], status) == ("segment_rotated", {"event": "status", "data": {"status": "running"}})


def test_a_rotation_after_the_input_of_its_run_includes_that_input() -> None:
    entry = {"config": {"top_p": 1}, "history": [], "kind": "segment_start", "ts": 5}
    event = events.HistorySnapshot(
        items=(Message(role="user", text="Hi", segments=(Text(text="Hi"),)),),
        rotated=True,
        ext={"pod.entry": Raw(json.encode(entry))},
    )
    (rotated,) = said(event)
    history = [{"content": [{"kind": "text", "text": "Hi"}], "kind": "message", "role": "user"}]
    assert rotated == {"event": "segment_rotated", "data": {"entry": {**entry, "history": history}}}


@pytest.mark.parametrize("entry", [{"kind": "segment_start", "history": 5}, {"history": None}, [], None])
def test_a_rotation_whose_entry_has_no_history_is_passed_on_unchanged(entry: object) -> None:
    ext = {"pod.entry": Raw(json.encode(entry))}
    event = events.HistorySnapshot(items=(Message(role="user", text="Hi"),), rotated=True, ext=ext)
    assert said(event) == [{"event": "segment_rotated", "data": {"entry": entry}}]


def test_a_rotation_of_a_pod_is_passed_on_unchanged() -> None:
    event = events.HistorySnapshot(items=(), rotated=True, ext={"pod.entry": Raw(b'{"kind":"segment_start","ts":5}')})
    assert Projection().render(batch(event)).frames == [
        b'{"event":"segment_rotated","data":{"entry":{"kind":"segment_start","ts":5}}}'
    ]


def test_a_result_without_summary_gets_the_first_line_of_its_output() -> None:
    (line,) = said(events.ToolCallFinished(call="c", name="n", output="one\ntwo"))
    assert line["data"] == {"id": "c", "summary": "one", "output": "one\ntwo", "is_error": False}


def test_an_unknown_reason_for_a_run_is_a_wakeup() -> None:
    assert said(events.RunStarted(kind="cron")) == [{"event": "invoke_start", "data": {"kind": "wakeup"}}]


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ("busy", "already_running"),
        ("not_running", "not_running"),
        ("unsupported", "invalid_request"),
        ("not_found", "invalid_request"),
        ("rate_limited", "provider_error"),
        ("tool_failed", "tool_error"),
        ("timeout", "internal"),
    ],
)
def test_causes_have_their_codes(cause: Any, code: str) -> None:
    assert said(events.ErrorReported(cause=cause, text="t")) == [
        {"event": "error", "data": {"code": code, "message": "t"}}
    ]


def test_an_error_of_a_pod_keeps_its_code() -> None:
    event = events.Reply(
        request="r", failure=Failure(cause="not_running", text="t", ext={"pod.code": Raw(b'"not_paused"')})
    )
    assert said(event) == [{"event": "error", "data": {"code": "not_paused", "message": "t"}}]


def test_a_successful_reply_writes_nothing() -> None:
    assert said(events.Reply(request="r", result=Raw(b"{}"))) == []


def test_a_listed_session_is_a_pod_with_its_name() -> None:
    (line,) = said(events.SessionsListed(request="r", sessions=(SessionSummary(session="s", title="a title"),)))
    (pod,) = line["data"]["pods"]
    assert (pod["pod_name"], pod["state"], pod["live"]["status"]) == ("s", "readable", "idle")


def test_keys_of_made_entries_are_sorted_on_the_wire() -> None:
    event = events.HistorySnapshot(items=(Message(role="user", text="q"),))
    (frame,) = Projection().render(batch(event)).frames
    assert (
        frame.index(b'"config"')
        < frame.index(b'"history"')
        < frame.index(b'"kind":"segment_start"')
        < frame.index(b'"ts"')
    )


def test_attachments_of_a_users_message_are_left_out_and_counted() -> None:
    segments = (Text(text="see"), ImageAttachment(url="https://x/1"), ImageAttachment(url="https://x/2"))
    event = events.MessageAppended(message=Message(role="user", text="see", segments=segments))
    rendered = Projection().render(batch(event))
    assert [(loss.field, loss.count) for loss in rendered.losses] == [("message.segments", 2)]
    assert b"https" not in rendered.frames[0]
