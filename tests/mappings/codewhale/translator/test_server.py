"""A link with a client, with the projection of its turns as a session uses it: order, turns, answers."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from dragoman.mappings.canonical import Batch, SessionState, commands, events
from dragoman.mappings.canonical.values import BackendInfo, Cause, End, Failure, Message, Origin, SessionSummary, Text
from dragoman.mappings.codewhale import DIALECT
from dragoman.mappings.codewhale.translator.server import NESTED_MAX, ServerTranslator
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED
from dragoman.mappings.extras import raw
from dragoman.mappings.jsonrpc import PENDING_MAX
from tests.mappings.codewhale.data import CAPTURES, VECTORS, captured

SESSION = "00000000-0000-4000-8000-000000000001"
THREAD = f"thread-{SESSION}"
TURN = "00000000-0000-4000-8000-00000000000a"
AT = 1_795_222_341 * 10**9


class Client:
    """The client of a ServerTranslator, and the session behind it, as a script."""

    def __init__(self, generation: str = "") -> None:
        numbers = count(1)
        self.link = ServerTranslator(lambda: AT, lambda: f"own-{next(numbers)}", generation)
        self.heard: list[Any] = []  # commands that wait for the gateway
        self.said: list[dict[str, Any]] = []  # lines that nobody looked at yet
        self.raw: list[bytes] = []
        self.faults: list[Any] = []
        self.losses: list[str] = []
        self.state = SessionState(id=SESSION, opened_at=AT, updated_at=AT, backend=BackendInfo(cwd="/w"))

    def asks(self, method: str, /, id: object = 1, **params: object) -> Client:
        return self.writes(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))

    def writes(self, *lines: str) -> Client:
        return self._did(self.link.receive([line.encode() for line in lines]))

    def message(self, id: object = 1, text: str = "hi", method: str = "thread/message") -> Client:
        more = {"kind": "message"} if method == "thread/request" else {}
        self.attach()
        return self.asks(method, id=id, thread_id=THREAD, input=text, **more)

    def attach(self, request: str = "") -> Client:
        return self._did(self.link.attach(self.state, request))

    def answer(self, item: Any) -> Client:
        return self._did(self.link.send([item]))

    def reply(self, cause: Cause | None = None, text: str = "no", **more: Any) -> Client:
        """Answer the oldest command."""
        command = self.heard.pop(0)
        failure = Failure(cause=cause, text=text) if cause else None
        return self.answer(events.Reply(request=command.request, failure=failure, **more))

    def turn(self, *events: Any, end: End = "completed", failure: Failure | None = None) -> Client:
        """Play the oldest command's turn, from its first to its last event."""
        command = self.heard.pop(0)
        self.runs(command.request, begun(text_of(command)), list(events), ended(end, failure))
        return self

    def runs(self, request: str, *batches: list[Any]) -> None:
        projection = DIALECT.projection(request, self.link.view)
        for run in batches:
            if not run:
                continue
            batch = Batch(
                session=SESSION,
                epoch=1,
                first_seq=0,
                events=run,
                turn=TURN,
                at=AT,
                origin=Origin(link="l", request=request),
            )
            rendered = projection.render(batch)
            self._put(rendered.frames)
            self.losses += [loss.kind for loss in rendered.losses]
            self._did(self.link.on_delivered(batch))

    def lines(self) -> list[dict[str, Any]]:
        lines, self.said = self.said, []
        return lines

    def line(self) -> dict[str, Any]:
        (line,) = self.lines()
        return line

    def _did(self, step: Any) -> Client:
        self._put(step.frames)
        self.heard += [item for burst in step.bursts for item in burst.items]
        self.faults += step.faults
        self.losses += [loss.kind for loss in step.losses]
        return self

    def _put(self, frames: list[bytes]) -> None:
        self.raw += frames
        self.said += map(json.loads, frames)


def text_of(command: commands.SubmitInput) -> str:
    return "".join(segment.text for segment in command.segments if isinstance(segment, Text))


def begun(text: str = "hi") -> list[Any]:
    return [
        events.TurnAccepted(request="x"),
        events.MessageAppended(message=Message(role="user", text=text)),
        events.StatusChanged(status="running"),
        events.ModelTurnStarted(),
    ]


