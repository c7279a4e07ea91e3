"""Methods and events of a pod as canonical commands and events."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw, json

from dragoman.mappings.canonical import Command, commands, events
from dragoman.mappings.canonical.values import FileRef, Text, Usage
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.vocabulary import CANCELLED, CAUSE_OF_CODE

# -- commands --------------------------------------------------------------------------------------------


def command_of(frame: bytes) -> Command:
    step: Step[Any] = Step()
    DIALECT.commands.receive([frame], step)
    assert step.faults == []
    ((command,),) = [burst.items for burst in step.bursts]
    return command  # type: ignore[no-any-return]  # a burst's items are commands or events


@pytest.mark.parametrize(
    ("frame", "command"),
    [
        (
            b'{"method":"run","params":{"input":[{"kind":"text","content":"see "},{"kind":"file_ref","path":"a"}]}}',
            commands.SubmitInput(segments=(Text(text="see "), FileRef(path="a"))),
        ),
        (b'{"method":"notify","params":{"message":"n"}}', commands.InjectNote(text="n")),
        (b'{"method":"resume"}', commands.ResumeTurn()),
        (b'{"method":"cancel","params":null}', commands.CancelTurn()),
        (b'{"method":"pause"}', commands.PauseTurn()),
        (b'{"method":"compact"}', commands.Compact()),
        (b'{"method":"shutdown"}', commands.ShutdownBackend()),
        (
            b'{"method":"list_completions","params":{"kind":"workflow","prefix":"r"}}',
            commands.ListCompletions(kind="workflow", prefix="r"),
        ),
        (b'{"method":"list_visible_pods"}', commands.ListSessions()),
        (b'{"method":"inspect_pod","params":{"name":"k"}}', commands.GetSession(session="k")),
        (b'{"method":"attach_or_restore_pod","params":{"name":"k"}}', commands.ResumeSession(session="k")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_method_is_its_command_without_a_request(frame: bytes, command: Command) -> None:
    assert command_of(frame) == command


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (b'"turn_ended","pod_name":"k"', "Pod k finished its run."),
        (b'"errored","pod_name":"k","message":"m"', "Pod k failed: m"),
        (b'"shut_down","pod_name":"k"', "Pod k has shut down."),
        (
            b'"scope_sub_delegated","parent_pod":"p","sub_pod":"s","sub_socket":"/s","scope":[]',
            "Pod p gave a part of its scope to its new pod s.",
        ),
    ],
)
def test_a_childs_report_is_a_note_with_the_report_in_ext(report: bytes, told: str) -> None:
    command = command_of(b'{"method":"pod_event","params":{"kind":' + report + b"}}")
    assert isinstance(command, commands.InjectNote)
    assert command.text == told
    assert set(command.ext or {}) == {"pod.pod_event"}


# -- events ----------------------------------------------------------------------------------------------


def event_of(said: str, /, **data: object) -> Any:
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
    assert event_of("run_end", result=result) == events.TurnResult(end=end)


def test_the_internal_error_cancelled_ends_a_cancelled_turn() -> None:
    assert event_of("error", code="internal", message=CANCELLED) == events.TurnResult(end="cancelled")


@pytest.mark.parametrize(("code", "text"), [("internal", "cancelled"), ("tool_error", CANCELLED)])
def test_no_other_error_is_a_cancel(code: str, text: str) -> None:
    assert isinstance(event_of("error", code=code, message=text), events.ErrorReported)


@pytest.mark.parametrize(("code", "cause"), CAUSE_OF_CODE.items())
def test_each_error_code_has_its_cause(code: str, cause: str) -> None:
    assert event_of("error", code=code, message="m").cause == cause


def test_only_a_code_that_its_cause_does_not_give_back_is_kept_in_ext() -> None:
    assert event_of("error", code="not_paused", message="m").ext == {"pod.code": Raw(b'"not_paused"')}
    assert event_of("error", code="tool_error", message="m").ext is None


def test_times_become_nanoseconds() -> None:
    assert event_of("alert", level="warn", source="pod", message="m", timestamp_ms=-7).at == -7_000_000


def test_complete_arguments_are_done_and_fragments_are_not() -> None:
    assert event_of("tool_call_args_delta", id="c", json='{"a') == events.ToolCallArguments(call="c", json='{"a')
    whole = events.ToolCallArguments(call="c", name="n", json="{}", done=True)
    assert event_of("tool_call_done", id="c", name="n", arguments="{}") == whole


def test_an_absent_output_is_none_and_an_empty_one_is_empty() -> None:
    assert event_of("tool_result", id="c", summary="s").output is None
    assert event_of("tool_result", id="c", summary="s", output="").output == ""


def test_unknown_token_counts_are_none() -> None:
    assert event_of("usage", input_tokens=None, output_tokens=3).usage == Usage(output_tokens=3)


def test_a_snapshot_is_a_whole_history_and_a_rotation_a_rotated_one() -> None:
    greeting = {"pod_name": "p", "cwd": "/", "provider": "gemini", "model": "m", "scope_summary": "", "tools": ["Read"]}
    snapshot = event_of("snapshot", entries=[], greeting={**greeting, "context_window": 5}, status="paused")
    assert (snapshot.rotated, snapshot.status, snapshot.backend.name, snapshot.backend.tools) == (
        *(False, "paused", "p", ("Read",)),
    )
    rotation = event_of("segment_rotated", entry={"kind": "segment_start", "history": [], "ts": 1})
    assert (rotation.rotated, rotation.items) == (True, ())


def test_a_system_item_is_a_system_message_with_the_item_in_ext() -> None:
    message = event_of("system_item", item={"kind": "interrupt", "body": "b"}).message
    assert (message.role, message.text, message.ext) == (
        "system",
        "b",
        {"pod.item": Raw(b'{"body":"b","kind":"interrupt"}')},
    )


@pytest.mark.parametrize("pod", [7, None, {}, {"pod_name": 3, "live": []}, {"live": {"status": "gone"}}])
def test_a_pod_of_unknown_shape_is_still_listed(pod: object) -> None:
    (session,) = event_of("visible_pods", pods=[pod]).sessions
    assert (session.session, session.status) == ("", "idle")


def test_a_listed_pod_is_known_by_its_name_and_state() -> None:
    (session,) = event_of("visible_pods", pods=[{"pod_name": "k", "live": {"status": "running"}}]).sessions
    assert (session.session, session.title, session.status) == ("k", "k", "running")
