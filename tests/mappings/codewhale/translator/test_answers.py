"""Answers to the requests of a client: sessions, lists and results, in the form of the real server."""

from __future__ import annotations

import pytest
from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import Message, SessionSummary
from dragoman.mappings.codewhale.vocabulary import SEED, keep
from dragoman.mappings.extras import raw
from tests.mappings.codewhale.data import captured_answers, vector
from tests.mappings.codewhale.server_link import AT, SESSION, THREAD, Client


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


def test_a_thread_with_an_id_of_its_server_is_also_resumed_by_the_id_that_other_dialects_show() -> None:
    client = Client()
    client.state.backend_ids = keep(thread_id="thr_0c2f9e5a")
    client.asks("thread/resume", thread_id=THREAD)
    client.attach(client.heard.pop(0).request)
    result = client.line()["result"]
    assert (result["thread_id"], result["status"]) == ("thr_0c2f9e5a", "resumed")


def test_a_fresh_thread_looks_like_that_of_the_real_server() -> None:
    real = captured_answers("04")[0]["result"]
    client = Client().asks("thread/start", cwd="/w")
    client.attach(client.heard.pop(0).request)
    ours = client.line()["result"]
    own = {"thread_id", "cwd", "thread"}
    assert list(ours) == list(real)
    assert {key: ours[key] for key in ours if key not in own} == {key: real[key] for key in real if key not in own}
    assert list(ours["thread"]) == list(real["thread"])


def test_an_answer_without_a_form_is_a_loss_and_its_request_fails() -> None:
    client = Client().asks("thread/list")
    client.answer(events.OtpVerified(request=client.heard.pop(0).request, text="ok"))
    assert client.line()["error"]["message"] == "the backend gave no answer to this"
    assert client.losses == ["OtpVerified"]


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
def test_an_unknown_thread_is_reported_in_the_words_of_the_generation(method: str, generation: str) -> None:
    client = Client(generation).asks(method, thread_id="thread-ghost", **({"kind": "resume"} if "q" in method else {}))
    told = client.reply("not_found").line()
    if method == "thread/resume" and not generation:
        assert told["error"]["data"] == {"error": "thread_not_found", "thread_id": "thread-ghost"}
    else:
        assert (told["result"]["thread_id"], told["result"]["status"]) == ("thread-ghost", "missing")


@pytest.mark.parametrize("name", [THREAD, SESSION])
def test_a_known_thread_is_resumed_by_either_of_its_names(name: str) -> None:
    client = Client().asks("thread/resume", thread_id=name)
    (command,) = client.heard
    assert client.attach(command.request).line()["result"]["thread_id"] == THREAD


@pytest.mark.parametrize(("generation", "shown"), [("", "********"), (SEED, "hunter2")])
def test_a_secret_setting_is_masked_as_servers_do_since_0_9_0(generation: str, shown: str) -> None:
    client = Client(generation).asks("app/config/get", key="api_key")
    own = {"ok": True, "data": {"key": "api_key", "value": "hunter2"}, "events": []}
    assert client.reply(result=raw(own)).line()["result"]["data"] == {"key": "api_key", "value": shown}


@pytest.mark.parametrize(
    ("result", "data"), [(UNSET, {}), (Raw(b'["m"]'), ["m"])], ids=["without a result", "with a result of another form"]
)
def test_an_app_request_is_answered_in_its_form(result: Raw | UnsetType, data: object) -> None:
    client = Client().asks("app/models")
    assert client.reply(result=result).line()["result"] == {"ok": True, "data": data, "events": []}


@pytest.mark.parametrize("item", [events.Pong(request="x"), events.QuestionAsked(text="Name?")])
def test_an_answer_to_nothing_is_a_loss(item: Event) -> None:
    client = Client().answer(item)
    assert (client.lines(), client.losses) == ([], [type(item).__name__])