def ended(end: End = "completed", failure: Failure | None = None) -> list[Any]:
    error = [events.ErrorReported(cause=failure.cause, text=failure.text)] if failure else []
    return [
        *error,
        events.TurnResult(end=end),
        events.StatusChanged(status="idle"),
        events.TurnEnded(end=end, failure=failure),
    ]


def vector(name: str) -> Any:
    return json.loads(next(row["wire"] for row in VECTORS if row["name"] == name))


# -- what a server knows by itself -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generation", "method", "name"),
    [
        ("", "capabilities", "res.capabilities.head"),
        (HEAD, "thread/capabilities", "res.thread.capabilities.head"),
        (SEED, "thread/capabilities", "res.thread.capabilities.seed"),
        (HEAD, "prompt/capabilities", "res.prompt.capabilities"),
        (HEAD, "app/capabilities", "res.app.capabilities.head"),
    ],
)
def test_capabilities_are_those_of_the_generation(generation: str, method: str, name: str) -> None:
    assert Client(generation).asks(method).line() == vector(name)


def test_the_seed_lists_what_the_real_one_lists() -> None:
    path = next(path for path in CAPTURES if path.stem.startswith("13"))
    real = next(line for _, way, line in captured(path) if way == "s2c")
    assert Client(SEED).asks("capabilities").line() == json.loads(real)


def test_health_is_written_compactly_because_scripts_search_it() -> None:
    client = Client().asks("healthz")
    client.answer(events.Pong(request=client.heard[0].request))
    expected = b'{"jsonrpc":"2.0","id":1,"result":{"status":"ok","service":"deepseek-app-server","transport":"stdio"}}'
    assert client.raw == [expected]


def test_captured_bad_lines_are_answered_with_the_code_and_the_id_of_the_real_server() -> None:
    """Wrong params and unknown methods also get its words; the text of a JSON error is our parser's."""
    path = next(path for path in CAPTURES if path.stem.startswith("09"))
    lines = [line for _, way, line in captured(path) if way == "c2s"]
    real = [json.loads(line) for _, way, line in captured(path) if way == "s2c"]
    client = Client()
    for line in lines:
        client.writes(line)
        for command in client.heard:
            client.answer(events.Pong(request=command.request))
        client.heard.clear()
    ours = client.lines()
    assert [(answer["id"], answer.get("error", {}).get("code")) for answer in ours] == [
        (answer["id"], answer.get("error", {}).get("code")) for answer in real
    ]
    for answer, other in zip(ours, real, strict=True):
        if "error" not in other:
            assert answer == other
        elif other["error"]["code"] != -32700:
            assert answer["error"] == other["error"]
        else:
            assert answer["error"]["message"].startswith("invalid json: ")
            assert answer["error"]["data"] is None
    assert json.dumps(ours[-4]["id"]) == json.dumps(real[-4]["id"])


def test_an_id_over_64_bits_comes_back_as_a_float() -> None:
    client = Client().writes('{"id":12345678901234567890123,"method":"capabilities"}')
    assert client.raw[0].startswith(b'{"jsonrpc":"2.0","id":1.2345678901234568e+22,')


def test_invalid_utf8_ends_the_link_without_an_answer() -> None:
    client = Client()
    client._did(client.link.receive([b'{"id":"\xff"}']))
    assert (client.said, [fault.can_continue for fault in client.faults]) == ([], [False])


def test_the_seed_refuses_later_methods_in_its_own_words() -> None:
    path = next(path for path in CAPTURES if path.stem.startswith("13"))
    real = [json.loads(line) for _, way, line in captured(path) if way == "s2c"]
    client = Client(SEED)
    client.asks("thread/interrupt", id=13, thread_id=THREAD)
    client.asks("thread/request", id=14, kind="goal_record_progress", thread_id=THREAD)
    client.asks("app/config/reload", id=1)
    client.asks("app/request", id=1, kind="submit_user_input", request_id="q", answers=[])
    interrupt, progress, reload, answers = client.lines()
    assert [interrupt, progress] == real[-3:-1]
    assert (reload["error"]["code"], answers["error"]["code"], client.heard) == (-32601, -32602, [])


# -- the order of things -----------------------------------------------------------------------------


def test_one_request_is_executed_at_a_time_and_answers_keep_their_order() -> None:
    client = Client().asks("healthz", id="a").asks("thread/goal/get", id="b", thread_id=THREAD).asks("nope/x", id="c")
    assert len(client.heard) == 1
    assert client.lines() == []
    client.answer(events.Pong(request=client.heard.pop(0).request))
    assert [line["id"] for line in client.lines()] == ["a"]
    client.reply("not_found")
    assert [line["id"] for line in client.lines()] == ["b", "c"]


