"""A link with a server: captured conversations, turns, the thread, and refused commands."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dragoman.mappings.canonical import Command, SessionState, commands, events
from dragoman.mappings.canonical.values import BackendInfo, Failure, FileAttachment, ImageAttachment, Message, Text
from dragoman.mappings.codewhale import DIALECT
from dragoman.mappings.codewhale.translator.client import ClientTranslator
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED, keep, methods
from dragoman.mappings.codewhale.wire import requests
from dragoman.mappings.extras import raw, read_raw
from dragoman.mappings.jsonrpc import WAITING_MAX
from dragoman.mappings.opening import HELD_MAX, LOST
from tests.mappings.codewhale.data import CAPTURES, capture, captured, captured_answers, thread_row

THREAD = "thread-00000000-0000-4000-8000-000000000001"
SESSION = THREAD[7:]
AT = 1_795_222_341 * 10**9

ROW = thread_row(THREAD)
STARTED, RESUMED = (
    {"thread_id": THREAD, "status": status, "thread": ROW, "data": {}} for status in ("started", "resumed")
)


class Child:
    """The server behind a ClientTranslator, as a script."""

    def __init__(self, generation: str = HEAD) -> None:
        numbers = count(1)
        self.link = ClientTranslator(lambda: AT, lambda: f"{next(numbers)}", lambda: AT)
        self.asked: list[dict[str, Any]] = []
        self.losses: list[str] = []
        self.faults: list[Any] = []
        self.take_step(self.link.opened())
        if generation:
            self.tells_facts(generation)

    def tells_facts(self, generation: str = HEAD, /, **facts: object) -> None:
        """Answer the first request, which asks for the server's capabilities."""
        self.answers("capabilities", {"methods": methods(generation), **facts})

    def open(self) -> Child:
        assert self.sent(commands.OpenSession(request="open")) == []
        self.answers("thread/start", STARTED)
        return self

    def message(self, text: str = "hi", request: str = "m") -> list[Any]:
        return self.sent(commands.SubmitInput(request=request, session=SESSION, segments=(Text(text=text),)))

    def sent(self, *commands: Command) -> list[Any]:
        return self.take_step(self.link.send(commands))

    def attached(self, state: SessionState) -> list[Any]:
        return self.take_step(self.link.attach(state))

    def answers(self, method: str, result: object = None, error: tuple[int, str] | None = None) -> list[Any]:
        """Answer the oldest request of this method."""
        request = next(request for request in self.asked if request["method"] == method)
        self.asked.remove(request)
        said = {"error": {"code": error[0], "message": error[1], "data": None}} if error else {"result": result}
        return self.sends({"jsonrpc": "2.0", "id": request["id"], **said})

    def sends(self, *lines: dict[str, Any]) -> list[Any]:
        return self.take_step(self.link.receive([json.dumps(line).encode() for line in lines]))

    def streams(self, kind: str, **more: str) -> list[Any]:
        return self.sends({"type": f"response_{kind}", "response_id": "thr:turn", **more})

    def take_step(self, step: Any) -> list[Any]:
        self.asked += map(json.loads, step.frames)
        self.losses += [loss.kind for loss in step.losses]
        self.faults += step.faults
        return [item for burst in step.bursts for item in burst.items]


def child_in_turn() -> Child:
    """Return a child that was sent an input."""
    child = Child().open()
    child.message()
    return child


def test_a_blank_line_is_written_every_ten_seconds_while_an_answer_is_due() -> None:
    """A process that forwards to another one hangs when that one is killed, until it reads a line."""
    link = ClientTranslator(lambda: AT, lambda: "key", lambda: AT)
    asked = link.opened()
    (request,) = [json.loads(frame) for frame in asked.frames]
    written = []
    step = asked
    for number in range(3):
        assert step.alarm is not None
        assert step.alarm.after == 10
        step = step.alarm.callback()
        written.append(step.frames)
        if number == 1:
            link.receive([json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}).encode()])
    assert written == [[b""], [b""], []]


# -- captured conversations --------------------------------------------------------------------------


def played(path: Path) -> tuple[list[Any], list[str]]:
    """Play a captured conversation to a client link, and return its events."""
    translators: dict[str, ClientTranslator] = {}
    own: dict[tuple[str, str], object] = {}
    heard: list[Any] = []
    losses: list[str] = []
    for conn, way, line in captured(path):
        if conn not in translators:
            translators[conn] = ClientTranslator(lambda: AT, map(str, count(1)).__next__, lambda: AT)
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


