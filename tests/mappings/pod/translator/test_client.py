"""A link with a pod as the peer: which of our commands its events answer (docs/translation.md, rule 3.17)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, json, structs

from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.values import Failure, FileAttachment, Message, Status, Text
from dragoman.mappings.dialect import Step
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.translator.client import LATE_QUIET, ClientTranslator
from dragoman.mappings.pod.translator.pending import PENDING_MAX
from tests.mappings.pod.data import CAPTURES, captured


def frame(event: str, **data: object) -> bytes:
    return json.encode({"event": event, "data": data} if data else {"event": event})


def error(code: str, text: str = "no") -> bytes:
    return frame("error", code=code, message=text)


def echo(text: str) -> bytes:
    return frame("user_message", segments=[{"kind": "text", "content": text}])


RUNNING, IDLE, PAUSED = (frame("status", status=status) for status in ("running", "idle", "paused"))
FINISHED = frame("run_end", result="finished")
CANCELLED = error("internal", "Cancelled")


class Pod:
    """The other end of a ClientTranslator, as a script: our commands, the pod's events, and the result."""

    def __init__(self) -> None:
        self.link = ClientTranslator(lambda: 0, lambda: "id", lambda: 0)

    def sent(self, *commands: Command) -> Step[Any]:
        return self.link.send(commands)

    def sends(self, *frames: bytes) -> list[Any]:
        step = self.link.receive(frames)
        assert step.faults == []
        self.losses = [(loss.why, loss.count) for loss in step.losses]
        return [item for burst in step.bursts for item in burst.items]


def run(request: str, text: str) -> commands.SubmitInput:
    return commands.SubmitInput(request=request, segments=(Text(text=text),))


def working(*commands: Command) -> Pod:
    """Return a pod that runs for another client when these commands are sent."""
    pod = Pod()
    pod.sends(RUNNING)
    pod.sent(*commands)
    return pod


def answered(items: list[Any]) -> list[Any]:
    return [item for item in items if type(item) is events.Reply]


def done(request: str) -> events.Reply:
    return events.Reply(request=request)


# -- what is sent -----------------------------------------------------------------------------------


def test_commands_become_method_lines_without_newline() -> None:
    step = Pod().sent(run("a", "x"), commands.CancelTurn(request="b"))
    assert step.frames == [
        b'{"method":"run","params":{"input":[{"kind":"text","content":"x"}]}}',
        b'{"method":"cancel"}',
    ]
    assert step.bursts == []


def test_a_command_without_a_method_is_refused_at_once_and_counted() -> None:
    step = Pod().sent(commands.SetGoal(request="a", objective="o"))
    (reply,) = step.bursts[0].items
    assert (reply.request, reply.failure.cause) == ("a", "unsupported")
    assert "goals" in reply.failure.text
    assert (step.frames, [loss.kind for loss in step.losses]) == ([], ["SetGoal"])


def test_attachments_are_refused_and_nothing_is_sent() -> None:
    step = Pod().sent(commands.SubmitInput(request="a", segments=(Text(text="x"), FileAttachment(name="n", url="u"))))
    (reply,) = step.bursts[0].items
    assert (reply.failure.cause, step.frames) == ("unsupported", [])


@pytest.mark.parametrize("command", [commands.InjectNote(request="a", text="n"), commands.ShutdownBackend(request="a")])
def test_methods_without_an_answer_succeed_when_they_are_sent(command: Command) -> None:
    step = Pod().sent(command)
    assert (len(step.frames), step.bursts[0].items) == (1, [done("a")])


def test_open_session_succeeds_by_connecting() -> None:
    step = Pod().sent(commands.OpenSession(request="a"))
    assert (step.frames, step.bursts[0].items) == ([], [done("a")])


def test_a_childs_report_is_passed_on_unchanged() -> None:
    report = Raw(b'{"kind":"shut_down","pod_name":"kid"}')
    step = Pod().sent(commands.InjectNote(request="a", text="t", ext={"pod.pod_event": report}))
    assert step.frames == [b'{"method":"pod_event","params":{"kind":"shut_down","pod_name":"kid"}}']


def test_a_command_without_request_is_not_answered() -> None:
    pod = Pod()
    assert pod.sent(commands.SetGoal(objective="o"), commands.CancelTurn()).bursts == []
    assert answered(pod.sends(error("not_running"))) == []


