"""The meaning of pod events, beyond their round trip."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw, json

from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import Usage
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.vocabulary import CANCELLED, CAUSE_OF_CODE


def meant(said: str, /, **data: object) -> Any:
    step: Step[Any] = Step()
    DIALECT.events.receive([json.encode({"event": said, "data": data})], step)
    assert step.faults == []
    ((event,),) = [burst.items for burst in step.bursts]
    return event


@pytest.mark.parametrize(
    ("result", "end"),
    [("finished", "completed"), ("paused", "paused"), ("limit_reached", "limit_reached"), ("rolled_back",) * 2],
)
def test_the_result_of_a_run_is_the_end_of_its_turn(result: str, end: Any) -> None:
    assert meant("run_end", result=result) == events.TurnResult(end=end)


def test_the_internal_error_cancelled_ends_a_cancelled_turn() -> None:
    assert meant("error", code="internal", message=CANCELLED) == events.TurnResult(end="cancelled")


@pytest.mark.parametrize(("code", "text"), [("internal", "cancelled"), ("tool_error", CANCELLED)])
def test_no_other_error_is_a_cancel(code: str, text: str) -> None:
    assert isinstance(meant("error", code=code, message=text), events.ErrorReported)


@pytest.mark.parametrize(("code", "cause"), CAUSE_OF_CODE.items())
def test_each_error_code_has_its_cause(code: str, cause: str) -> None:
    assert meant("error", code=code, message="m").cause == cause


def test_only_a_code_that_its_cause_does_not_give_back_is_kept_in_ext() -> None:
    assert meant("error", code="not_paused", message="m").ext == {"pod.code": Raw(b'"not_paused"')}
    assert meant("error", code="not_running", message="m").ext is None


def test_times_become_nanoseconds() -> None:
    assert meant("alert", level="warn", source="pod", message="m", timestamp_ms=-7).at == -7_000_000


def test_complete_arguments_are_done_and_fragments_are_not() -> None:
    assert meant("tool_call_args_delta", id="c", json='{"a') == events.ToolCallArguments(call="c", json='{"a')
    whole = events.ToolCallArguments(call="c", name="n", json="{}", done=True)
    assert meant("tool_call_done", id="c", name="n", arguments="{}") == whole


def test_an_absent_output_is_none_and_an_empty_one_is_empty() -> None:
    assert meant("tool_result", id="c", summary="s").output is None
    assert meant("tool_result", id="c", summary="s", output="").output == ""


def test_unknown_token_counts_are_none() -> None:
    assert meant("usage", input_tokens=None, output_tokens=3).usage == Usage(output_tokens=3)


def test_a_snapshot_is_a_whole_history_and_a_rotation_a_rotated_one() -> None:
    greeting = {"pod_name": "p", "cwd": "/", "provider": "gemini", "model": "m", "scope_summary": "", "tools": ["Read"]}
    snapshot = meant("snapshot", entries=[], greeting={**greeting, "context_window": 5}, status="paused")
    assert (snapshot.rotated, snapshot.status, snapshot.backend.name, snapshot.backend.tools) == (
        *(False, "paused", "p", ("Read",)),
    )
    rotation = meant("segment_rotated", entry={"kind": "segment_start", "history": [], "ts": 1})
    assert (rotation.rotated, rotation.items) == (True, ())


def test_a_system_item_is_a_system_message_with_the_item_in_ext() -> None:
    message = meant("system_item", item={"kind": "interrupt", "body": "b"}).message
    assert (message.role, message.text, message.ext) == (
        "system",
        "b",
        {"pod.item": Raw(b'{"body":"b","kind":"interrupt"}')},
    )


@pytest.mark.parametrize("pod", [7, None, {}, {"pod_name": 3, "live": []}, {"live": {"status": "gone"}}])
def test_a_pod_of_unknown_shape_is_still_listed(pod: object) -> None:
    (session,) = meant("visible_pods", pods=[pod]).sessions
    assert (session.session, session.status) == ("", "idle")


def test_a_listed_pod_is_known_by_its_name_and_state() -> None:
    (session,) = meant("visible_pods", pods=[{"pod_name": "k", "live": {"status": "running"}}]).sessions
    assert (session.session, session.title, session.status) == ("k", "k", "running")