def test_requests_with_equal_ids_get_their_own_answers() -> None:
    client = Client().asks("healthz", id=7).asks("healthz", id=7)
    first = client.heard.pop(0)
    client.answer(events.Pong(request=first.request))
    assert first.request != client.heard[0].request


def test_requests_that_are_answered_at_once_are_nested_to_a_bounded_depth_and_all_answered() -> None:
    client = Client()
    waiting = [client.link.receive([json.dumps({"jsonrpc": "2.0", "id": 1, "method": "healthz"}).encode()] * 1000)]
    deepest = 0

    def act(step: Any, depth: int) -> None:
        nonlocal deepest
        deepest = max(deepest, depth)
        client._put(step.frames)
        for command in [item for burst in step.bursts for item in burst.items]:
            act(client.link.send([events.Pong(request=command.request)]), depth + 1)
        if step.alarm is not None:
            waiting.append(step.alarm.callback())

    while waiting:
        act(waiting.pop(), 0)
    assert len(client.lines()) == 1000
    assert deepest <= NESTED_MAX


def test_more_requests_than_may_wait_end_the_link() -> None:
    client = Client()
    for _ in range(PENDING_MAX + 1):
        client.asks("healthz")
    assert [(fault.code, fault.can_continue) for fault in client.faults] == [("flooding", False)]


def test_an_input_is_refused_while_too_many_others_wait_for_the_turn() -> None:
    client = Client()
    client.link.limit_requests(2, lambda _change: None)
    for number in (1, 2, 3, 4):
        client.message(id=number)
    client.turn()
    assert not [line for line in client.lines() if line.get("id") == 4]  # replies keep the order of the requests
    client.turn().turn()
    (refused,) = [line["error"] for line in client.lines() if line.get("id") == 4]
    assert refused["code"] == -32603
    assert "`pending_commands`" in refused["message"]


def test_inputs_are_accepted_again_once_the_ones_before_them_are_executed() -> None:
    client = Client()
    client.link.limit_requests(1, lambda _change: None)
    client.message(id=1).message(id=2).turn().message(id=3)
    client.turn().turn()
    assert not [line for line in client.lines() if "error" in line]


def test_requests_are_counted_in_bytes_until_they_have_an_answer() -> None:
    client, changes = Client(), list[int]()
    client.link.limit_requests(2, changes.append)
    client.message(id=1, text="x" * 500).message(id=2, text="y" * 700)
    assert sum(changes) > 1200
    client.turn().turn()
    assert sum(changes) == 0


def test_no_request_is_counted_any_more_when_the_link_has_closed() -> None:
    client, changes = Client(), list[int]()
    client.link.limit_requests(2, changes.append)
    client.message(id=1).message(id=2)._did(client.link.closed("stopped"))
    assert sum(changes) == 0


def test_each_line_is_answered_when_the_link_closes() -> None:
    client = Client().asks("healthz", id=1).asks("nope/x", id=2).message(id=3)
    client._did(client.link.closed("stopped"))
    codes = [(line["id"], line["error"]["code"]) for line in client.lines()]
    assert codes == [(1, -32603), (2, -32601), (3, -32603)]


def test_a_client_that_is_disconnected_is_told_why_without_an_id_if_no_request_is_pending() -> None:
    client = Client()
    client.answer(events.Reply(request="", failure=Failure(cause="busy", text="too many clients")))
    (line,) = client.lines()
    assert (line["id"], line["error"]["code"], line["error"]["message"]) == (None, -32603, "too many clients")


def test_each_pending_request_of_a_client_that_is_disconnected_is_told_why() -> None:
    client = Client().asks("healthz", id=1).message(id=2)
    client.answer(events.Reply(request="", failure=Failure(cause="busy", text="too many messages")))
    client._did(client.link.closed("too_many_messages"))
    lines = [(line["id"], line["error"]["message"]) for line in client.lines()]
    assert lines == [(1, "too many messages"), (2, "too many messages")]


# -- turns -------------------------------------------------------------------------------------------