def test_pending_commands_are_bounded() -> None:
    pod = Pod()
    pod.sent(*(commands.CancelTurn(request=str(i)) for i in range(PENDING_MAX)))
    step = pod.sent(commands.CancelTurn(request="more"))
    (reply,) = step.bursts[0].items
    assert (reply.request, reply.failure.cause, step.frames) == ("more", "busy", [])


# -- runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [(), (RUNNING,), (echo("y"), RUNNING, FINISHED, IDLE)])
def test_a_run_is_accepted_by_its_echo(others: tuple[bytes, ...]) -> None:
    pod = Pod()
    pod.sent(run("a", "x"))
    assert events.TurnAccepted not in map(type, pod.sends(*others))
    assert pod.sends(echo("x")) == [events.TurnAccepted(request="a")]
    assert pod.sends(RUNNING) == [events.StatusChanged(status="running")]


def test_messages_after_an_echo_stay_behind_it() -> None:
    """A real pod tells of the interrupted run before its status; a terminal client shows it above the next input."""
    pod = Pod()
    pod.sent(run("a", "x"))
    interrupted = frame("system_item", item={"kind": "interrupt", "body": "[interrupted]"})
    said = pod.sends(
        echo("x"), interrupted, frame("invoke_start", kind="user_send"), RUNNING, frame("turn_start", turn=0)
    )
    assert [type(item) for item in said] == [
        events.TurnAccepted,
        events.MessageAppended,
        events.RunStarted,
        events.StatusChanged,
        events.ModelTurnStarted,
    ]


def test_a_message_of_another_client_is_passed_on_and_accepts_nothing() -> None:
    pod = Pod()
    pod.sent(run("a", "x"))
    said = pod.sends(echo("y"), RUNNING)
    message = Message(role="user", text="y", segments=(Text(text="y"),))
    assert said == [events.MessageAppended(message=message), events.StatusChanged(status="running")]


def test_an_echo_is_removed_once() -> None:
    pod = Pod()
    pod.sent(run("a", "x"))
    pod.sends(echo("x"), RUNNING)
    assert [type(item) for item in pod.sends(echo("x"))] == [events.MessageAppended]


def test_runs_are_accepted_oldest_first() -> None:
    pod = Pod()
    pod.sent(run("a", "x"), run("b", "x"))
    accepted = [
        i for i in pod.sends(echo("x"), RUNNING, FINISHED, IDLE, echo("x"), RUNNING) if type(i) is events.TurnAccepted
    ]
    assert accepted == [events.TurnAccepted(request="a"), events.TurnAccepted(request="b")]


def test_already_running_answers_the_oldest_run() -> None:
    pod = working(run("a", "x"), run("b", "y"))
    (first,), (second,) = answered(pod.sends(error("already_running"))), answered(pod.sends(error("already_running")))
    assert first.failure is not None
    assert (first.request, first.failure.cause, first.failure.text) == ("a", "busy", "no")
    assert second.request == "b"


def test_an_accepted_run_is_not_refused_any_more() -> None:
    pod = Pod()
    pod.sent(run("a", "x"))
    pod.sends(echo("x"), RUNNING)
    assert pod.sends(error("already_running")) == []
    assert pod.losses == [("answer to another client", 1)]


# -- cancel, pause, resume ---------------------------------------------------------------------------


def test_a_cancelled_run_answers_the_cancel() -> None:
    assert working(commands.CancelTurn(request="a")).sends(CANCELLED, IDLE) == [
        done("a"),
        events.TurnResult(end="cancelled"),
        events.StatusChanged(status="idle"),
    ]


def test_the_result_of_a_run_waits_for_the_status_that_ends_it() -> None:
    pod = working()
    assert pod.sends(FINISHED) == []  # a client that has read it may send its next run
    assert pod.sends(IDLE) == [events.TurnResult(end="completed"), events.StatusChanged(status="idle")]


@pytest.mark.parametrize("following", [RUNNING, error("internal", "disk full"), frame("run_end", result="paused")])
def test_the_result_of_a_run_stays_before_what_follows_it(following: bytes) -> None:
    pod = working()
    pod.sends(FINISHED)
    result, *later = pod.sends(following) + pod.sends(IDLE)
    assert result == events.TurnResult(end="completed")
    assert len(later) == 2


@pytest.mark.parametrize("command", [commands.CancelTurn(request="a"), commands.PauseTurn(request="a")])
def test_a_rollback_answers_cancel_and_pause(command: Command) -> None:
    assert answered(working(command).sends(frame("run_end", result="rolled_back"), IDLE)) == [done("a")]


