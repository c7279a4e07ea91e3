"""A link with a client, with the projection of its turns as a session uses it: order, turns, answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.mappings import pod, smooth
from dragoman.mappings.canonical import Unmapped, commands, events
from dragoman.mappings.canonical.values import End, Failure
from dragoman.mappings.codewhale import DIALECT
from dragoman.mappings.codewhale.to_canonical.commands import TO_COMMAND
from dragoman.mappings.codewhale.to_canonical.events import failure_of
from dragoman.mappings.codewhale.translator.server import NESTED_MAX, OF_A_THREAD
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED
from dragoman.mappings.codewhale.wire import results
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.extras import raw
from dragoman.mappings.reflection import struct_field, structs
from tests.mappings.codewhale.data import captured_answers, vector
from tests.mappings.codewhale.server_link import SESSION, THREAD, Client, begun, ended


def test_each_request_that_names_a_thread_is_one_about_a_thread() -> None:
    named = set[type]()
    for request, entry in TO_COMMAND.entries.items():
        if request is not Unmapped:
            params = structs(struct_field(request, "params").type)
            named |= {kind for one in params if "thread_id" in one.cls.__struct_fields__ for kind in entry.produces}
    without_a_session = {commands.PromptOnce, commands.StoreWrite}
    assert named - without_a_session == set(OF_A_THREAD)


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


@pytest.mark.parametrize(
    ("backend", "generation", "told"),
    [
        (smooth.DIALECT, HEAD, (True, True)),
        (DIALECT, HEAD, (True, True)),
        (pod.DIALECT, HEAD, (None, True)),
        (smooth.DIALECT, SEED, (None, None)),
    ],
)
@pytest.mark.parametrize("method", ["capabilities", "thread/capabilities"])
def test_a_client_is_told_what_the_backend_can_do(
    backend: Dialect, generation: str, told: tuple[bool | None, bool | None], method: str
) -> None:
    client = Client(generation)
    client.link.note_backend(backend)
    result = client.asks(method).line()["result"]
    assert (result.get("turn_image_inputs"), result.get("keeps_context")) == told


def test_the_seed_lists_what_the_real_one_lists() -> None:
    assert Client(SEED).asks("capabilities").line() == captured_answers("13")[0]


def test_invalid_utf8_ends_the_link_without_an_answer() -> None:
    client = Client()
    client.take_step(client.link.receive([b'{"id":"\xff"}']))
    assert (client.said, [fault.can_continue for fault in client.faults]) == ([], [False])


def test_the_seed_refuses_later_methods_in_its_own_words() -> None:
    client = Client(SEED)
    client.asks("thread/interrupt", id=13, thread_id=THREAD)
    client.asks("thread/request", id=14, kind="goal_record_progress", thread_id=THREAD)
    client.asks("app/config/reload", id=1)
    client.asks("app/request", id=1, kind="submit_user_input", request_id="q", answers=[])
    interrupt, progress, reload, answers = client.lines()
    assert [interrupt, progress] == captured_answers("13")[-3:-1]
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
        client.take_frames(step.frames)
        for command in [item for burst in step.bursts for item in burst.items]:
            act(client.link.send([events.Pong(request=command.request)]), depth + 1)
        if step.alarm is not None:
            waiting.append(step.alarm.callback())

    while waiting:
        act(waiting.pop(), 0)
    assert len(client.lines()) == 1000
    assert deepest <= NESTED_MAX


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
    client.message(id=1).message(id=2).take_step(client.link.closed("stopped"))
    assert sum(changes) == 0


def test_each_line_is_answered_when_the_link_closes() -> None:
    client = Client().asks("healthz", id=1).asks("nope/x", id=2).message(id=3)
    client.take_step(client.link.closed("stopped"))
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
    client.take_step(client.link.closed("too_many_messages"))
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
    assert client.losses == ["ReasoningDelta"]  # an error has no events


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (-32602, {"error": "interactive_execution_unsupported"}),
        (-32004, {"error": "thread_not_found", "thread_id": THREAD}),
        (-32005, {"error": "runtime_unavailable", "detail": "no"}),
        (-32603, None),
    ],
)
def test_a_refusal_of_a_codewhale_reaches_a_codewhale_client_unchanged(code: int, data: object) -> None:
    error = results.Problem(code=code, message="no", data=raw(data))
    client = Client().message()
    client.turn(end="failed", failure=failure_of(error))
    assert client.lines()[-1]["error"] == {"code": code, "message": "no", "data": data}


def test_a_refused_input_is_an_error_and_the_next_request_is_executed() -> None:
    client = Client().message().asks("healthz", id=2)
    client.reply("busy", "a turn is already in progress in this session")
    assert client.line()["error"]["code"] == -32603
    assert isinstance(client.heard[0], commands.Ping)


@pytest.mark.parametrize(("generation", "method"), [(HEAD, "thread/request"), (SEED, "thread/message")])
def test_no_request_is_executed_during_a_turn_that_cannot_be_interrupted(generation: str, method: str) -> None:
    client = Client(generation).message(method=method)
    client.asks("thread/interrupt", id=2, thread_id=THREAD).asks("healthz", id=3)
    assert len(client.heard) == 1


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


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("thread/message", {"input": "hi"}),
        ("thread/resume", {}),
        ("thread/fork", {}),
        ("thread/read", {}),
        ("thread/interrupt", {}),
        ("thread/set_name", {"name": "n"}),
        ("thread/archive", {}),
        ("thread/unarchive", {}),
        ("thread/goal/set", {"objective": "o"}),
        ("thread/goal/get", {}),
        ("thread/goal/clear", {}),
    ],
)
def test_a_blank_thread_id_names_no_thread_although_one_is_open(method: str, params: dict[str, object]) -> None:
    """The id of the only open session is implied elsewhere, so the input would go to that thread."""
    unknown = Client().asks(method, thread_id="thread-ghost", **params).reply("not_found")
    blank = Client().attach().asks(method, thread_id="", **params)
    assert (blank.heard, blank.raw) == ([], [unknown.raw[-1].replace(b"thread-ghost", b"")])


@pytest.mark.parametrize(
    ("method", "params", "refused"),
    [
        ("thread/start", {}, False),
        ("thread/start", {"operation_key": "k"}, True),
        ("thread/message", {"thread_id": "thread-ghost", "input": "hi"}, False),
        ("thread/message", {"thread_id": "thread-ghost", "input": "hi", "allowed_tools": []}, True),
        ("prompt/run", {"prompt": "hi", "allowed_tools": []}, True),
    ],
)
def test_a_client_that_sends_the_params_of_0_10_2_is_refused_the_read_of_an_unknown_thread(
    method: str, params: dict[str, object], *, refused: bool
) -> None:
    """Servers need them since 0.10.2, and since then they refuse it (docs/dialects/codewhale.md, section 12)."""
    client = Client().asks(method, **params).reply("busy")
    client.asks("thread/read", id=2, thread_id="thread-ghost").reply("not_found")
    assert ("error" in client.lines()[-1]) is refused