def test_captured_turns_have_the_text_of_their_bare_lines_and_one_end() -> None:
    heard, _ = played(capture("02"))
    said = "".join(line["delta"] for line in captured_answers("02") if line.get("type") == "response_delta")
    assert "".join(item.text for item in heard if isinstance(item, events.TextDelta)) == said
    ends = [item.end for item in heard if isinstance(item, events.TurnEnded)]
    starts = [item for item in heard if isinstance(item, events.ModelTurnStarted)]
    accepted = [item for item in heard if isinstance(item, events.TurnAccepted)]
    assert (ends, len(starts), len(accepted)) == (["completed"] * 4, 4, 4)


def test_the_seed_s_text_comes_from_the_result_and_not_also_from_the_hook_mirror() -> None:
    heard, _ = played(capture("13"))
    turns = [item for item in heard if isinstance(item, events.TurnEnded)]
    starts = [item for item in heard if isinstance(item, events.ModelTurnStarted)]
    texts = [item.text for item in heard if isinstance(item, events.TextDelta)]
    assert (len(turns), len(starts), texts) == (7, 7, ["queued"] * 7)  # "model-selected" of prompts is no turn's


def test_captured_interrupts_end_their_turns_as_cancelled() -> None:
    heard, _ = played(capture("04"))
    assert [item.end for item in heard if isinstance(item, events.TurnEnded)] == ["cancelled", "cancelled", "completed"]


def test_captured_failures_end_their_turns_with_the_text_of_the_error() -> None:
    heard, _ = played(capture("05"))
    ends = [item for item in heard if isinstance(item, events.TurnEnded)]
    messages = [line["error"]["message"] for line in captured_answers("05") if "error" in line]
    told = [item.failure.text for item in ends if item.failure is not None]
    cancelled = [item for item in ends if item.end == "cancelled"]
    assert told == [message for message in messages if message not in ("turn interrupted", "turn canceled")]
    assert len(cancelled) == len(messages) - len(told) == 1


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_only_answers_to_requests_that_we_never_send_are_lost(path: Path) -> None:
    """Our client sends no bad lines, no interrupt without a turn, and none to the seed."""
    assert set(played(path)[1]) <= {"Reply"}


# -- the thread --------------------------------------------------------------------------------------


def test_a_link_first_asks_for_the_server_s_capabilities() -> None:
    assert [request["method"] for request in Child(generation="").asked] == ["capabilities"]


def test_commands_that_need_a_thread_wait_until_it_is_open() -> None:
    child = Child()
    assert child.message() == []
    assert [request["method"] for request in child.asked] == ["thread/start"]
    opened, accepted = child.answers("thread/start", STARTED)
    assert (opened.session, opened.request, accepted) == (SESSION, "", events.TurnAccepted(request="m"))
    assert child.asked[0]["params"] == {"thread_id": THREAD, "input": "hi", "allowed_tools": []}


def test_a_thread_that_cannot_be_opened_fails_the_commands_that_waited() -> None:
    child = Child()
    child.message()
    (refused,) = child.answers("thread/start", error=(-32603, "store failure"))
    assert (refused.request, refused.failure.text) == ("m", "store failure")


def test_the_number_of_waiting_commands_is_bounded() -> None:
    child = Child()
    answers = child.sent(*(commands.GetGoal(request=f"r{n}", session=SESSION) for n in range(HELD_MAX + 2)))
    assert [(answer.request, answer.failure.cause) for answer in answers] == [
        (f"r{HELD_MAX}", "busy"),
        (f"r{HELD_MAX + 1}", "busy"),
    ]


def used(state: SessionState) -> SessionState:
    """Return the state with an input in its transcript."""
    state.transcript.append(Message(role="user", text="hi"))
    return state


def test_a_restarted_server_that_resumes_an_unused_thread_has_lost_nothing() -> None:
    child = Child()
    child.attached(SessionState(id=SESSION, backend_ids=keep(thread_id=THREAD)))
    told = child.answers("thread/resume", RESUMED)
    assert [type(event) for event in told] == [events.SessionOpened]


OWNER = {"transport": "stdio", "tool_free_turns": True}
GUEST = {"transport": "unix-socket", "tool_free_turns": True}


