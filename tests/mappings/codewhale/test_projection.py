"""A turn as it is streamed to the client that began it, to no particular reader, and to another client."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from dragoman.mappings.canonical import Batch, Event, events
from dragoman.mappings.canonical.values import End, Failure, Message
from dragoman.mappings.codewhale.from_canonical.events import FROM_EVENT
from dragoman.mappings.codewhale.ids import mark_id
from dragoman.mappings.codewhale.projection import FRAMES_MAX, UNSEEN, Projection
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED
from dragoman.mappings.extras import raw
from tests.legal_samples import legal_samples

SESSION = "00000000-0000-4000-8000-000000000001"
TURN = "00000000-0000-4000-8000-00000000000a"


def batch(*events: Any, turn: str = TURN) -> Batch:
    return Batch(session=SESSION, epoch=1, first_seq=0, events=list(events), turn=turn)


def shown(projection: Projection, *events: Any, turn: str = TURN) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in projection.render(batch(*events, turn=turn)).frames]


def own(generation: str = HEAD) -> Projection:
    return Projection(mark_id("7", "own", f"thread-{SESSION}"), generation)


def over(end: End = "completed", failure: Failure | None = None) -> list[Any]:
    return [events.TurnResult(end=end), events.StatusChanged(status="idle"), events.TurnEnded(end=end, failure=failure)]


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    return [line.get("type", "result" if "result" in line else "error") for line in lines]


def test_each_event_with_a_frame_is_in_the_history_or_counted_for_those_who_do_not_see_it() -> None:
    in_history = {events.TextDelta, events.QuestionAsked, events.TurnResult, events.TurnEnded}
    without_content = {events.RunStarted, events.ModelTurnStarted, events.GoalCleared}
    written = {k for k in get_args(Event) if FROM_EVENT.entries[k].produces and k.answers == "never"}
    forgotten = [kind.__name__ for kind in written - UNSEEN - in_history - without_content]
    assert not forgotten, f"decide if clients that do not see these lose something (UNSEEN): {forgotten}"
    assert written - UNSEEN == in_history | without_content


@pytest.mark.parametrize("kind", [events.Alert, events.UsageReported, events.LifecycleReport])
def test_each_event_without_a_form_is_counted_for_those_who_do_not_see_the_turn(kind: type[Any]) -> None:
    for event in legal_samples(kind):
        rendered = Projection("", HEAD).render(batch(event))
        assert (rendered.frames, [loss.kind for loss in rendered.losses]) == ([], [kind.__name__])


def test_a_hook_line_is_for_clients_of_the_release_that_prints_such_lines() -> None:
    report = {"type": "job_lifecycle", "job_id": "j", "phase": "started", "progress": None, "detail": None}
    hook = events.LifecycleReport(report=raw(report))
    assert shown(own(SEED), hook) == [report]
    rendered = own(HEAD).render(batch(hook))
    assert (rendered.frames, [loss.kind for loss in rendered.losses]) == ([], ["LifecycleReport"])


def test_several_model_turns_are_one_response() -> None:
    lines = shown(
        own(),
        events.ModelTurnStarted(),
        events.TextDelta(text="a"),
        events.ModelTurnStarted(),
        events.TextDelta(text="b"),
    )
    assert kinds(lines) == ["response_start", "response_delta", "response_delta"]
    assert len({line["response_id"] for line in lines}) == 1


def test_text_without_a_start_begins_a_response() -> None:
    assert kinds(shown(own(), events.TextDelta(text="a"))) == ["response_start", "response_delta"]


def test_a_turn_without_text_has_start_and_end_only_if_it_went_well() -> None:
    failure = Failure(cause="internal", text="refused")
    assert kinds(shown(own(), *over())) == ["response_start", "response_end", "result"]
    assert kinds(shown(own(), *over("failed", failure))) == ["error"]


def test_the_answer_names_the_request_and_the_thread_as_the_client_called_them() -> None:
    *_, answer = shown(Projection(mark_id('{"a":1}', "own", "odd"), HEAD), *over())
    assert (answer["id"], answer["result"]["thread_id"]) == ({"a": 1}, "odd")


def test_no_frame_is_written_after_the_answer_of_a_turn() -> None:
    projection = own()
    shown(projection, events.QuestionAsked(text="?", question="q", parked=True))
    assert shown(projection, events.QuestionAnswered(question="q"), events.TextDelta(text="a"), *over()) == []


def test_calls_wait_for_an_open_question_and_the_rest_is_a_run_of_its_own() -> None:
    projection = Projection()
    shown(projection, events.TextDelta(text="a"), events.QuestionAsked(text="?", question="q", parked=True))
    assert shown(projection, events.ToolCallArguments(name="t", json="{}", done=True)) == []
    lines = shown(projection, events.QuestionAnswered(question="q"), events.TextDelta(text="b"), *over())
    assert kinds(lines) == ["response_start", "response_delta", "response_end", "result"]
    assert [event["event"] for event in lines[-1]["result"]["events"]] == ["tool_call_start"]


def test_without_a_particular_reader_each_turn_is_shown() -> None:
    projection = Projection()
    for turn in (TURN, TURN[:-1] + "b"):
        lines = shown(projection, events.TextDelta(text="a"), *over(), turn=turn)
        assert kinds(lines) == ["response_start", "response_delta", "response_end", "result"]
        assert (lines[0]["response_id"], lines[-1]["id"]) == (f"{SESSION}:{turn}", None)


def test_the_turn_of_another_client_is_not_shown_and_its_unreadable_parts_are_counted() -> None:
    rendered = Projection("", HEAD).render(batch(events.TextDelta(text="a"), events.ReasoningDelta(text="b"), *over()))
    assert (rendered.frames, [loss.kind for loss in rendered.losses]) == ([], ["ReasoningDelta"])


def test_response_ids_of_the_seed_count_the_bytes_of_the_input() -> None:
    said = events.MessageAppended(message=Message(role="user", text="same size é"))
    lines = shown(own(SEED), said, events.ModelTurnStarted(), *over())
    assert {line["response_id"] for line in lines[:-1]} == {f"thread-{SESSION}:12"}


def test_the_frames_of_one_result_are_bounded() -> None:
    projection = own()
    rendered = projection.render(batch(*[events.ReasoningDelta(text="x")] * (FRAMES_MAX + 2)))
    assert [(loss.kind, loss.count) for loss in rendered.losses] == [("ReasoningDelta", 2)]
    *_, answer = shown(projection, *over())
    assert len(answer["result"]["events"]) == FRAMES_MAX


def test_the_cause_of_a_failure_is_sent_once() -> None:
    failure = Failure(cause="internal", text="boom")
    errors = [events.ErrorReported(cause="internal", text="boom"), events.ErrorReported(cause="internal", text="other")]
    rendered = own().render(batch(*errors, *over("failed", failure)))
    assert [loss.kind for loss in rendered.losses] == ["ErrorReported"]
    assert json.loads(rendered.frames[-1])["error"]["message"] == "boom"


@pytest.mark.parametrize("generation", [HEAD, SEED])
def test_a_copy_continues_like_the_original_and_independently(generation: str) -> None:
    projection = own(generation)
    shown(projection, events.ModelTurnStarted(), events.TextDelta(text="a"), events.ReasoningDelta(text="b"))
    twin = projection.copy()
    rest = [events.TextDelta(text="c"), *over()]
    assert shown(twin, *rest) == shown(projection, *rest)
    assert shown(twin, events.TextDelta(text="d")) == []
