"""A link with a caller: one reply to each request, in order, and nothing else."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from dragoman.mappings.canonical import Batch, SessionState, Unmapped, commands, events
from dragoman.mappings.canonical.values import Cause, Failure, Message, Origin, SessionSummary
from dragoman.mappings.dialect import Instance, Oversize, Parts, Step
from dragoman.mappings.jsonrpc import PENDING_MAX
from dragoman.mappings.pando import DIALECT
from dragoman.mappings.pando.translator.server import ServerTranslator
from tests.data_files import vectors
from tests.mappings.pando.data import CAPTURES, captured, parts, value
from tests.mappings.round_trip import back_and_forth

PARSE_ERROR = -32700  # docs/dialects/pando.md, section 5
NOW = 1_778_362_100 * 10**9
SESSION = "0192f0e8-4d84-7d6e-a000-0000000000aa"
INSTANCE = Instance(id="us", started_at=NOW - 65 * 10**9)


class Caller:
    """The caller behind a ServerTranslator, as a script."""

    def __init__(self) -> None:
        numbers = count(1)
        self.link = ServerTranslator(lambda: NOW, lambda: f"own-{next(numbers)}", instance=INSTANCE)
        self.commands: list[Any] = []
        self.step: Step[Any] = Step()

    def calls(self, method: str, params: object = None, id: str = "r", **more: object) -> list[Any]:
        value = {"jsonrpc": "2.0", "id": id, "method": method, "params": params, **more}
        return self.sends(json.dumps(value).encode())

    def sends(self, *bodies: bytes) -> list[Any]:
        return self._heard(self.link.receive([Parts("rpc", b"me", (b"", body)) for body in bodies]))

    def receives(self, *answers: Any) -> list[Any]:
        return self._heard(self.link.send(answers))

    def _heard(self, step: Step[Any]) -> list[Any]:
        self.step = step
        self.commands += [item for burst in step.bursts for item in burst.items]
        return [json.loads(frame) for frame in step.frames]


def refused(request: str, cause: Cause, text: str = "no") -> events.Reply:
    return events.Reply(request=request, failure=Failure(cause=cause, text=text))


def error(id: str, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def result(id: str, value: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def state(**more: Any) -> SessionState:
    said = [Message(role="user", text="hi"), Message(role="assistant", text="ho")]
    return SessionState(id=SESSION, opened_at=NOW, updated_at=NOW + 10**9, transcript=[*said], **more)


# -- one reply, in order ----------------------------------------------------------------------------


def test_replies_keep_the_order_of_requests() -> None:
    caller = Caller()
    assert caller.calls("message.send", {"session_id": SESSION, "content": "hi"}, "a") == []
    assert caller.calls("instance.ping", {}, "b") == []
    assert caller.calls("nope", {}, "c") == []
    first, second = caller.commands
    assert caller.receives(events.Pong(request=second.request)) == []
    replies = caller.receives(events.TurnAccepted(request=first.request))
    assert [reply["id"] for reply in replies] == ["a", "b", "c"]
    assert replies[0] == result("a", {"ok": True})
    assert replies[2] == error("c", -32601, "ipc: method not found")


def test_an_event_that_answers_no_call_is_not_written() -> None:
    caller = Caller()
    assert caller.receives(events.Pong(request="x"), events.Reply(request="")) == []
    assert [loss.why for loss in caller.step.losses] == ["answers no call"] * 2
    assert caller.link.opened().frames == []


def test_a_second_answer_to_one_call_is_not_written() -> None:
    caller = Caller()
    caller.calls("instance.ping", {})
    own = caller.commands[0].request
    assert len(caller.receives(events.Pong(request=own))) == 1
    assert caller.receives(events.Pong(request=own)) == []


@pytest.mark.parametrize("said", ["same", ""])
def test_two_calls_under_one_id_or_none_get_two_replies(said: str) -> None:
    caller = Caller()
    caller.calls("instance.ping", {}, said)
    caller.calls("session.list", None, said)
    ping, listing = caller.commands
    assert ping.request != listing.request
    replies = caller.receives(
        events.SessionsListed(request=listing.request, sessions=()), events.Pong(request=ping.request)
    )
    assert [reply["id"] for reply in replies] == [said, said]
    assert replies[1]["result"] == []


def test_a_caller_with_too_many_open_calls_is_disconnected() -> None:
    caller = Caller()
    body = json.dumps({"id": "r", "method": "message.list", "params": {"session_id": SESSION}}).encode()
    caller.sends(*[body] * PENDING_MAX)
    assert caller.step.faults == []
    caller.sends(body)
    assert [(fault.code, fault.can_continue) for fault in caller.step.faults] == [("flooding", False)]
    told = {json.loads(frame)["error"]["message"] for frame in caller.link.closed("flooding").frames}
    assert told == {f"more than {PENDING_MAX} requests wait for a reply (PENDING_MAX)"}


def test_calls_that_wait_when_the_link_closes_are_refused_in_order() -> None:
    caller = Caller()
    caller.calls("instance.ping", {}, "a")
    caller.calls("nope", {}, "b")
    replies = [json.loads(frame) for frame in caller.link.closed("the gateway stops").frames]
    assert [(reply["id"], reply["error"]["code"]) for reply in replies] == [("a", -32000), ("b", -32601)]


# -- results in the form of their call ---------------------------------------------------------------


def test_ping_tells_the_instance_and_its_uptime() -> None:
    caller = Caller()
    caller.calls("instance.ping", {})
    pong = events.Pong(request=caller.commands[0].request, at=NOW)
    assert caller.receives(pong) == [result("r", {"status": "ok", "instance_id": "us", "uptime": "1m5s"})]


def test_the_same_list_is_an_array_for_session_list_and_an_object_for_state_sync() -> None:
    row = SessionSummary(session=SESSION, title="T", updated_at=NOW, messages=2)
    described = {"id": SESSION, "title": "T", "updated_at": "2026-05-09T21:28:20Z", "message_count": 2}
    for method, expected in (
        ("session.list", [described]),
        ("state.sync", {"sessions": [described], "instance_id": "us"}),
    ):
        caller = Caller()
        caller.calls(method, {})
        listed = events.SessionsListed(request=caller.commands[0].request, sessions=(row,))
        assert caller.receives(listed) == [result("r", expected)]


def test_a_session_is_shown_in_the_form_of_the_call() -> None:
    described = {"id": SESSION, "title": "hi", "updated_at": "2026-05-09T21:28:21Z", "message_count": 2}
    for method, expected in (("session.get", described), ("session.activate", {"ok": True})):
        caller = Caller()
        caller.calls(method, {"session_id": SESSION})
        frames = caller.link.attach(state(), caller.commands[0].request).frames
        assert [json.loads(frame) for frame in frames] == [result("r", expected)]


def test_an_attach_without_a_call_writes_nothing() -> None:
    assert Caller().link.attach(state(), "").frames == []


def test_all_messages_are_asked_for_and_listed_oldest_first() -> None:
    caller = Caller()
    caller.calls("message.list", {"session_id": SESSION})
    (command,) = caller.commands
    assert isinstance(command, commands.GetHistory)
    assert command.limit > 10**6
    newest_first = (Message(role="assistant", text="ho", id="m2", at=NOW), Message(role="user", text="hi", id="m1"))
    (reply,) = caller.receives(events.HistorySnapshot(request=command.request, items=newest_first))
    assert reply["result"] == [
        {"id": "m1", "role": "user", "content": "hi", "created_at": "0001-01-01T00:00:00Z"},
        {"id": "m2", "role": "assistant", "content": "ho", "created_at": "2026-05-09T21:28:20Z"},
    ]


def test_an_accepted_input_is_answered_by_the_batch_that_opens_its_turn() -> None:
    caller = Caller()
    caller.calls("message.send", {"session_id": SESSION, "content": "hi"})
    request = caller.commands[0].request
    batch = Batch(
        session=SESSION,
        epoch=1,
        first_seq=0,
        events=[events.TurnAccepted(request=request)],
        turn="t",
        origin=Origin(link="l", request=request),
    )
    assert [json.loads(frame) for frame in caller.link.on_delivered(batch).frames] == [result("r", {"ok": True})]
    assert caller.link.on_delivered(batch).frames == []


# -- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("session.get", {}, "session.get: sql: no rows in result set"),
        ("session.get", None, "session.get: sql: no rows in result set"),
        ("session.activate", {}, "session.activate: sql: no rows in result set"),
    ],
)
def test_a_call_without_a_required_param_is_refused_at_once(method: str, params: object, text: str) -> None:
    caller = Caller()
    assert caller.calls(method, params) == [error("r", -32000, text)]
    assert caller.commands == []


def test_a_call_of_too_many_parts_is_answered_as_one_that_cannot_be_read() -> None:
    step = Caller().link.receive([Oversize(size=65, limit=64, name="message_parts")])
    (reply,) = map(json.loads, step.frames)
    text = "parse error: message of 65 parts is over the limit of 64 (`message_parts`)"
    assert reply == error("", PARSE_ERROR, text)
    assert [fault.code for fault in step.faults] == ["too_large"]


@pytest.mark.parametrize("method", ["session.get", "session.activate"])
def test_an_unknown_session_has_no_rows(method: str) -> None:
    caller = Caller()
    caller.calls(method, {"session_id": "ghost"})
    refusal = refused(caller.commands[0].request, "not_found", "session 'ghost' not found")
    assert caller.receives(refusal) == [error("r", -32000, f"{method}: sql: no rows in result set")]


@pytest.mark.parametrize(
    ("method", "params", "cause", "expected"),
    [
        ("message.list", {"session_id": "ghost"}, "not_found", {"result": []}),
        ("session.interrupt", {"session_id": SESSION}, "not_running", {"result": {"ok": True}}),
        ("db.write", {"method": "DeleteSession", "params": "ghost"}, "not_found", {}),
    ],
)
def test_failures_that_a_pando_answers_as_success_are_a_success(
    method: str, params: object, cause: Cause, expected: dict[str, object]
) -> None:
    caller = Caller()
    caller.calls(method, params)
    refusal = refused(caller.commands[0].request, cause)
    assert caller.receives(refusal) == [{"jsonrpc": "2.0", "id": "r", **expected}]


def test_a_refusal_names_its_method_once() -> None:
    for text in ("a turn is already in progress", "message.send: a turn is already in progress"):
        caller = Caller()
        caller.calls("message.send", {"session_id": SESSION, "content": "x"})
        replies = caller.receives(refused(caller.commands[0].request, "busy", text))
        assert replies == [error("r", -32000, "message.send: a turn is already in progress")]


def test_a_command_that_the_backend_cannot_do_is_an_unknown_method() -> None:
    caller = Caller()
    caller.calls("instance.info", {})
    (reply,) = caller.receives(refused(caller.commands[0].request, "unsupported", "not here"))
    assert reply["error"]["code"] == -32601


def test_the_capabilities_of_another_dialect_are_an_unknown_method() -> None:
    """Real pandos answer instance.info so (docs/dialects/pando.md, section 6)."""
    caller = Caller()
    caller.calls("instance.info", {})
    (reply,) = caller.receives(events.Reply(request=caller.commands[0].request))
    assert reply == error("r", -32601, "ipc: method not found")


def test_an_answer_that_pando_has_no_form_for_is_still_one_reply() -> None:
    caller = Caller()
    caller.calls("session.get", {"session_id": SESSION})
    listed = events.CompletionsListed(request=caller.commands[0].request, kind="file", entries=())
    assert len(caller.receives(listed)) == 1


# -- db.write ---------------------------------------------------------------------------------------

NEW = {
    "id": SESSION,
    "parent_session_id": {"String": "p", "Valid": True},
    "title": "T",
    "message_count": 0,
    "prompt_tokens": 1,
    "completion_tokens": 2,
    "cost": 0.5,
}


def test_a_new_session_is_answered_with_its_full_row() -> None:
    caller = Caller()
    caller.calls("db.write", {"method": "CreateSession", "params": NEW})
    (command,) = caller.commands
    assert isinstance(command, commands.OpenSession)
    assert (command.session, command.title) == (SESSION, "T")
    fresh = SessionState(id=SESSION, title="T", opened_at=NOW)
    (reply,) = (json.loads(frame) for frame in caller.link.attach(fresh, command.request).frames)
    times = {"updated_at": 1_778_362_100, "created_at": 1_778_362_100}
    assert reply == result("r", {**NEW, **times, "summary_message_id": {"String": "", "Valid": False}})


def test_a_renamed_session_is_answered_with_its_full_row() -> None:
    change = {
        "title": "T2",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "summary_message_id": {"String": "m-9", "Valid": True},
        "cost": 0.5,
        "id": SESSION,
    }
    caller = Caller()
    caller.calls("db.write", {"method": "UpdateSession", "params": change})
    (command,) = caller.commands
    assert isinstance(command, commands.RenameSession)
    (reply,) = (json.loads(frame) for frame in caller.link.attach(state(title="T2"), command.request).frames)
    row = {
        **change,
        "parent_session_id": {"String": "", "Valid": False},
        "message_count": 2,
        "updated_at": 1_778_362_101,
        "created_at": 1_778_362_100,
    }
    assert reply == result("r", row)


def test_a_deleted_session_is_a_void_success() -> None:
    caller = Caller()
    caller.calls("db.write", {"method": "DeleteSession", "params": SESSION})
    assert caller.receives(events.Reply(request=caller.commands[0].request)) == [{"jsonrpc": "2.0", "id": "r"}]


@pytest.mark.parametrize(
    ("write", "cause", "text"),
    [
        ({"method": "CreateMessage", "params": {}}, "unsupported", "dbproxy: METHOD_NOT_FOUND (CreateMessage): no"),
        (
            {"method": "UpdateSession", "params": {"id": "x"}},
            "not_found",
            "dbproxy: INTERNAL (UpdateSession): sql: no rows in result set",
        ),
        ({"method": "CreateSession", "params": NEW}, "busy", "dbproxy: CONFLICT (CreateSession): no"),
    ],
)
def test_a_refused_write_has_the_words_of_the_proxy(write: object, cause: Cause, text: str) -> None:
    caller = Caller()
    caller.calls("db.write", write)
    assert caller.receives(refused(caller.commands[0].request, cause)) == [error("r", -32000, text)]


@pytest.mark.parametrize(
    ("params", "start"),
    [
        ([], "dbproxy handler: unmarshal WriteRequest: json: "),
        ({"method": "CreateSession", "params": 5}, "dbproxy: INVALID_PARAMS (CreateSession): "),
        ({"method": "CreateSession", "params": {"message_count": 2**63}}, "dbproxy: INVALID_PARAMS (CreateSession): "),
        (
            {"method": "UpdateSession", "params": {"prompt_tokens": -(2**63) - 1}},
            "dbproxy: INVALID_PARAMS (UpdateSession): ",
        ),
    ],
)
def test_a_write_that_cannot_be_read_is_refused_under_its_id(params: object, start: str) -> None:
    (reply,) = Caller().calls("db.write", params)
    assert (reply["id"], reply["error"]["code"]) == ("r", -32000)
    assert reply["error"]["message"].startswith(start)


# -- real requests ----------------------------------------------------------------------------------


def test_the_raw_script_is_read_as_the_real_primary_read_it() -> None:
    """A request that the real primary accepted is a command, every other one a fault."""
    path = next(path for path in CAPTURES if path.stem == "15-raw-rpc-edges")
    messages = [(way, frames) for _, way, frames in captured(path)]
    answers = [value(frames[-1].encode()) for way, frames in messages if way == "s2c"]
    refused = sum(answer.get("error", {}).get("code") == -32700 for answer in answers)
    unknown = sum(answer.get("error", {}).get("code") == -32601 for answer in answers)
    read = [back_and_forth(DIALECT.commands, parts(frames, "rpc"))[0] for way, frames in messages if way == "c2s"]
    items = [item for step in read for burst in step.bursts for item in burst.items]
    assert sum(len(step.faults) for step in read) == refused == 5
    assert sum(isinstance(item, Unmapped) for item in items) == unknown == 1
    assert {item.request for item in items} == {answer["id"] for answer in answers}


def test_each_request_is_refused_as_the_real_primary_refuses_it() -> None:
    for row in vectors("pando_refusals"):
        assert Caller().sends(row["body"].encode()) == [error(row["id"], row["code"], row["message"])], row
