"""The broadcast to attached pod clients."""

from __future__ import annotations

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import BackendInfo, Message
from dragoman.mappings.pod.projection import Projection
from tests.mappings.pod.rendered import SESSION, batch, lines, said


def test_counters_continue_after_the_last_index_seen() -> None:
    projection = Projection()
    started: list[Event] = [
        events.ModelTurnStarted(),
        events.ModelTurnEnded(),
        events.ModelTurnStarted(index=7),
        events.ModelTurnStarted(),
    ]
    assert [line["data"]["turn"] for line in lines(projection, *started)] == [0, 0, 7, 8]
    calls: list[Event] = [events.ModelCallStarted(), events.ModelCallEnded(), events.ModelCallStarted()]
    assert [line["data"]["llm_call"] for line in lines(projection, *calls)] == [0, 0, 1]


def test_a_copy_has_its_own_counters() -> None:
    projection = Projection()
    lines(projection, events.ModelTurnStarted(index=3))
    twin = projection.copy()
    lines(twin, events.ModelTurnStarted())
    assert lines(projection, events.ModelTurnStarted())[0]["data"]["turn"] == 4
    assert lines(twin, events.ModelTurnStarted())[0]["data"]["turn"] == 5


def test_an_alert_without_a_time_has_the_time_of_its_batch() -> None:
    (line,) = said(events.Alert(level="warn", source="smooth", text="t"))
    assert line["data"] == {"level": "warn", "source": "pod", "message": "t", "timestamp_ms": 9}


def test_a_changed_history_reaches_attached_clients_as_a_rotation() -> None:
    items = (Message(role="user", text="q"),)
    line, state = said(events.HistorySnapshot(items=items, status="idle", backend=BackendInfo(name="x")))
    assert state == {"event": "status", "data": {"status": "idle"}}, "it may have been paused before"
    entry = line["data"]["entry"]
    assert (line["event"], entry["kind"], entry["session_id"]) == ("segment_rotated", "segment_start", SESSION)
    assert entry["history"] == [{"kind": "message", "role": "user", "content": [{"kind": "text", "text": "q"}]}]


def test_losses_are_reported_once() -> None:
    projection = Projection()
    projection.render(batch(events.Preamble(text="wait")))
    assert projection.render(batch(events.TextDelta(text="x"))).losses == []


def test_events_held_during_a_question_are_written_after_its_answer_by_a_copy_too() -> None:
    projection = Projection()
    lines(projection, events.QuestionAsked(text="May I?", question="q", parked=True))
    assert lines(projection, events.ToolCallStarted(call="c", name="rm")) == []
    for one in (projection.copy(), projection):
        told = [line["event"] for line in lines(one, events.QuestionAnswered(question="q"))]
        assert told == ["status", "invoke_start", "turn_start", "tool_call_start"]


def test_an_alert_is_written_while_a_question_is_open() -> None:
    projection = Projection()
    lines(projection, events.QuestionAsked(text="May I?", question="q", parked=True))
    (line,) = lines(projection, events.Alert(level="warn", source="pod", text="late"))
    assert line["event"] == "alert"