@pytest.mark.parametrize(
    ("facts", "used", "may"),
    [
        pytest.param({"transport": "stdio"}, False, True, id="old, unused"),
        pytest.param({"transport": "stdio"}, True, False, id="old, used: its context is in this process alone"),
        pytest.param(GUEST, True, True, id="another process owns the threads"),
        pytest.param(GUEST, False, False, id="another process owns the threads, but cannot resume an unused one"),
        pytest.param(OWNER, True, False, id="its own process owns the threads"),
        pytest.param(OWNER, False, False, id="the processes that forward to it end with it"),
    ],
)
def test_a_server_may_be_closed_if_another_one_knows_its_thread_too(
    facts: dict[str, Any], *, used: bool, may: bool
) -> None:
    child = Child("")
    child.tells_facts(**facts)
    child.open()
    if used:
        child.message()
        child.answers("thread/message", {"thread_id": THREAD, "status": "accepted", "data": {}})
    assert child.link.may_be_closed() is may


def test_a_server_that_owes_an_answer_may_not_be_closed() -> None:
    child = Child("")
    child.tells_facts(**GUEST)
    child.open()
    assert not child.link.is_waiting()
    child.message()
    assert child.link.is_waiting()
    assert not child.link.may_be_closed()


@pytest.mark.parametrize(("facts", "serves"), [(OWNER, True), (GUEST, False), ({"transport": "stdio"}, False)])
def test_other_processes_depend_on_the_one_that_owns_the_threads(facts: dict[str, Any], *, serves: bool) -> None:
    child = Child("")
    child.tells_facts(**facts)
    assert child.link.serves_others() is serves


def test_a_restarted_server_resumes_the_thread_in_its_folder_and_the_lost_context_is_told() -> None:
    child = Child()
    state = used(SessionState(id=SESSION, backend=BackendInfo(cwd="/w"), backend_ids=keep(thread_id=THREAD)))
    assert child.attached(state) == []
    assert child.asked[0]["method"] == "thread/resume"
    assert (child.asked[0]["params"]["thread_id"], child.asked[0]["params"]["cwd"]) == (THREAD, "/w")
    opened, gap = child.answers("thread/resume", RESUMED)
    assert isinstance(opened, events.SessionOpened)
    assert isinstance(gap, events.Gap)


def test_a_thread_unknown_to_a_restarted_server_is_replaced_and_the_loss_is_told() -> None:
    child = Child()
    child.attached(used(SessionState(id=SESSION, backend_ids=keep(thread_id=THREAD))))
    assert child.answers("thread/resume", error=(-32004, "thread not found")) == []
    other = ROW | {"id": "thread-00000000-0000-4000-8000-000000000002"}
    opened, gap = child.answers(
        "thread/start", {"thread_id": other["id"], "status": "started", "thread": other, "data": {}}
    )
    assert opened.session == "00000000-0000-4000-8000-000000000002"
    assert isinstance(gap, events.Gap)


PENDING_WORK = (-32005, "409 Conflict: selected history has pending work")


def refusing_child() -> Child:
    """Return a server of 0.10.2 that resumes a thread for an input."""
    child = Child("")
    child.attached(SessionState(id=SESSION, backend=BackendInfo(cwd="/w"), backend_ids=keep(thread_id=THREAD)))
    child.tells_facts(tool_free_turns=True)
    child.message()
    assert child.asked[0]["params"]["cwd"] == "/w"
    assert child.answers("thread/resume", error=OTHER_FOLDER) == []
    return child


OTHER_FOLDER = (
    -32005,
    "moving a history source to another workspace requires the canonical owner's explicit admission",
)


def test_a_thread_that_must_stay_in_its_folder_is_resumed_there() -> None:
    child = refusing_child()
    (again,) = child.asked
    assert (again["method"], again["params"]["thread_id"]) == ("thread/resume", THREAD)
    assert "cwd" not in again["params"]
    opened, accepted = child.answers("thread/resume", RESUMED)
    assert (opened.session, accepted) == (SESSION, events.TurnAccepted(request="m"))


def test_a_client_that_resumes_a_thread_without_a_folder_gets_it_in_its_own_folder() -> None:
    child = Child("")
    child.attached(SessionState(id="", opening=commands.OpenSession(cwd="/route")))
    child.sent(commands.ResumeSession(request="r", session=SESSION))
    child.tells_facts(tool_free_turns=True)
    assert child.answers("thread/resume", error=OTHER_FOLDER) == []
    (opened,) = child.answers("thread/resume", RESUMED)
    assert (opened.request, opened.session) == ("r", SESSION)