def test_a_paused_run_answers_the_pause() -> None:
    assert answered(working(commands.PauseTurn(request="a")).sends(frame("run_end", result="paused"), PAUSED)) == [
        done("a")
    ]


def test_a_cancel_after_the_end_succeeds_and_its_error_is_dropped() -> None:
    pod = working(commands.CancelTurn(request="a"))
    assert answered(pod.sends(FINISHED, IDLE)) == [done("a")]
    assert (pod.sends(error("not_running")), pod.losses) == ([], [])


def test_a_cancel_whose_error_comes_before_the_end_succeeds_too() -> None:
    assert working(commands.CancelTurn(request="a")).sends(error("not_running")) == [done("a")]


def test_a_cancel_without_a_run_is_refused() -> None:
    pod = Pod()
    pod.sent(commands.CancelTurn(request="a"))
    (refused,) = answered(pod.sends(error("not_running")))
    assert refused.failure is not None
    assert (refused.request, refused.failure.cause, refused.failure.text) == ("a", "not_running", "no")


def test_a_pause_after_the_end_is_refused() -> None:
    (reply,) = answered(working(commands.PauseTurn(request="a")).sends(FINISHED, IDLE))
    assert (reply.request, reply.failure.cause) == ("a", "not_running")


def test_a_cancel_sent_after_an_input_cancels_its_run() -> None:
    pod = Pod()
    pod.sent(run("a", "x"), commands.CancelTurn(request="b"))
    said = pod.sends(echo("x"), RUNNING, FINISHED, IDLE)
    assert [item for item in said if type(item) in (events.TurnAccepted, events.Reply)] == [
        events.TurnAccepted(request="a"),
        done("b"),
    ]


@pytest.mark.parametrize(
    ("command", "method"), [(commands.CancelTurn(request="b"), "cancel"), (commands.PauseTurn(request="b"), "pause")]
)
def test_a_stop_before_the_first_model_turn_is_written_again(command: Command, method: str) -> None:
    pod, begun = Pod(), frame("turn_start", turn=4)
    pod.sent(run("a", "x"), command)
    assert pod.link.receive([echo("x"), RUNNING]).frames == []
    assert list(map(json.decode, pod.link.receive([begun]).frames)) == [{"method": method}]
    assert answered(pod.sends(frame("run_end", result="rolled_back"), IDLE)) == [done("b")]
    pod.sent(run("c", "y"), commands.CancelTurn(request="d"))
    assert (pod.sends(error("not_running")), pod.losses) == ([], [])  # both arrived: this is about the second one
    assert list(map(json.decode, pod.link.receive([echo("y"), RUNNING, begun]).frames)) == [{"method": "cancel"}]


def test_a_stop_of_an_idle_pod_is_refused_also_after_a_stop_that_was_written_twice() -> None:
    pod = Pod()
    pod.sent(run("a", "x"), commands.CancelTurn(request="b"))
    pod.sends(echo("x"), RUNNING, frame("turn_start", turn=4))
    pod.sends(frame("run_end", result="rolled_back"), IDLE)
    pod.sent(commands.PauseTurn(request="c"))
    (refused,) = answered(pod.sends(error("not_running")))
    assert (refused.request, refused.failure.cause) == ("c", "not_running")


def test_pausing_a_paused_pod_succeeds_at_once() -> None:
    pod = Pod()
    pod.sends(PAUSED)
    assert pod.sent(commands.PauseTurn(request="a")).bursts[0].items == [done("a")]


def test_a_resume_is_answered_by_running() -> None:
    pod = Pod()
    pod.sends(PAUSED)
    pod.sent(commands.ResumeTurn(request="a"))
    assert pod.sends(RUNNING) == [events.StatusChanged(status="running"), done("a")]


def test_not_paused_answers_the_resume_and_keeps_its_code() -> None:
    pod = Pod()
    pod.sent(commands.CancelTurn(request="a"), commands.ResumeTurn(request="b"))
    (reply,) = pod.sends(error("not_paused"))
    assert (reply.request, reply.failure.cause, reply.failure.ext) == (
        "b",
        "not_running",
        {"pod.code": Raw(b'"not_paused"')},
    )


def test_a_resume_into_a_running_pod_is_busy() -> None:
    assert working(commands.ResumeTurn(request="a")).sends(error("already_running"))[0].request == "a"