def test_a_turn_is_streamed_and_then_answered_in_the_shape_of_the_real_server() -> None:
    client = Client().message(id="m")
    assert client.lines() == []
    client.turn(events.TextDelta(text="Hel"), events.TextDelta(text="lo"), events.TextDone(text="Hello"))
    start, *deltas, end, result = client.lines()
    response = start["response_id"]
    assert (start, end) == (
        {"type": "response_start", "response_id": response},
        {"type": "response_end", "response_id": response},
    )
    assert deltas == [{"type": "response_delta", "response_id": response, "delta": text} for text in ("Hel", "lo")]
    real = vector("res.thread.message.head")
    turn_id = {"turn_id": response.partition(":")[2]}
    assert result == real | {"id": "m", "result": real["result"] | {"data": turn_id}}
    assert list(result["result"]) == list(real["result"])


def test_a_client_of_the_seed_has_its_text_in_the_result() -> None:
    client = Client(SEED).message(text="héllo")
    client.turn(events.TextDelta(text="a"), events.ReasoningDelta(text="hm"))
    start, end, result = client.lines()
    response = f"{THREAD}:6"
    assert (start["type"], end["type"], start["response_id"]) == ("response_start", "response_end", response)
    assert result["result"] == {
        "thread_id": THREAD,
        "status": "accepted",
        "threads": [],
        "events": [
            {"event": "response_start", "response_id": response},
            {"event": "response_delta", "response_id": response, "delta": "a"},
            {"event": "response_delta", "response_id": response, "delta": "hm", "channel": "reasoning"},
            {"event": "response_end", "response_id": response},
        ],
        "data": {},
    }


def test_events_other_than_text_stand_in_the_result() -> None:
    client = Client().message()
    client.turn(
        events.ReasoningDelta(text="hm"),
        events.ToolCallStarted(call="c", name="ls"),
        events.ToolCallArguments(call="c", name="ls", json="{}", done=True),
        events.ToolCallFinished(call="c", name="ls", output="x"),
        events.Gap(text="lost"),
    )
    lines = client.lines()
    assert [line.get("type") for line in lines] == ["response_start", "response_end", None]
    assert [event["event"] for event in lines[-1]["result"]["events"]] == [
        "response_delta",
        "tool_call_start",
        "tool_call_result",
        "error",
    ]


@pytest.mark.parametrize(
    ("end", "text"),
    [("failed", "boom"), *((end, "turn interrupted") for end in ("cancelled", "paused", "rolled_back"))],
)
def test_a_failed_turn_is_an_error_after_the_end_of_its_text(end: End, text: str) -> None:
    failure = Failure(cause="internal", text="boom") if end == "failed" else None
    client = Client().message()
    client.turn(events.TextDelta(text="a"), events.ReasoningDelta(text="hm"), end=end, failure=failure)
    lines = client.lines()
    assert [line.get("type") for line in lines] == ["response_start", "response_delta", "response_end", None]
    assert lines[-1] == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": text, "data": None}}
    assert client.losses == ["ResponseDelta"]  # an error has no events


def test_a_refused_input_is_an_error_and_the_next_request_is_executed() -> None:
    client = Client().message().asks("healthz", id=2)
    client.reply("busy", "a turn is already in progress in this session")
    assert client.line()["error"]["code"] == -32603
    assert isinstance(client.heard[0], commands.Ping)


def test_during_a_message_only_an_interrupt_is_executed_and_all_else_waits() -> None:
    client = Client().message(id=1)
    client.asks("healthz", id=2).writes('{"id":"bad').asks("thread/interrupt", id=3, thread_id=THREAD)
    message, cancel = client.heard
    assert (isinstance(cancel, commands.CancelTurn), client.lines()) == (True, [])
    client.answer(events.Reply(request=cancel.request))
    client.heard = [message]
    client.turn(end="cancelled")
    client.answer(events.Pong(request=client.heard.pop(0).request))
    answers = [line for line in client.lines() if "id" in line]
    assert [line["id"] for line in answers] == [1, 2, None, 3]
    assert answers[-1]["result"] == {"thread_id": THREAD, "interrupted": True}


@pytest.mark.parametrize(("generation", "method"), [(HEAD, "thread/request"), (SEED, "thread/message")])
def test_no_request_is_executed_during_a_turn_that_cannot_be_interrupted(generation: str, method: str) -> None:
    client = Client(generation).message(method=method)
    client.asks("thread/interrupt", id=2, thread_id=THREAD).asks("healthz", id=3)
    assert len(client.heard) == 1