def test_a_thread_that_is_never_resumed_is_read_and_used_without_a_resume() -> None:
    """After a broken stream a 0.10.2 refuses each resume of the thread, but accepts messages (section 12)."""
    child = refusing_child()
    assert child.answers("thread/resume", error=PENDING_WORK) == []
    (read,) = child.asked
    assert (read["method"], read["params"]) == ("thread/read", {"thread_id": THREAD})
    opened, accepted = child.answers("thread/read", {"thread_id": THREAD, "status": "ok", "thread": ROW, "data": {}})
    assert (opened.session, accepted) == (SESSION, events.TurnAccepted(request="m"))
    assert [request["method"] for request in child.asked] == ["thread/message"]


def test_a_client_that_resumes_a_thread_is_shown_it_if_the_server_only_lets_it_be_read() -> None:
    child = Child("")
    child.sent(commands.ResumeSession(request="r", session=SESSION, ext=keep(thread_id="thr_1")))
    child.tells_facts(tool_free_turns=True)
    assert child.answers("thread/resume", error=PENDING_WORK) == []
    assert child.asked[0]["params"] == {"thread_id": "thr_1"}
    row = ROW | {"id": "thr_1"}
    (opened,) = child.answers("thread/read", {"thread_id": "thr_1", "status": "ok", "thread": row, "data": {}})
    assert (opened.request, read_raw(opened.ext["codewhale.thread_id"], str)) == ("r", "thr_1")


def test_a_resume_that_brings_history_along_is_refused_if_the_server_only_lets_the_thread_be_read() -> None:
    child = Child("")
    brought = requests.Resume.Params(thread_id=THREAD, history=[raw({"role": "user", "content": "old"})])
    child.sent(commands.ResumeSession(request="r", session=SESSION, ext=keep(params=brought)))
    child.tells_facts(tool_free_turns=True)
    (refused,) = child.answers("thread/resume", error=PENDING_WORK)
    assert (refused.request, refused.failure.cause) == ("r", "busy")
    assert child.asked == []


TOO_LONG = (
    -32005,
    '409 Conflict: {"error":{"message":"full history exceeds byte transport bound; source retained","status":409}}',
)


UNLOADED = (
    -32005,
    'runtime API returned 409 Conflict: {"error":{"message":"No such file or directory (os error 2)","status":409}}',
)


def test_a_thread_whose_history_is_too_long_is_used_without_a_resume() -> None:
    """A 0.10.2 refuses to resume or read a thread above 8 MiB, but accepts messages (section 12)."""
    child = refusing_child()
    opened, accepted = child.answers("thread/resume", error=TOO_LONG)
    assert (opened.session, accepted) == (SESSION, events.TurnAccepted(request="m"))
    (message,) = child.asked
    assert (message["method"], message["params"]["thread_id"]) == ("thread/message", THREAD)


def test_a_client_that_resumes_a_thread_with_too_long_a_history_gets_it() -> None:
    child = Child("")
    child.sent(commands.ResumeSession(request="r", session=SESSION, ext=keep(thread_id="thr_1")))
    child.tells_facts(tool_free_turns=True)
    (opened,) = child.answers("thread/resume", error=TOO_LONG)
    assert (opened.request, read_raw(opened.ext["codewhale.thread_id"], str)) == ("r", "thr_1")
    child.message()
    assert [request["params"]["thread_id"] for request in child.asked] == ["thr_1"]


def test_a_thread_that_can_be_neither_resumed_nor_read_gets_the_input() -> None:
    """A 0.10.2 keeps 8 threads loaded. It shows none of the others, but an input loads them again (section 12)."""
    child = refusing_child()
    assert child.answers("thread/resume", error=UNLOADED) == []
    opened, accepted = child.answers("thread/read", error=UNLOADED)
    assert (opened.session, accepted) == (SESSION, events.TurnAccepted(request="m"))
    (message,) = child.asked
    assert (message["method"], message["params"]["thread_id"]) == ("thread/message", THREAD)


@pytest.mark.parametrize("error", [UNLOADED, PENDING_WORK])
def test_a_client_that_resumes_an_unloaded_thread_gets_it_because_an_input_loads_it(error: tuple[int, str]) -> None:
    child = Child("")
    child.sent(commands.ResumeSession(request="r", session=SESSION, ext=keep(thread_id="thr_1")))
    child.tells_facts(tool_free_turns=True)
    assert child.answers("thread/resume", error=error) == []
    (answer,) = child.answers("thread/read", error=error)
    assert (answer.request, type(answer)) == ("r", events.SessionOpened if error is UNLOADED else events.Reply)