# -- discovery, completions, compact -----------------------------------------------------------------

LOOKUPS = [
    (
        commands.ListSessions(request="a"),
        frame("visible_pods", pods=[]),
        events.SessionsListed(request="a", sessions=()),
    ),
    (
        commands.GetSession(request="a"),
        frame("pod_inspection", pod={}),
        events.PodInspected(request="a", pod=Raw(b"{}")),
    ),
    (
        commands.ResumeSession(request="a"),
        frame("pod_attach_restore", result={}),
        events.PodAttached(request="a", result=Raw(b"{}")),
    ),
    (
        commands.ListCompletions(request="a", kind="file", prefix=""),
        frame("completions", kind="file", entries=[]),
        events.CompletionsListed(request="a", kind="file", entries=()),
    ),
]


@pytest.mark.parametrize(("command", "said", "answer"), LOOKUPS)
def test_an_answer_gets_the_request_of_its_command(command: Command, said: bytes, answer: Event) -> None:
    pod = Pod()
    pod.sent(command)
    assert pod.sends(said) == [answer]


@pytest.mark.parametrize("command", [row[0] for row in LOOKUPS[:3]] + [commands.Compact(request="a"), run("a", "x")])
def test_invalid_request_answers_the_oldest_command_that_can_be_invalid(command: Command) -> None:
    pod = Pod()
    pod.sent(commands.CancelTurn(request="z"), command, run("b", "x"))
    assert pod.sends(error("invalid_request")) == [
        events.Reply(request="a", failure=Failure(cause="invalid", text="no"))
    ]


def test_completions_are_never_refused() -> None:
    pod = Pod()
    pod.sent(commands.ListCompletions(request="a", kind="file", prefix=""))
    assert answered(pod.sends(error("invalid_request"), error("already_running"))) == []


@pytest.mark.parametrize(
    "end",
    [frame("compact_done", new_segment_id="0192f0e8-4d84-7d6e-a000-000000000001"), frame("compact_failed", error="e")],
)
def test_the_end_of_a_compaction_answers_compact(end: bytes) -> None:
    pod = Pod()
    pod.sent(commands.Compact(request="a"))
    assert answered(pod.sends(frame("compact_start"), end)) == [done("a")]


def test_a_compact_without_anything_to_do_is_answered_by_its_alert() -> None:
    pod = Pod()
    pod.sent(commands.Compact(request="a"))
    alert = frame("alert", level="warn", source="compactor", message="nothing to do", timestamp_ms=1)
    assert [type(item) for item in pod.sends(alert)] == [events.Alert, events.Reply]


# -- errors of others, and the rest -------------------------------------------------------------------


@pytest.mark.parametrize("code", ["provider_error", "tool_error", "internal"])
def test_a_failure_of_a_pod_that_does_not_run_refuses_the_oldest_run_without_an_echo(code: str) -> None:
    pod = Pod()
    pod.sent(run("a", "x"), run("b", "y"))
    (answer,) = pod.sends(error(code, "the backend cannot be reached"))
    assert (answer.request, answer.failure.text) == ("a", "the backend cannot be reached")
    assert [type(item) for item in pod.sends(echo("y"), RUNNING, error(code))][-1] is events.ErrorReported


def test_a_failure_of_a_running_pod_refuses_no_run() -> None:
    assert answered(working(run("a", "x")).sends(error("internal"))) == []


def test_the_error_of_a_failed_compaction_refuses_no_run() -> None:
    pod = Pod()
    pod.sent(commands.Compact(request="a"), run("b", "x"))
    alert = frame("alert", level="error", source="compactor", message="no", timestamp_ms=1)
    assert answered(pod.sends(frame("compact_failed", error="e"), alert, error("internal"))) == [done("a")]
    assert [item.request for item in answered(pod.sends(error("internal")))] == ["b"]


def test_the_error_for_a_bad_line_of_another_client_refuses_no_run() -> None:
    pod = Pod()
    pod.sent(run("a", "x"))
    assert pod.sends(error("internal", "invalid method: x")) == []


@pytest.mark.parametrize("code", ["provider_error", "tool_error", "internal"])
def test_failures_are_passed_on(code: str) -> None:
    assert [type(item) for item in Pod().sends(error(code))] == [events.ErrorReported]