@pytest.mark.parametrize("cause", ["not_running", "not_found"])
def test_an_interrupt_without_a_turn_is_no_error(cause: Cause) -> None:
    client = Client().asks("thread/interrupt", thread_id="thread-ghost")
    assert client.reply(cause).line()["result"] == {"thread_id": "thread-ghost", "interrupted": False}


def test_a_shutdown_interrupts_the_turn_and_is_the_last_answer() -> None:
    client = Client().message(id=1).asks("shutdown", id=2).asks("healthz", id=3)
    message, stop = client.heard
    assert isinstance(stop, commands.CancelTurn)
    client.heard = [message]
    client.turn(end="cancelled")
    client.reply("not_found")
    client.answer(events.BackendShutdown(reason="detached"))
    answers = [line for line in client.lines() if "id" in line]
    assert [line["id"] for line in answers] == [1, 2]
    assert answers[-1] == vector("res.shutdown") | {"id": 2}


def test_a_turn_that_the_client_did_not_begin_is_not_streamed() -> None:
    client = Client()
    client.attach()
    client.runs("", begun(), [events.TextDelta(text="a"), events.ReasoningDelta(text="b")], ended())
    assert (client.lines(), client.losses) == ([], ["ReasoningDelta"])


# -- questions in words ------------------------------------------------------------------------------


def test_a_question_ends_the_run_with_its_words_and_the_answer_is_a_run_of_its_own() -> None:
    client = Client().message(id=1).asks("healthz", id=2)
    command = client.heard.pop(0)
    question = events.QuestionAsked(text="May I?", question="q", parked=True)
    rest: list[Any] = [events.ToolCallFinished(name="t", output="x"), events.TextDelta(text="later"), *ended()]
    asked, goes_on = [events.TextDelta(text="a"), question], [events.QuestionAnswered(question="q"), *rest]
    client.runs(command.request, begun(), asked, goes_on)
    *stream, result = client.lines()
    assert [line.get("delta", line["type"]) for line in stream] == ["response_start", "a", "May I?", "response_end"]
    assert (result["id"], result["result"]["status"]) == (1, "accepted")
    assert isinstance(client.heard[0], commands.Ping)  # its request is answered: the next one acts
    client.answer(events.Pong(request=client.heard.pop(0).request)).lines()
    client.message(id=3, text="approve")
    client.runs(client.heard.pop(0).request, [events.TurnAccepted(request="x")], rest)
    *stream, result = client.lines()
    assert [line.get("delta", line["type"]) for line in stream] == ["response_start", "later", "response_end"]
    assert (result["id"], [event["event"] for event in result["result"]["events"]]) == (3, ["tool_call_result"])


def test_a_question_outside_of_a_turn_is_a_run_of_its_own() -> None:
    """A one-time code: the gateway asks the client whose message waits for it, then says that the run is done."""
    client = Client().message(id=1, text="code 123456")
    request = client.heard.pop(0).request
    client.answer(events.QuestionAsked(text="wrong code")).answer(events.Reply(request=request))
    *stream, result = client.lines()
    assert [line.get("delta", line["type"]) for line in stream] == ["response_start", "wrong code", "response_end"]
    assert (result["id"], result["result"]["status"]) == (1, "accepted")
    assert stream[0]["response_id"].endswith(":" + result["result"]["data"]["turn_id"])
    assert result["result"]["data"]["turn_id"]


def test_no_client_of_this_dialect_can_be_asked() -> None:
    assert not Client().link.can_be_asked(events.ApprovalRequested(tool="t", description="d"))


# -- threads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "status"), [("thread/start", "started"), ("thread/create", "created"), ("thread/read", "ok")]
)
def test_a_session_is_shown_to_the_request_that_asked_for_it(method: str, status: str) -> None:
    client = Client()
    client.asks(method, **({"thread_id": THREAD} if method == "thread/read" else {}))
    client.state.transcript = [Message(role="user", text="a", at=AT), Message(role="assistant", text="b", at=AT)]
    client.attach(client.heard.pop(0).request)
    result = client.line()["result"]
    assert (result["thread_id"], result["status"], result["thread"]["preview"]) == (THREAD, status, "a")
    told = [(item["role"], item["content"]) for item in result["data"]["history"]]
    assert told == [("user", "a"), ("assistant", "b")]
    assert ("model" in result) is (method != "thread/read")