def test_a_thread_with_pending_work_is_asked_for_only_by_a_command() -> None:
    child = Child()
    child.attached(SessionState(id=SESSION, backend_ids=keep(thread_id=THREAD)))
    assert child.answers("thread/resume", error=PENDING_WORK) == []
    assert child.asked == []


def test_a_stored_thread_that_a_client_resumes_has_lost_its_context_too() -> None:
    """The store keeps the thread, but only the process's memory has its context (docs/dialects/codewhale.md, section
    3).
    """
    child = Child()
    child.sent(commands.ResumeSession(request="r", session=SESSION))
    assert child.asked[0]["params"]["thread_id"] == THREAD
    opened, gap = child.answers("thread/resume", RESUMED)
    assert (opened.request, opened.session) == ("r", SESSION)
    assert gap.context


def test_an_unusual_spelling_of_a_request_is_not_sent_to_the_server() -> None:
    """A message sent by thread/request cannot be interrupted (docs/dialects/codewhale.md, section 1.4)."""
    child = Child().open()
    command = commands.SubmitInput(session=SESSION, segments=(Text(text="x"),), ext=keep(method="thread/request"))
    child.sent(command)
    assert child.asked[0]["method"] == "thread/message"


# -- turns -------------------------------------------------------------------------------------------


def test_an_input_is_accepted_once_its_line_is_written() -> None:
    child = Child().open()
    assert child.message() == [events.TurnAccepted(request="m")]


def test_lines_are_streamed_and_the_end_of_a_response_does_not_end_the_turn() -> None:
    child = child_in_turn()
    assert child.streams("start") == [events.ModelTurnStarted()]
    assert child.streams("delta", delta="a") == [events.TextDelta(text="a")]
    assert child.streams("start") == []  # the hook mirror says it again
    assert child.streams("end") == []
    assert child.answers("thread/message", {"thread_id": THREAD, "status": "accepted", "data": {"turn_id": "t"}}) == [
        events.TurnEnded(end="completed")
    ]


def test_a_result_adds_only_events_that_were_not_streamed() -> None:
    child = child_in_turn()
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
        events.ReasoningDelta,
        events.ToolCallStarted,
        events.ToolCallArguments,
        events.TurnEnded,
    ]
    assert all(item.ext is None for item in items)
    assert child.losses == ["InteractionRequired"]


def test_reasoning_in_a_line_never_becomes_text() -> None:
    child = child_in_turn()
    assert child.streams("delta", delta="a") == [events.TextDelta(text="a")]
    read_text = child.link.text_reader(events.TextDelta)
    line = {"type": "response_delta", "response_id": "thr:turn", "delta": "b", "channel": "reasoning"}
    assert read_text is not None
    assert not read_text(json.dumps(line).encode(), lambda *_: True)
    assert child.link.text_reader(events.ReasoningDelta) is None
    assert child.sends(line) == [events.ReasoningDelta(text="b")]
    assert child.streams("delta", delta="c", channel="text") == [events.TextDelta(text="c")]
    assert child.streams("delta", delta="d", channel="of a later release") == []


def test_a_second_message_during_a_turn_is_refused() -> None:
    child = child_in_turn()
    (refused,) = child.message(request="again")
    assert (refused.request, refused.failure.cause) == ("again", "busy")


def test_an_error_ends_the_turn_as_failed_or_after_an_interrupt_as_cancelled() -> None:
    for stops, end in ((False, "failed"), (True, "cancelled")):
        child = child_in_turn()
        if stops:
            assert child.sent(commands.CancelTurn(request="c", session=SESSION)) == [events.Reply(request="c")]
            assert child.asked[-1]["method"] == "thread/interrupt"
        (ended,) = child.answers("thread/message", error=(-32603, "provider exploded"))
        assert ended.end == end
        if stops:
            assert child.answers("thread/interrupt", {"thread_id": THREAD, "interrupted": True}) == []


TO_REPEAT = (
    -32603,
    (
        'runtime API returned 400 Bad Request: {"error":{"message":'
        '"Thread execution settings changed while preparing the turn; retry","status":400}}'
    ),
)
"""The error of a 0.10.2 for the first input of a thread that it had unloaded."""


def test_an_input_that_the_server_refused_because_it_had_unloaded_the_thread_is_sent_once_more() -> None:
    child = Child().open()
    assert child.message("hi") == [events.TurnAccepted(request="m")]
    assert child.answers("thread/message", error=TO_REPEAT) == []
    assert [request["params"]["input"] for request in child.asked] == ["hi"]
    child.streams("start")
    assert child.streams("delta", delta="Hello") == [events.TextDelta(text="Hello")]
    assert child.answers("thread/message", {"thread_id": THREAD, "status": "accepted"}) == [
        events.TurnEnded(end="completed")
    ]


