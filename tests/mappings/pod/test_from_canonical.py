"""Canonical commands and events as methods and events of a pod."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw, json

from dragoman.mappings.canonical import Command, SessionState, commands, events
from dragoman.mappings.canonical.values import (
    Failure,
    FileAttachment,
    ImageAttachment,
    Message,
    SessionSummary,
    Text,
    WorkflowInvoke,
)
from dragoman.mappings.dialect import Burst, Rendered
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.from_canonical.context import Context, Counter
from dragoman.mappings.pod.from_canonical.replies import rotation
from dragoman.mappings.pod.projection import Projection
from tests.mappings.pod.rendered import batch, lines, said

# -- commands --------------------------------------------------------------------------------------------


def written(command: Command) -> Rendered:
    return DIALECT.commands.write(Burst(items=[command]))


def test_each_attachment_is_a_loss_of_its_own() -> None:
    attached = (ImageAttachment(url="u"), FileAttachment(name="f", url="v"))
    (loss,) = written(commands.SubmitInput(segments=(Text(text="x"), *attached))).losses
    assert (loss.field, loss.count) == ("segments", 2)


def test_open_session_writes_nothing_and_is_no_loss() -> None:
    assert written(commands.OpenSession(agent="a")) == Rendered(frames=[], losses=[])


def test_completions_of_an_unknown_kind_are_not_requested() -> None:
    rendered = DIALECT.commands.write(Burst(items=[commands.ListCompletions(kind="emoji", prefix="")]))
    assert (rendered.frames, [loss.field for loss in rendered.losses]) == ([], ["kind"])


# -- events ----------------------------------------------------------------------------------------------


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
        ("busy", "internal"),  # the others would only refuse a method, and a client drops them in a run
        ("not_running", "internal"),
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


# -- questions in words ----------------------------------------------------------------------------------


PARKS = events.QuestionAsked(text="May I?", question="q", parked=True)
TYPED = events.QuestionAnswered(question="q", segments=(Text(text="approve"),))


def names(found: list[Any]) -> list[str]:
    return [line["event"] for line in found]


def test_a_typed_answer_is_echoed_and_begins_a_run() -> None:
    projection = Projection()
    lines(projection, events.ModelTurnStarted(), PARKS)
    found = lines(projection, TYPED)
    assert names(found) == ["user_message", "status", "invoke_start", "turn_start"]
    assert [line["data"] for line in found] == [
        {"segments": [{"kind": "text", "content": "approve"}]},
        {"status": "running"},
        {"kind": "user_send"},
        {"turn": 1},
    ]


def test_an_answer_keeps_its_segments() -> None:
    projection = Projection()
    lines(projection, PARKS)
    (echo, *_) = lines(projection, events.QuestionAnswered(question="q", segments=(WorkflowInvoke(slug="deny"),)))
    assert echo["data"] == {"segments": [{"kind": "workflow_invoke", "slug": "deny"}]}


def test_an_answer_before_the_client_attached_begins_no_run() -> None:
    assert lines(Projection(), events.QuestionAnswered(question="q")) == []


def test_the_run_after_an_answer_has_the_index_of_its_model_turn() -> None:
    projection = Projection()
    lines(projection, PARKS)
    assert lines(projection, events.QuestionAnswered(question="q", model_turn=7))[-1]["data"] == {"turn": 7}
    lines(projection, PARKS)
    assert lines(projection, events.QuestionAnswered(question="q"))[-1]["data"] == {"turn": 8}


def test_question_forms_of_the_backend_write_nothing() -> None:
    form = events.InteractionRequired(question="i", kind="choices", spec=Raw(b"{}"), reason="")
    for event in (events.ApprovalRequested(tool="x", description="y"), form, events.ApprovalResolved(approved=True)):
        assert lines(Projection(), event) == []


# -- replies ---------------------------------------------------------------------------------------------


SESSION = "0192f0e8-4d84-7d6e-a000-0000000000aa"


def test_a_rotation_carries_the_whole_transcript() -> None:
    asked = Message(role="user", text="q", segments=(Text(text="q"),))
    state = SessionState(id=SESSION, transcript=[asked, Message(role="assistant", text="a")])
    entry = json.decode(DIALECT.events.codec.encode(rotation(state, 7_000_000)))["data"]["entry"]
    assert (entry["kind"], entry["session_id"], entry["ts"]) == ("segment_start", SESSION, 7)
    assert [item["content"][0]["text"] for item in entry["history"]] == ["q", "a"]


def test_a_made_rotation_has_the_id_of_the_pods_own_conversation() -> None:
    shown = json.decode(DIALECT.events.codec.encode(rotation(SessionState(id=SESSION, conversation="own"), 0)))
    (told,) = said(events.HistorySnapshot(items=(), rotated=True, conversation="own"))
    assert [one["data"]["entry"]["session_id"] for one in (shown, told)] == ["own", "own"]


# -- context ---------------------------------------------------------------------------------------------


def test_a_counter_stops_at_the_largest_index_that_a_pod_may_send() -> None:
    counter, most = Counter(), (1 << 64) - 1
    assert [counter.begin(most), counter.begin(None), counter.begin(most + 1), counter.current(most + 1)] == [most] * 4


def test_a_counter_continues_after_the_last_index_received() -> None:
    counter = Counter()
    assert [counter.begin(None), counter.begin(7), counter.begin(None)] == [0, 7, 8]


def test_an_end_without_an_index_has_the_index_of_the_last_start() -> None:
    counter = Counter()
    assert counter.current(None) == 0
    counter.begin(4)
    assert counter.current(None) == 4


def test_a_loss_is_counted_under_the_type_of_its_source() -> None:
    context = Context()
    context.lose(Counter(), "last", "why")
    (loss,) = context.take_losses()
    assert (loss.kind, loss.field, loss.why) == ("Counter", "last", "why")