def test_a_fresh_thread_looks_like_that_of_the_real_server() -> None:
    path = next(path for path in CAPTURES if path.stem.startswith("04"))
    real = json.loads(next(line for _, way, line in captured(path) if way == "s2c"))["result"]
    client = Client().asks("thread/start", cwd="/w")
    client.attach(client.heard.pop(0).request)
    ours = client.line()["result"]
    own = {"thread_id", "cwd", "thread"}
    assert list(ours) == list(real)
    assert {key: ours[key] for key in ours if key not in own} == {key: real[key] for key in real if key not in own}
    assert list(ours["thread"]) == list(real["thread"])


def test_an_attached_client_reads_the_inputs_of_others() -> None:
    client = Client()
    client.attach()
    client.state.transcript.append(Message(role="assistant", text="new", at=AT))
    client.asks("thread/read", thread_id=THREAD)
    client.answer(events.SessionOpened(request=client.heard.pop(0).request, session=SESSION))
    assert [item["content"] for item in client.line()["result"]["data"]["history"]] == ["new"]


def test_lists_are_answered_in_both_forms() -> None:
    loaded = {"ok": True, "data": {"threads": []}, "events": []}
    for method, result in (
        ("thread/list", vector("res.thread.list.empty")["result"]),
        ("app/thread_loaded_list", loaded),
    ):
        client = Client().asks(method)
        client.answer(events.SessionsListed(request=client.heard[0].request, sessions=()))
        assert client.line()["result"] == result


@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (5, 1), (None, 1)])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_list_with_the_limit_0_is_empty(limit: int | None, rows: int, grouped: bool) -> None:
    params = {"limit": limit, "include_archived": True}
    client = (
        Client().asks("thread/request", kind="list", **params) if grouped else Client().asks("thread/list", **params)
    )
    listed = (SessionSummary(session=SESSION),)
    client.answer(events.SessionsListed(request=client.heard[0].request, sessions=listed))
    assert len(client.line()["result"]["threads"]) == rows


def test_a_result_of_this_dialect_is_passed_on_unchanged() -> None:
    goal = vector("res.thread.goal.get.none")["result"]
    client = Client().asks("thread/goal/get", thread_id=THREAD)
    assert client.reply(result=raw(goal)).line()["result"] == goal


def test_a_command_without_a_result_gets_the_result_of_its_method() -> None:
    for method, params, status in (
        ("thread/archive", {}, "archived"),
        ("thread/unarchive", {}, "unarchived"),
        ("thread/set_name", {"name": "N"}, "ok"),
    ):
        client = Client()
        client.attach()
        client.asks(method, thread_id=THREAD, **params)
        result = client.reply().line()["result"]
        assert (result["status"], result.get("thread", {}).get("name")) == (status, params.get("name"))


@pytest.mark.parametrize(
    ("method", "generation"), [("thread/resume", ""), ("thread/request", ""), ("thread/resume", SEED)]
)
def test_an_unknown_thread_is_not_replaced_by_another_that_was_opened(method: str, generation: str) -> None:
    client = Client(generation).asks(method, thread_id="thread-ghost", **({"kind": "resume"} if "q" in method else {}))
    (command,) = client.heard
    client.attach(command.request)
    told = client.line()
    if method == "thread/resume" and not generation:
        assert told["error"]["data"] == {"error": "thread_not_found", "thread_id": "thread-ghost"}
    else:
        assert (told["result"]["thread_id"], told["result"]["status"]) == ("thread-ghost", "missing")


@pytest.mark.parametrize("name", [THREAD, SESSION])
def test_a_known_thread_is_resumed_by_either_of_its_names(name: str) -> None:
    client = Client().asks("thread/resume", thread_id=name)
    (command,) = client.heard
    assert client.attach(command.request).line()["result"]["thread_id"] == THREAD


@pytest.mark.parametrize("method", ["thread/interrupt", "shutdown"])
def test_an_interrupt_or_shutdown_in_the_read_of_its_message_ends_the_turn(method: str) -> None:
    client = Client()
    client.attach()
    lines = [
        {"id": 1, "method": "thread/message", "params": {"thread_id": THREAD, "input": "hi"}},
        {"id": 2, "method": "healthz"},
        {"id": 3, "method": method, "params": {"thread_id": THREAD}},
    ]
    client.writes(*map(json.dumps, lines))
    assert [type(command) for command in client.heard] == [commands.SubmitInput, commands.CancelTurn]
    assert client.heard[1].session == SESSION