def test_an_input_that_the_server_refuses_twice_fails() -> None:
    child = child_in_turn()
    child.answers("thread/message", error=TO_REPEAT)
    (end,) = child.answers("thread/message", error=TO_REPEAT)
    assert (end.end, end.failure.text) == ("failed", TO_REPEAT[1])
    assert child.asked == []


def test_an_input_that_was_cancelled_meanwhile_is_not_sent_again() -> None:
    child = child_in_turn()
    child.sent(commands.CancelTurn(request="c", session=SESSION))
    assert child.answers("thread/message", error=TO_REPEAT) == [events.TurnEnded(end="cancelled")]
    assert [request["method"] for request in child.asked] == ["thread/interrupt"]


def interrupts(child: Child) -> int:
    return sum(request["method"] == "thread/interrupt" for request in child.asked)


def test_an_interrupt_is_repeated_until_the_server_must_have_begun_the_turn() -> None:
    """A server of 0.9.10 finds a turn only after its `response_start`. Before that it answers `interrupted: false`."""
    child = child_in_turn()
    assert child.sent(commands.CancelTurn(request="c", session=SESSION)) == [events.Reply(request="c")]
    written = [interrupts(child)]
    for kind, more in (("start", {}), ("delta", {"delta": "a"}), ("delta", {"delta": "b"})):
        assert len(child.streams(kind, **more)) == 1
        written.append(interrupts(child))
    assert written == [1, 2, 3, 3]
    (ended,) = child.answers("thread/message", error=(-32603, "turn interrupted"))
    assert ended.end == "cancelled"
    for _ in range(3):
        assert child.answers("thread/interrupt", {"thread_id": THREAD, "interrupted": False}) == []


def test_an_interrupt_without_a_turn_that_the_server_refuses_fails_with_its_words() -> None:
    child = Child().open()
    child.sent(commands.CancelTurn(request="c", session=SESSION))
    (refused,) = child.answers("thread/interrupt", error=(-32603, "disk full"))
    assert (refused.request, refused.failure.text) == ("c", "disk full")


def test_an_interrupt_in_the_text_of_a_turn_is_written_once() -> None:
    child = child_in_turn()
    child.streams("start")
    child.streams("delta", delta="a")
    child.sent(commands.CancelTurn(request="c", session=SESSION))
    child.streams("delta", delta="b")
    assert interrupts(child) == 1


def test_a_cancel_follows_its_input_that_waits_for_the_thread() -> None:
    child = Child()
    child.message()
    assert child.sent(commands.CancelTurn(request="c", session=SESSION)) == []
    told = child.answers("thread/start", STARTED)
    assert told[-2:] == [events.TurnAccepted(request="m"), events.Reply(request="c")]
    assert [request["method"] for request in child.asked] == ["thread/message", "thread/interrupt"]


def left_behind(generation: str = HEAD) -> Child:
    """Return the next connection of a link that was lost in a turn."""
    lost = Child().open()
    assert lost.link.unfinished_turn() == ""
    lost.message()
    child = Child(generation)
    child.attached(SessionState(id=SESSION, backend_ids=keep(thread_id=THREAD), abandoned=lost.link.unfinished_turn()))
    return child


def test_a_turn_that_a_lost_connection_left_behind_is_interrupted_before_the_next_input() -> None:
    child = left_behind()
    child.message("next")
    told = child.answers("thread/resume", RESUMED)
    assert [request["method"] for request in child.asked] == ["thread/interrupt", "thread/message"]
    assert child.asked[0]["params"]["thread_id"] == THREAD
    assert events.TurnAccepted(request="m") in told
    assert child.answers("thread/interrupt", {"thread_id": THREAD, "interrupted": True}) == []
    assert child.streams("delta", delta="x") == [events.TextDelta(text="x")]
    (end,) = child.answers("thread/message", error=(-32603, "no"))
    assert end.end == "failed"


def test_a_turn_is_still_left_behind_if_the_next_connection_is_lost_before_the_thread_is_open() -> None:
    child = left_behind()
    assert child.link.unfinished_turn()
    child.answers("thread/resume", RESUMED)
    assert child.link.unfinished_turn() == ""


def test_a_server_without_interrupts_is_sent_none_for_a_turn_left_behind() -> None:
    child = left_behind(SEED)
    child.answers("thread/resume", RESUMED)
    assert child.asked == []


