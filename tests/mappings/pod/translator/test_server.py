"""A link with a pod client as the peer."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from msgspec import json

from dragoman.mappings.canonical import Event, SessionState, commands, events
from dragoman.mappings.canonical.values import BackendInfo, Failure, SessionSummary, Text
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod.translator.server import ServerTranslator

SESSION = "0192f0e8-4d84-7d6e-a000-0000000000aa"


def server() -> ServerTranslator:
    ids = count(1)
    return ServerTranslator(lambda: 5_000_000, lambda: f"r{next(ids)}")


def attached(**fields: Any) -> ServerTranslator:
    translator = server()
    translator.attach(SessionState(id=SESSION, backend=BackendInfo(name="atlas"), **fields))
    return translator


def lines(step: Step[Any]) -> list[Any]:
    return [json.decode(frame) for frame in step.frames]


def names(step: Step[Any]) -> list[str]:
    return [line["event"] for line in lines(step)]


def errors(step: Step[Any]) -> list[tuple[str, str]]:
    return [(line["data"]["code"], line["data"]["message"]) for line in lines(step)]


def items(step: Step[Any]) -> list[Any]:
    return [item for burst in step.bursts for item in burst.items]


def test_each_method_gets_a_request_of_ours() -> None:
    step = server().receive(
        [b'{"method":"cancel"}', b'{"method":"run","params":{"input":[{"kind":"text","content":"x"}]}}']
    )
    assert items(step) == [
        commands.CancelTurn(request="r1"),
        commands.SubmitInput(request="r2", segments=(Text(text="x"),)),
    ]
    assert [burst.request for burst in step.bursts] == ["r1", "r2"]


def test_an_unknown_method_is_answered_and_counted() -> None:
    step = attached().receive([b'{"method":"dance"}'])
    ((code, text),) = errors(step)
    assert code == "internal"
    assert text.startswith("invalid method: unknown variant `dance`, expected one of `run`, `notify`, `pod_event`")
    assert (step.bursts, [loss.why for loss in step.losses]) == ([], ["unknown method"])


def test_the_text_of_an_error_is_bounded() -> None:
    ((_, text),) = errors(attached().receive([b'{"method":"' + b"x" * 10_000 + b'"}']))
    assert len(text) <= 500


@pytest.mark.parametrize("frame", [b"", b"   ", b"\r", "\u3000".encode()])
def test_blank_lines_are_skipped(frame: bytes) -> None:
    step = server().receive([frame])
    assert (step.frames, step.faults, step.bursts) == ([], [], [])


def test_alerts_come_before_the_one_snapshot() -> None:
    state = SessionState(id=SESSION)
    state.alerts.append(events.Alert(level="warn", source="pod", text="one", at=1_000_000))
    state.alerts.append(events.Alert(level="error", source="compactor", text="two"))
    step = server().attach(state)
    assert names(step) == ["alert", "alert", "snapshot"]
    assert [line["data"]["timestamp_ms"] for line in lines(step)[:2]] == [1, 5]


def test_a_client_never_gets_a_second_snapshot() -> None:
    assert names(attached().attach(SessionState(id=SESSION))) == ["segment_rotated"]


def test_a_client_that_follows_another_session_is_told_its_status() -> None:
    step = attached().attach(SessionState(id=SESSION, status="running"))
    assert names(step) == ["segment_rotated", "status"]
    assert lines(step)[1]["data"] == {"status": "running"}


def test_a_client_that_follows_another_session_is_told_its_alerts_once() -> None:
    other, pod = SessionState(id="another", alerts=[events.Alert(level="warn", source="pod", text="one")]), attached()
    assert names(pod.attach(other)) == ["alert", "segment_rotated"]
    assert names(pod.attach(other)) == ["segment_rotated"]


def test_a_successful_command_has_no_answer() -> None:
    step = attached().send([events.Reply(request="r1"), events.TurnAccepted(request="r2")])
    assert (step.frames, step.losses) == ([], [])


def test_completions_that_a_backend_does_not_have_are_an_empty_list() -> None:
    """A pod answers `list_completions` in each state (docs/dialects/pod.md, section 8), and never with an error."""
    translator = attached()
    (command,) = items(translator.receive([b'{"method":"list_completions","params":{"kind":"file","prefix":"a"}}']))
    failure = Failure(cause="unsupported", text="smooth has no completions")
    step = translator.send([events.Reply(request=command.request, failure=failure)])
    assert lines(step) == [{"event": "completions", "data": {"kind": "file", "entries": []}}]


def test_the_clients_own_session_is_listed_by_its_pod_name() -> None:
    rows = (SessionSummary(session=SESSION, status="paused"), SessionSummary(session="aaa"))
    (line,) = lines(attached().send([events.SessionsListed(request="r", sessions=rows)]))
    pods = line["data"]["pods"]
    assert [(pod["pod_name"], pod["live"]["status"]) for pod in pods] == [("aaa", "idle"), ("atlas", "paused")]


@pytest.mark.parametrize(
    ("method", "answer"), [("inspect_pod", "pod_inspection"), ("attach_or_restore_pod", "pod_attach_restore")]
)
def test_a_command_about_the_clients_own_pod_is_about_its_session(method: str, answer: str) -> None:
    translator = attached()
    (command,) = items(translator.receive([json.encode({"method": method, "params": {"name": "atlas"}})]))
    assert command.session == SESSION
    step = translator.send([events.SessionOpened(request=command.request, session=SESSION, status="running")])
    assert names(step) == [answer]
    assert b'"pod_name":"atlas"' in step.frames[0]


def test_a_command_about_another_pod_names_it() -> None:
    (command,) = items(attached().receive([b'{"method":"inspect_pod","params":{"name":"kid"}}']))
    assert command == commands.GetSession(request="r1", session="kid")


@pytest.mark.parametrize(
    "event", [events.Pong(request="r"), events.TextDelta(text="x"), events.HistorySnapshot(items=(), request="r")]
)
def test_an_item_that_is_no_answer_in_pod_is_counted(event: Event) -> None:
    step = attached().send([event])
    assert (step.frames, [loss.kind for loss in step.losses]) == ([], [type(event).__name__])


def test_shutdown_is_sent_once() -> None:
    translator = attached()
    assert translator.send([events.BackendShutdown(reason="detached")]).frames == [b'{"event":"shutdown"}']
    assert translator.closed("the gateway stops").frames == []


def test_a_normal_end_is_sent_as_shutdown() -> None:
    assert attached().closed("the gateway stops").frames == [b'{"event":"shutdown"}']


@pytest.mark.parametrize("cause", ["flooding", "too_slow", ""])
def test_a_link_that_fails_ends_without_shutdown(cause: str) -> None:
    assert attached().closed(cause).frames == []


def test_a_client_without_a_snapshot_gets_no_shutdown() -> None:
    assert server().opened() == server().closed("the gateway stops") == Step()
