"""Questions in words for pod clients: they end the run, not the turn (docs/translation.md, rule 3.3)."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, json, structs

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import Text, WorkflowInvoke
from dragoman.mappings.pod.projection import Projection
from tests.mappings.pod.rendered import batch, lines

PARKS = events.QuestionAsked(text="May I?", question="q", parked=True)
TYPED = events.QuestionAnswered(question="q", segments=(Text(text="approve"),))


def names(found: list[Any]) -> list[str]:
    return [line["event"] for line in found]


def outside(projection: Projection, *events: Event) -> list[Any]:
    """Return the lines for events outside of any turn."""
    return [json.decode(frame) for frame in projection.render(structs.replace(batch(*events), turn="")).frames]


def test_a_question_that_parks_the_turn_pauses_the_run() -> None:
    found = lines(Projection(), PARKS)
    assert names(found) == ["text_delta", "text_done", "run_end", "status"]
    assert [line["data"] for line in found] == [
        {"text": "May I?"},
        {"text": "May I?"},
        {"result": "paused"},
        {"status": "paused"},
    ]


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


def test_an_answer_without_input_begins_a_wakeup_run() -> None:
    projection = Projection()
    lines(projection, PARKS)
    found = lines(projection, events.QuestionAnswered(question="q"))
    assert names(found) == ["status", "invoke_start", "turn_start"]
    assert found[1]["data"] == {"kind": "wakeup"}


def test_an_answer_before_the_client_attached_begins_no_run() -> None:
    assert lines(Projection(), events.QuestionAnswered(question="q")) == []


def test_a_question_that_does_not_park_is_text_of_the_open_run() -> None:
    assert names(lines(Projection(), events.QuestionAsked(text="A code was sent."))) == ["text_delta", "text_done"]


def test_a_text_of_the_gateway_outside_of_a_turn_is_a_wakeup_run() -> None:
    found = outside(Projection(), events.QuestionAnswered(), events.QuestionAsked(text="A code was sent."))
    assert names(found) == [
        "status",
        "invoke_start",
        "turn_start",
        "text_delta",
        "text_done",
        "turn_end",
        "run_end",
        "status",
    ]
    assert found[1]["data"] == {"kind": "wakeup"}
    assert (found[-2]["data"], found[-1]["data"]) == ({"result": "finished"}, {"status": "idle"})


def test_the_run_after_an_answer_has_the_index_of_its_model_turn() -> None:
    projection = Projection()
    lines(projection, PARKS)
    assert lines(projection, events.QuestionAnswered(question="q", model_turn=7))[-1]["data"] == {"turn": 7}
    lines(projection, PARKS)
    assert lines(projection, events.QuestionAnswered(question="q"))[-1]["data"] == {"turn": 8}


def test_an_answer_outside_of_a_turn_and_its_reply_are_one_run() -> None:
    projection = Projection()
    once = outside(projection, TYPED, events.QuestionAsked(text="No."))
    assert names(once) == [
        "user_message",
        "status",
        "invoke_start",
        "turn_start",
        "text_delta",
        "text_done",
        "turn_end",
        "run_end",
        "status",
    ]
    assert names(outside(projection, TYPED, events.QuestionAsked(text="No."))) == names(once), "and so is the next"


def test_question_forms_of_the_backend_write_nothing() -> None:
    form = events.InteractionRequired(question="i", kind="choices", spec=Raw(b"{}"), reason="")
    for event in (events.ApprovalRequested(tool="x", description="y"), form, events.ApprovalResolved(approved=True)):
        assert lines(Projection(), event) == []