def test_an_interrupt_before_a_thread_is_open_or_by_an_old_release_is_refused() -> None:
    child = Child(SEED).open()
    child.message()
    (old,) = child.sent(commands.CancelTurn(request="c", session=SESSION))
    (early,) = Child().sent(commands.CancelTurn(request="c", session=SESSION))
    assert (old.failure.cause, early.failure.cause) == ("unsupported", "not_running")


@pytest.mark.parametrize(("interrupted", "cause"), [(True, None), (False, "not_running")])
def test_an_interrupt_without_a_known_turn_is_answered_by_the_server(interrupted: bool, cause: str | None) -> None:
    """The server may run a turn of an earlier connection, if it forwards to another process or is a gateway."""
    child = Child().open()
    assert child.sent(commands.CancelTurn(request="c", session=SESSION)) == []
    (reply,) = child.answers("thread/interrupt", {"thread_id": THREAD, "interrupted": interrupted})
    assert (reply.request, reply.failure and reply.failure.cause) == ("c", cause)


def test_an_interrupt_without_an_answer_fails_with_its_server() -> None:
    child = Child().open()
    child.sent(commands.CancelTurn(request="c", session=SESSION))
    (burst,) = child.link.closed("gone").bursts
    failure = Failure(cause="upstream_lost", text="the backend ended: gone")
    assert burst.items == [events.Reply(request="c", failure=failure)]


def test_a_turn_after_an_unanswered_interrupt_keeps_its_text() -> None:
    child = child_in_turn()
    child.sent(commands.CancelTurn(request="c", session=SESSION))
    child.answers("thread/message", error=(-32603, "turn interrupted"))
    child.message()
    (text,) = child.streams("delta", delta="fine")
    assert (text.text, child.losses) == ("fine", [])


def test_the_lines_of_a_prompt_are_dropped_because_its_result_repeats_them() -> None:
    child = Child()
    child.sent(commands.PromptOnce(request="p", prompt="hi"))
    assert child.streams("start") == child.streams("delta", delta="model-selected") == []
    (reply,) = child.answers("prompt/run", {"output": "{}", "model": "m", "events": []})
    assert (reply.request, json.loads(bytes(reply.result))["output"], child.losses) == ("p", "{}", [])


def test_hook_lines_are_reports() -> None:
    (report,) = Child().sends({"type": "approval_lifecycle", "approval_id": "a", "phase": "p", "reason": None})
    assert isinstance(report, events.LifecycleReport)


# -- other commands ----------------------------------------------------------------------------------


def test_answers_get_the_type_that_their_command_asks_for() -> None:
    child = Child().open()
    spoken = ((1, "user", "a"), (2, "assistant", "b"))
    told = {"history": [{"id": n, "role": role, "content": text, "created_at": n} for n, role, text in spoken]}
    whole = {"thread_id": THREAD, "status": "ok", "data": told}
    rows = {"thread_id": "list", "status": "ok", "threads": [ROW], "data": {}}
    said: list[tuple[Any, str, dict[str, Any], type]] = [
        (commands.Ping(request="1"), "healthz", {"status": "ok", "service": "s", "transport": "stdio"}, events.Pong),
        (commands.ListSessions(request="1"), "thread/list", rows, events.SessionsListed),
        (commands.GetHistory(request="1", session=SESSION), "thread/read", whole, events.HistorySnapshot),
        (
            commands.GetSession(request="1", session=SESSION),
            "thread/read",
            whole | {"thread": ROW},
            events.SessionOpened,
        ),
        (commands.ArchiveSession(request="1", session=SESSION), "thread/archive", whole, events.Reply),
    ]
    for command, method, result, kind in said:
        assert child.sent(command) == []
        (answer,) = child.answers(method, result)
        assert (type(answer), answer.request) == (kind, "1")
        if kind is events.HistorySnapshot:
            assert [item.text for item in answer.items] == ["b", "a"]  # a page is newest first


def test_settings_change_only_while_no_thread_is_open() -> None:
    change = commands.SetConfig(request="c", key="k", value="v")
    (refused,) = Child().open().sent(change)
    assert refused.failure.cause == "busy"
    child = Child()
    assert child.sent(change) == []
    (reply,) = child.answers("app/config/set", {"ok": False, "data": {"error": "unknown provider"}, "events": []})
    assert (reply.request, reply.failure.text) == ("c", "unknown provider")


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (commands.Compact(request="r", session=SESSION), "unsupported"),
        (commands.SubmitInput(request="r", session=SESSION, segments=()), "invalid"),
        (
            commands.SubmitInput(
                request="r", session=SESSION, segments=(Text(text="hi"), FileAttachment(name="f", url="u"))
            ),
            "unsupported",
        ),
    ],
)
def test_a_command_that_a_server_cannot_be_asked_is_refused_at_once(command: Command, cause: str) -> None:
    child = Child().open()
    (refused,) = child.sent(command)
    assert (refused.failure.cause, child.asked) == (cause, [])


