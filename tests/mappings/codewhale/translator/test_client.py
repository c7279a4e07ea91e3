"""A link with a child: the captured conversations as a client hears them, turns, the thread, and what is refused."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dragoman.mappings.canonical import Command, SessionState
from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical import events as say
from dragoman.mappings.canonical.values import Backend, FileAttachment, Text
from dragoman.mappings.codewhale import DIALECT, ClientTranslator
from dragoman.mappings.codewhale.translator.opening import HELD_MAX
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED, keep, methods
from dragoman.mappings.jsonrpc import WAITING_MAX
from tests.mappings.codewhale.data import CAPTURES, captured

THREAD = "thread-00000000-0000-4000-8000-000000000001"
SESSION = THREAD[7:]
AT = 1_795_222_341 * 10**9

ROW = {
    "id": THREAD,
    "preview": "New conversation",
    "ephemeral": True,
    "model_provider": "deepseek",
    "created_at": 1,
    "updated_at": 1,
    "status": "running",
    "cwd": "/w",
    "cli_version": "0.9.10",
    "source": "interactive",
}


class Child:
    """The far end of a ClientTranslator, as a script."""

    def __init__(self, generation: str = HEAD) -> None:
        numbers = count(1)
        self.link = ClientTranslator(lambda: AT, lambda: f"{next(numbers)}")
        self.asked: list[dict[str, Any]] = []
        self.losses: list[str] = []
        self.faults: list[Any] = []
        self._did(self.link.opened())
        if generation:
            self.answers("capabilities", {"methods": methods(generation)})

    def open(self) -> Child:
        assert self.sent(ask.OpenSession(request="open")) == []
        self.answers("thread/start", {"thread_id": THREAD, "status": "started", "thread": ROW, "data": {}})
        return self

    def message(self, text: str = "hi", request: str = "m") -> list[Any]:
        return self.sent(ask.SubmitInput(request=request, session=SESSION, segments=(Text(text=text),)))

    def sent(self, *commands: Command) -> list[Any]:
        return self._did(self.link.send(commands))

    def attached(self, state: SessionState) -> list[Any]:
        return self._did(self.link.attach(state))

    def answers(self, method: str, result: object = None, error: tuple[int, str] | None = None) -> list[Any]:
        """Answer the oldest request of this method."""
        request = next(request for request in self.asked if request["method"] == method)
        self.asked.remove(request)
        said = {"error": {"code": error[0], "message": error[1], "data": None}} if error else {"result": result}
        return self.says({"jsonrpc": "2.0", "id": request["id"], **said})

    def says(self, *lines: dict[str, Any]) -> list[Any]:
        return self._did(self.link.receive([json.dumps(line).encode() for line in lines]))

    def streams(self, kind: str, **more: str) -> list[Any]:
        return self.says({"type": f"response_{kind}", "response_id": "thr:turn", **more})

    def _did(self, step: Any) -> list[Any]:
        self.asked += map(json.loads, step.frames)
        self.losses += [loss.kind for loss in step.losses]
        self.faults += step.faults
        return [item for burst in step.bursts for item in burst.items]


# -- captured conversations --------------------------------------------------------------------------


def played(path: Path) -> tuple[list[Any], list[str]]:
    """What a client link hears in a captured conversation, whose requests it asks itself."""
    translators: dict[str, ClientTranslator] = {}
    own: dict[tuple[str, str], object] = {}
    heard: list[Any] = []
    losses: list[str] = []
    for conn, way, line in captured(path):
        if conn not in translators:
            numbers = count(1)
            translators[conn] = ClientTranslator(lambda: AT, lambda numbers=numbers: f"{next(numbers)}")  # type: ignore[misc]  # a default that lambdas cannot annotate
            translators[conn].opened()
            can = methods(SEED if path.stem.startswith("13") else HEAD)
            translators[conn].receive([json.dumps({"id": 1, "result": {"methods": can}}).encode()])
        link = translators[conn]
        if way == "c2s":
            commands = DIALECT.commands.codec
            try:
                message = commands.decode(line.encode())
            except Exception:  # noqa: BLE001  # a bad line, which our client never writes
                continue
            for command in DIALECT.commands.to_canonical.functions[type(message)](message):
                step = link.send([command])
                heard += [item for burst in step.bursts for item in burst.items]
                for frame in step.frames:
                    own[conn, json.dumps(json.loads(line).get("id"))] = json.loads(frame)["id"]
        else:
            value = json.loads(line)
            if "id" in value:
                value["id"] = own.get((conn, json.dumps(value["id"])), value["id"])
            step = link.receive([json.dumps(value).encode()])
            assert step.faults == []
            heard += [item for burst in step.bursts for item in burst.items]
            losses += [loss.kind for loss in step.losses]
    return heard, losses


def capture(number: str) -> Path:
    return next(path for path in CAPTURES if path.stem.startswith(number))


def test_the_text_of_captured_turns_is_that_of_their_bare_lines_and_each_has_one_end() -> None:
    path = capture("02")
    heard, _ = played(path)
    lines = [json.loads(line) for _, way, line in captured(path) if way == "s2c"]
    said = "".join(line["delta"] for line in lines if line.get("type") == "response_delta")
    assert "".join(item.text for item in heard if isinstance(item, say.TextDelta)) == said
    ends = [item.end for item in heard if isinstance(item, say.TurnEnded)]
    starts = [item for item in heard if isinstance(item, say.ModelTurnStarted)]
    accepted = [item for item in heard if isinstance(item, say.TurnAccepted)]
    assert (ends, len(starts), len(accepted)) == (["completed"] * 4, 4, 4)


def test_the_seed_has_its_text_in_the_result_and_the_hook_mirror_beside_it_is_not_counted() -> None:
    heard, _ = played(capture("13"))
    turns = [item for item in heard if isinstance(item, say.TurnEnded)]
    starts = [item for item in heard if isinstance(item, say.ModelTurnStarted)]
    texts = [item.text for item in heard if isinstance(item, say.TextDelta)]
    assert (len(turns), len(starts), texts) == (7, 7, ["queued"] * 7)  # "model-selected" of prompts is no turn's


def test_captured_interrupts_end_their_turns_as_cancelled() -> None:
    heard, _ = played(capture("04"))
    assert [item.end for item in heard if isinstance(item, say.TurnEnded)] == ["cancelled", "cancelled", "completed"]


def test_captured_failures_end_their_turns_with_the_text_of_the_error() -> None:
    path = capture("05")
    heard, _ = played(path)
    ends = [item for item in heard if isinstance(item, say.TurnEnded)]
    lines = [json.loads(line) for _, way, line in captured(path) if way == "s2c"]
    messages = [line["error"]["message"] for line in lines if "error" in line]
    told = [item.failure.text for item in ends if item.failure is not None]
    cancelled = [item for item in ends if item.end == "cancelled"]
    assert told == [message for message in messages if message not in ("turn interrupted", "turn canceled")]
    assert len(cancelled) == len(messages) - len(told) == 1


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_only_answers_to_what_we_never_ask_are_without_a_place(path: Path) -> None:
    """Bad lines, interrupts of no turn and of the seed: those our client does not write."""
    assert set(played(path)[1]) <= {"Reply"}


# -- the thread --------------------------------------------------------------------------------------


def test_the_first_thing_that_is_asked_is_what_the_child_can_do() -> None:
    assert [request["method"] for request in Child(generation="").asked] == ["capabilities"]


def test_what_needs_a_thread_waits_until_it_stands() -> None:
    child = Child()
    assert child.message() == []
    assert [request["method"] for request in child.asked] == ["thread/start"]
    opened, accepted = child.answers(
        "thread/start", {"thread_id": THREAD, "status": "started", "thread": ROW, "data": {}}
    )
    assert (opened.session, opened.request, accepted) == (SESSION, "", say.TurnAccepted(request="m"))
    assert child.asked[0]["params"] == {"thread_id": THREAD, "input": "hi"}


def test_a_thread_that_is_not_opened_fails_what_waited_for_it() -> None:
    child = Child()
    child.message()
    (refused,) = child.answers("thread/start", error=(-32603, "store failure"))
    assert (refused.request, refused.failure.text) == ("m", "store failure")


def test_no_more_than_a_bounded_number_waits() -> None:
    child = Child()
    answers = child.sent(*(ask.GetGoal(request=f"r{n}", session=SESSION) for n in range(HELD_MAX + 2)))
    assert [(answer.request, answer.failure.cause) for answer in answers] == [
        (f"r{HELD_MAX}", "busy"),
        (f"r{HELD_MAX + 1}", "busy"),
    ]


def test_a_restarted_child_goes_on_with_the_thread_in_its_folder_and_the_lost_context_is_told() -> None:
    child = Child()
    state = SessionState(id=SESSION, backend=Backend(cwd="/w"), backend_ids=keep(thread_id=THREAD))
    assert child.attached(state) == []
    assert child.asked[0]["method"] == "thread/resume"
    assert (child.asked[0]["params"]["thread_id"], child.asked[0]["params"]["cwd"]) == (THREAD, "/w")
    opened, gap = child.answers("thread/resume", {"thread_id": THREAD, "status": "resumed", "thread": ROW, "data": {}})
    assert isinstance(opened, say.SessionOpened)
    assert isinstance(gap, say.Gap)


def test_a_thread_that_a_restarted_child_does_not_know_is_begun_anew_and_the_loss_is_told() -> None:
    child = Child()
    child.attached(SessionState(id=SESSION, backend_ids=keep(thread_id=THREAD)))
    assert child.answers("thread/resume", error=(-32004, "thread not found")) == []
    other = ROW | {"id": "thread-00000000-0000-4000-8000-000000000002"}
    opened, gap = child.answers(
        "thread/start", {"thread_id": other["id"], "status": "started", "thread": other, "data": {}}
    )
    assert opened.session == "00000000-0000-4000-8000-000000000002"
    assert isinstance(gap, say.Gap)


def test_a_thread_of_the_store_that_a_client_resumes_has_lost_its_context_too() -> None:
    """docs/dialects/codewhale.md, section 3: the store keeps the thread, and the memory of the process its context."""
    child = Child()
    child.sent(ask.ResumeSession(request="r", session=SESSION))
    assert child.asked[0]["params"]["thread_id"] == THREAD
    opened, gap = child.answers("thread/resume", {"thread_id": THREAD, "status": "resumed", "thread": ROW, "data": {}})
    assert (opened.request, opened.session) == ("r", SESSION)
    assert gap.context


def test_a_fresh_thread_has_lost_nothing() -> None:
    child = Child()
    child.sent(ask.OpenSession(request="r"))
    answered = {"thread_id": THREAD, "status": "started", "thread": ROW, "data": {}}
    assert [type(event) for event in child.answers("thread/start", answered)] == [say.SessionOpened]


def test_an_odd_way_of_asking_is_not_handed_to_the_child() -> None:
    """A message that is asked by thread/request cannot be interrupted (docs/dialects/codewhale.md, section 1.4)."""
    child = Child().open()
    command = ask.SubmitInput(session=SESSION, segments=(Text(text="x"),), ext=keep(method="thread/request"))
    child.sent(command)
    assert child.asked[0]["method"] == "thread/message"


# -- turns -------------------------------------------------------------------------------------------


def test_an_input_is_accepted_once_its_line_is_written() -> None:
    child = Child().open()
    assert child.message() == [say.TurnAccepted(request="m")]


def test_lines_are_streamed_and_the_end_of_a_response_is_no_end_of_a_turn() -> None:
    child = Child().open()
    child.message()
    assert child.streams("start") == [say.ModelTurnStarted()]
    assert child.streams("delta", delta="a") == [say.TextDelta(text="a")]
    assert child.streams("start") == []  # the hook mirror says it again
    assert child.streams("end") == []
    assert child.answers("thread/message", {"thread_id": THREAD, "status": "accepted", "data": {"turn_id": "t"}}) == [
        say.TurnEnded(end="completed")
    ]


def test_what_a_result_says_again_of_streamed_text_is_not_told_twice_and_what_else_it_says_is() -> None:
    child = Child().open()
    child.message()
    child.streams("start")
    child.streams("delta", delta="a")
    frames = [
        {"event": "response_start", "response_id": "r"},
        {"event": "response_delta", "response_id": "r", "delta": "a"},
        {"event": "response_delta", "response_id": "r", "delta": "hm", "channel": "reasoning"},
        {"event": "exec_command_begin", "command": "ls", "cwd": "/w"},
        {"event": "elicitation_request", "server_name": "s", "request_id": "q", "prompt": "p"},
        {"event": "response_end", "response_id": "r"},
    ]
    items = child.answers("thread/message", {"thread_id": THREAD, "status": "accepted", "events": frames, "data": {}})
    assert [type(item) for item in items] == [
        say.ReasoningDelta,
        say.ToolCallStarted,
        say.ToolCallArguments,
        say.TurnEnded,
    ]
    assert all(item.ext is None for item in items)
    assert child.losses == ["InteractionRequired"]


def test_a_second_message_waits_for_no_turn_but_is_refused() -> None:
    child = Child().open()
    child.message()
    (refused,) = child.message(request="again")
    assert (refused.request, refused.failure.cause) == ("again", "busy")


def test_an_error_ends_the_turn_and_one_after_an_interrupt_is_no_failure() -> None:
    for stops, end in ((False, "failed"), (True, "cancelled")):
        child = Child().open()
        child.message()
        if stops:
            assert child.sent(ask.CancelTurn(request="c", session=SESSION)) == [say.Reply(request="c")]
            assert child.asked[-1]["method"] == "thread/interrupt"
        (ended,) = child.answers("thread/message", error=(-32603, "provider exploded"))
        assert ended.end == end
        if stops:
            assert child.answers("thread/interrupt", {"thread_id": THREAD, "interrupted": True}) == []


def test_an_interrupt_of_no_turn_or_of_an_old_release_is_refused() -> None:
    child = Child(SEED).open()
    child.message()
    (old,) = child.sent(ask.CancelTurn(request="c", session=SESSION))
    (idle,) = Child().open().sent(ask.CancelTurn(request="c", session=SESSION))
    assert (old.failure.cause, idle.failure.cause) == ("unsupported", "not_running")


def test_a_line_of_no_turn_is_counted() -> None:
    child = Child().open()
    assert child.streams("delta", delta="x") == []
    assert child.losses == ["TextDelta"]


def test_the_lines_of_a_prompt_are_its_result_again() -> None:
    child = Child()
    child.sent(ask.PromptOnce(request="p", prompt="hi"))
    assert child.streams("start") == child.streams("delta", delta="model-selected") == []
    (reply,) = child.answers("prompt/run", {"output": "{}", "model": "m", "events": []})
    assert (reply.request, json.loads(bytes(reply.result))["output"], child.losses) == ("p", "{}", [])


def test_hook_lines_are_reports() -> None:
    (report,) = Child().says({"type": "approval_lifecycle", "approval_id": "a", "phase": "p", "reason": None})
    assert isinstance(report, say.LifecycleReport)


# -- other commands ----------------------------------------------------------------------------------


def test_answers_take_the_type_of_their_question() -> None:
    child = Child().open()
    spoken = ((1, "user", "a"), (2, "assistant", "b"))
    told = {"history": [{"id": n, "role": role, "content": text, "created_at": n} for n, role, text in spoken]}
    whole = {"thread_id": THREAD, "status": "ok", "data": told}
    rows = {"thread_id": "list", "status": "ok", "threads": [ROW], "data": {}}
    said: list[tuple[Any, str, dict[str, Any], type]] = [
        (ask.Ping(request="1"), "healthz", {"status": "ok", "service": "s", "transport": "stdio"}, say.Pong),
        (ask.ListSessions(request="1"), "thread/list", rows, say.SessionsListed),
        (ask.GetHistory(request="1", session=SESSION), "thread/read", whole, say.HistorySnapshot),
        (ask.GetSession(request="1", session=SESSION), "thread/read", whole | {"thread": ROW}, say.SessionOpened),
        (ask.ArchiveSession(request="1", session=SESSION), "thread/archive", whole, say.Reply),
    ]
    for command, method, result, kind in said:
        assert child.sent(command) == []
        (answer,) = child.answers(method, result)
        assert (type(answer), answer.request) == (kind, "1")
        if kind is say.HistorySnapshot:
            assert [item.text for item in answer.items] == ["b", "a"]  # a page is newest first


def test_what_a_result_tells_beside_its_answer_is_told() -> None:
    child = Child().open()
    child.sent(ask.ClearGoal(request="g", session=SESSION))
    frames = [{"event": "thread_goal_cleared", "thread_id": THREAD}]
    cleared, reply = child.answers(
        "thread/goal/clear", {"thread_id": THREAD, "status": "cleared", "events": frames, "data": {"cleared": True}}
    )
    assert isinstance(cleared, say.GoalCleared)
    assert (reply.request, reply.failure) == ("g", None)


def test_a_change_of_settings_is_refused_while_a_thread_is_open_and_made_while_none_is() -> None:
    change = ask.SetConfig(request="c", key="k", value="v")
    (refused,) = Child().open().sent(change)
    assert refused.failure.cause == "busy"
    child = Child()
    assert child.sent(change) == []
    (reply,) = child.answers("app/config/set", {"ok": False, "data": {"error": "unknown provider"}, "events": []})
    assert (reply.request, reply.failure.text) == ("c", "unknown provider")


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (ask.Compact(request="r", session=SESSION), "unsupported"),
        (ask.SubmitInput(request="r", session=SESSION, segments=()), "invalid"),
        (ask.SubmitInput(request="r", session=SESSION, segments=(FileAttachment(name="f", url="u"),)), "unsupported"),
    ],
)
def test_what_a_child_cannot_be_asked_is_refused_at_once(command: Command, cause: str) -> None:
    child = Child().open()
    (refused,) = child.sent(command)
    assert (refused.failure.cause, child.asked) == (cause, [])


def test_no_more_than_a_bounded_number_of_requests_is_open() -> None:
    child = Child()
    answers = child.sent(*(ask.Ping(request=f"{n}") for n in range(WAITING_MAX + 1)))
    assert [(answer.request, answer.failure.cause) for answer in answers] == [(f"{WAITING_MAX}", "busy")]


def test_an_answer_that_cannot_be_read_is_one_that_failed() -> None:
    child = Child()
    child.sent(ask.Ping(request="p"))
    (reply,) = child.says({"jsonrpc": "2.0", "id": child.asked[0]["id"], "error": {"code": "x"}})
    assert (reply.request, reply.failure.cause, len(child.faults)) == ("p", "internal", 1)


def test_an_answer_to_nobody_is_counted() -> None:
    child = Child()
    assert child.says({"id": 99, "result": {"status": "ok", "service": "s", "transport": "stdio"}}) == []
    assert child.losses == ["Reply"]


def test_what_a_child_leaves_unanswered_is_refused_when_it_ends() -> None:
    child = Child().open()
    child.sent(ask.GetGoal(request="g", session=SESSION))
    (burst,) = child.link.closed("gone").bursts
    (refused,) = burst.items
    assert isinstance(refused, say.Reply)
    assert refused.failure is not None
    assert (refused.request, refused.failure.cause) == ("g", "upstream_lost")


def test_a_child_is_neither_shown_nor_asked_anything() -> None:
    child = Child()
    assert child.link.view == ""
    assert not child.link.can_be_asked(say.ApprovalRequested(tool="t", description="d"))


def test_who_sets_a_goal_is_answered_with_the_frames_of_the_answer_and_everybody_hears_of_the_goal() -> None:
    child = Child().open()
    assert child.sent(ask.SetGoal(request="g", session=SESSION, objective="ship")) == []
    frame = {"event": "thread_goal_cleared", "thread_id": THREAD}
    cleared, reply = child.answers(
        "thread/goal/set", {"thread_id": THREAD, "status": "ok", "events": [frame], "data": {}}
    )
    assert isinstance(cleared, say.GoalCleared)
    assert json.loads(bytes(reply.result))["events"] == [frame]


def test_of_two_answers_under_one_id_the_first_one_counts_also_in_one_piece() -> None:
    child = Child().open()
    child.message()
    request = child.asked[-1]["id"]
    error = {"jsonrpc": "2.0", "id": request, "error": {"code": -32603, "message": "no", "data": None}}
    well = {"jsonrpc": "2.0", "id": request, "result": {"thread_id": THREAD, "status": "accepted", "data": {}}}
    (ended,) = child.says(error, well)
    assert (ended.end, child.losses) == ("failed", ["TurnEnded"])