def test_an_invalid_request_in_a_run_is_its_error() -> None:
    assert working().sends(error("invalid_request")) == [events.ErrorReported(cause="invalid", text="no")]


def test_the_status_of_a_snapshot_is_used() -> None:
    pod = Pod()
    snapshot = next(
        frame for path in CAPTURES for _, way, frame in captured(path) if b'"status":"running"}}' in frame[-30:]
    )
    pod.sends(snapshot)
    pod.sent(commands.CancelTurn(request="a"))
    assert pod.sends(error("not_running")) == [done("a")]


# -- a pod that is not running ------------------------------------------------------------------------

LATE = frame("text_delta", text="late")


def told_after_silence(step: Step[Any]) -> list[Any]:
    assert step.alarm is not None
    assert step.alarm.after == LATE_QUIET
    return [item for burst in step.alarm.callback().bursts for item in burst.items]


@pytest.mark.parametrize(("status", "known"), [(IDLE, "idle"), (PAUSED, "paused")])
def test_after_content_of_a_pod_that_stopped_its_status_is_told_again(status: bytes, known: Status) -> None:
    pod = Pod()
    step = pod.link.receive([RUNNING, status, LATE])
    assert pod.link.text_reader(events.TextDelta) is None
    assert told_after_silence(step) == [events.StatusChanged(status=known)]
    assert pod.link.text_reader(events.TextDelta) is not None
    assert told_after_silence(step) == []


@pytest.mark.parametrize("status", [RUNNING, IDLE])
def test_a_status_after_late_content_is_enough(status: bytes) -> None:
    pod = Pod()
    step = pod.link.receive([LATE])
    pod.sends(status)
    assert told_after_silence(step) == []


def test_late_content_of_an_earlier_connection_is_forgotten() -> None:
    pod = Pod()
    step = pod.link.receive([LATE])
    pod.link.opened()
    assert told_after_silence(step) == []


@pytest.mark.parametrize(
    "frames",
    [
        [RUNNING, LATE],
        [RUNNING, LATE, FINISHED, IDLE],
        [RUNNING, LATE, IDLE, FINISHED],
        [error("provider_error")],
        [echo("hi")],
        [frame("text_done", text="")],
        [frame("thinking_done", text="")],
    ],
)
def test_no_silence_is_awaited_without_late_content(frames: list[bytes]) -> None:
    pod = Pod()
    assert pod.link.receive(frames).alarm is None


@pytest.mark.parametrize(
    "unread", [frame("status", status="busy"), frame("status"), frame("status", status=None), b'["status",{}]']
)
def test_a_status_that_cannot_be_read_is_idle_if_the_pod_runs(unread: bytes) -> None:
    pod = working(commands.CancelTurn(request="c"))
    step = pod.link.receive([LATE, unread])
    assert len(step.faults) == 1
    assert [item for burst in step.bursts[1:] for item in burst.items] == [
        events.StatusChanged(status="idle"),
        done("c"),
    ]
    step = pod.link.receive([unread])
    assert (len(step.faults), step.bursts) == (1, [])


def test_pending_commands_fail_when_the_link_ends() -> None:
    pod = Pod()
    pod.sent(run("a", "x"), commands.CancelTurn(request="b"))
    step = pod.link.closed("gone")
    replies: list[Any] = [item for burst in step.bursts for item in burst.items]
    assert [(reply.request, reply.failure.cause) for reply in replies] == [
        ("a", "upstream_lost"),
        ("b", "upstream_lost"),
    ]
    assert pod.link.closed("gone") == Step()


def test_a_batch_of_unhandled_events_is_passed_on_whole() -> None:
    said = Pod().sends(*[frame("text_delta", text=str(i)) for i in range(100)])
    assert said == [events.TextDelta(text=str(i)) for i in range(100)]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_every_captured_run_of_the_client_is_accepted_or_refused_once(path: Path) -> None:
    pod, asked, answers = Pod(), 0, []
    for conn, way, line in captured(path):
        if conn != "a":
            continue
        if way == "c2s":
            step: Step[Any] = Step()
            DIALECT.commands.receive([line], step)
            (command,) = step.bursts[0].items
            if type(command) is commands.SubmitInput:
                asked += 1
                pod.sent(structs.replace(command, request=str(asked)))
        else:
            answers += [i for i in pod.sends(line) if type(i) is events.TurnAccepted or type(i) is events.Reply]
    assert [answer.request for answer in answers] == [str(i + 1) for i in range(asked)]