@pytest.mark.parametrize(("keeps", "expected"), [(True, events.Gap), (False, events.ErrorReported)])
def test_a_context_that_another_gateway_reports_as_lost_is_lost_here_too(keeps: bool, expected: type) -> None:
    child = Child("")
    child.tells_facts(keeps_context=keeps)
    child.open().message()
    frame = {"event": "error", "response_id": "r", "message": LOST}
    told = child.answers(
        "thread/message", {"thread_id": THREAD, "status": "accepted", "threads": [], "events": [frame], "data": {}}
    )
    assert [type(event) for event in told] == [events.ModelTurnStarted, expected, events.TurnEnded]
    assert told[1] == (events.Gap(text=LOST, context=True) if keeps else told[1])


LOOK = (Text(text="look"), ImageAttachment(url="data:image/png;base64,AQ=="))


def test_an_image_is_sent_inline_to_a_server_that_takes_images() -> None:
    child = Child("")
    assert child.sent(commands.SubmitInput(request="m", segments=LOOK)) == []
    child.tells_facts(turn_image_inputs=True)
    child.answers("thread/start", STARTED)
    assert [request["params"]["images"] for request in child.asked] == [[{"mime": "image/png", "dataBase64": "AQ=="}]]


def test_an_image_is_refused_once_a_server_without_images_has_opened_the_thread() -> None:
    child = Child()
    assert child.sent(commands.SubmitInput(request="m", segments=LOOK)) == []
    answers = child.answers("thread/start", STARTED)
    (refused,) = [answer for answer in answers if isinstance(answer, events.Reply)]
    assert (refused.request, refused.failure and refused.failure.cause, child.asked) == ("m", "unsupported", [])
    assert child.message() == [events.TurnAccepted(request="m")]


def test_the_number_of_open_requests_is_bounded() -> None:
    child = Child()
    answers = child.sent(*(commands.Ping(request=f"{n}") for n in range(WAITING_MAX + 1)))
    assert [(answer.request, answer.failure.cause) for answer in answers] == [(f"{WAITING_MAX}", "busy")]


def test_an_unreadable_answer_counts_as_a_failed_one() -> None:
    child = Child()
    child.sent(commands.Ping(request="p"))
    (reply,) = child.sends({"jsonrpc": "2.0", "id": child.asked[0]["id"], "error": {"code": "x"}})
    assert (reply.request, reply.failure.cause, len(child.faults)) == ("p", "internal", 1)


PARSE_ERROR = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "invalid json: x", "data": None}}


def test_an_error_without_an_id_is_counted_if_two_requests_are_open() -> None:
    child = Child()
    child.sent(commands.Ping(request="p"), commands.Ping(request="q"))
    assert (child.sends(PARSE_ERROR), child.losses) == ([], ["Reply"])


def test_unanswered_commands_are_refused_when_the_server_ends() -> None:
    child = Child().open()
    child.sent(commands.GetGoal(request="g", session=SESSION))
    (burst,) = child.link.closed("gone").bursts
    (refused,) = burst.items
    assert isinstance(refused, events.Reply)
    assert refused.failure is not None
    assert (refused.request, refused.failure.cause) == ("g", "upstream_lost")


def test_a_server_gets_no_events_and_no_questions() -> None:
    child = Child()
    assert child.link.view == ""
    assert not child.link.can_be_asked(events.ApprovalRequested(tool="t", description="d"))


def test_the_events_in_an_answer_are_told_beside_the_reply() -> None:
    child = Child().open()
    assert child.sent(commands.SetGoal(request="g", session=SESSION, objective="ship")) == []
    frame = {"event": "thread_goal_cleared", "thread_id": THREAD}
    cleared, reply = child.answers(
        "thread/goal/set", {"thread_id": THREAD, "status": "ok", "events": [frame], "data": {}}
    )
    assert isinstance(cleared, events.GoalCleared)
    assert (reply.request, reply.failure, json.loads(bytes(reply.result))["events"]) == ("g", None, [frame])
