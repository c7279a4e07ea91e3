"""A command about a thread that is not open here: its backend may have the thread in its store."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.config.model import Limits
from dragoman.gateway.ingress import LATEST, NEW, Ingress
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.session_commands import ID_IN_USE
from tests.gateway.codewhale_messages import answers, asked, line, refuses, shown, thread
from tests.gateway.in_memory import InMemoryGateway, in_memory_gateway
from tests.gateway.pod_messages import run
from tests.gateway.smooth_client_messages import ask, history
from tests.gateway.smooth_server_messages import Frame, acknowledged, page, problem
from tests.idle import settle

KEPT = "thread-0198c3a1-0000-4000-8000-0000000000d1"
OPENED = KEPT.removeprefix("thread-")
CHOSEN = "0198c3a1-0000-4000-8000-0000000000e1"
OLD = "0198c3a1-0000-4000-8000-0000000000d2"
STORED = "thr_0198c3a100004000800000000000d3"  # the form of an id of a codewhale 0.10.2
SAID = (("user", "Hi"), ("assistant", "Hello"))


def result(request: Frame, **data: object) -> Frame:
    """Return the answer to this request."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": {"threads": [], "events": []} | data}


async def resumes(made: InMemoryGateway) -> None:
    """Let the backend resume the stored thread, and read it out."""
    await answers(made, "thread/resume", **shown(KEPT))
    await answers(made, "thread/read", **shown(KEPT, "ok", SAID))


async def test_a_message_to_a_stored_thread_continues_that_thread() -> None:
    """No server requires a resume before a message to a thread (docs/dialects/codewhale.md, section 3)."""
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/message", thread_id=KEPT, input="And now?"))
        await answers(made, "thread/resume", **shown(KEPT))
        assert asked(made, "thread/message") == [], "its history comes first"
        await answers(made, "thread/read", **shown(KEPT, "ok", SAID))
        (message,) = asked(made, "thread/message")
        assert message["params"] == {"thread_id": KEPT, "input": "And now?", "allowed_tools": []}
        await settle()
        made.pod.sends({"type": "response_start", "response_id": "r"})
        made.pod.sends({"type": "response_delta", "response_id": "r", "delta": "Now this."})
        made.pod.sends({"type": "response_end", "response_id": "r"})
        await answers(made, "thread/message", thread_id=KEPT, status="accepted", data={"turn_id": "t"})
        assert [frame.get("type") or frame["result"]["status"] for frame in client.news()] == [
            "response_start",
            "response_delta",
            "response_end",
            "accepted",
        ]
        (session,) = made.router.sessions
        assert [m.text for m in session.state.messages()] == ["Hi", "Hello", "And now?", "Now this."]


async def test_a_thread_of_the_store_is_resumed_and_read_with_its_history_and_its_goal() -> None:
    goal = {
        "thread_id": KEPT,
        "goal_id": "goal-1",
        "objective": "Ship it",
        "status": "active",
        "tokens_used": 1,
        "time_used_seconds": 2,
        "continuation_count": 0,
        "created_at": 1,
        "updated_at": 1,
    }
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/resume", thread_id=KEPT))
        resumed = shown(KEPT)
        resumed["data"]["goal"] = goal
        await answers(made, "thread/resume", **resumed)
        await answers(made, "thread/read", **shown(KEPT, "ok", SAID))
        await client.says(line(2, "thread/read", thread_id=KEPT))
        resume, read = client.news()
        for answer in (resume, read):
            assert [item["content"] for item in answer["result"]["data"]["history"]] == ["Hi", "Hello"]
            assert answer["result"]["data"]["goal"] == goal
        assert (resume["result"].get("goal"), read["result"]["goal"]) == (None, goal)


async def test_a_resume_that_changes_an_open_thread_goes_to_its_server() -> None:
    """A server of 0.10.2 runs the next turn with the model of the resume, and answers with its name (section 12)."""
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/resume", thread_id=KEPT))
        await resumes(made)
        await client.says(line(2, "thread/resume", thread_id=KEPT))
        assert len(asked(made, "thread/resume")) == 1, "it changes nothing, so the gateway answers"
        history = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me"}]
        await client.says(line(3, "thread/resume", thread_id=KEPT, model="deepseek-reasoner", history=history))
        resume = asked(made, "thread/resume")[1]
        assert resume["params"].items() >= {"model": "deepseek-reasoner", "history": history}.items()
        client.news()
        await answers(made, "thread/resume", **shown(KEPT) | {"model": "deepseek-reasoner"})
        await answers(made, "thread/read", **shown(KEPT, "ok", (*SAID, ("user", "Who?"), ("assistant", "Me"))))
        (answer,) = client.news()
        assert answer["result"]["model"] == "deepseek-reasoner"
        assert [item["content"] for item in answer["result"]["data"]["history"]] == ["Hi", "Hello", "Who?", "Me"]
        assert made.ledger.partial() == []


async def test_the_refusal_of_a_resume_that_changes_an_open_thread_is_passed_on() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/resume", thread_id=KEPT))
        await resumes(made)
        client.news()
        client.sends(line(2, "thread/resume", thread_id=KEPT, sandbox="read-only"))
        await refuses(made, "thread/resume", -32005, "legacy sandbox override conflicts")
        (answer,) = client.news()
        assert answer["error"]["message"] == "legacy sandbox override conflicts"
        await client.says(line(3, "thread/message", thread_id=KEPT, input="And now?"))
        assert len(asked(made, "thread/message")) == 1


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_conversation_that_a_smooth_server_opens_for_an_unknown_thread_is_not_shown(is_kept: bool) -> None:
    """A smooth server opens a fresh conversation then, and a codewhale refuses the resume (docs/dialects/smooth.md,
    section 6, and docs/dialects/codewhale.md, section 2).
    """
    async with in_memory_gateway(upstream="smooth") as made:
        client = made.join("editor", dialect="codewhale")
        await client.says(line(1, "thread/resume", thread_id=KEPT))
        (query,) = made.pod.news()
        await made.pod.says(acknowledged(query["requestId"], conversations=[]))
        (create,) = made.pod.news()
        assert (create["action"], create["conversationId"]) == ("create_conversation_session", OPENED)
        ids = {"sessionId": OLD, "conversationId": OPENED if is_kept else CHOSEN, "agentName": "smooth-agent"}
        await made.pod.says(acknowledged(create["requestId"], **ids))
        await made.pod.says(page(made.pod.news()[0]["requestId"]))
        (answer,) = client.news()
        await settle()
        opened = [OPENED] if is_kept else []
        assert ([session.state.id for session in made.router.sessions], "result" in answer) == (opened, is_kept)
        if not is_kept:
            assert answer["error"]["code"] == -32004


async def test_a_clients_history_that_the_backends_dialect_cannot_take_is_counted_as_a_loss() -> None:
    async with in_memory_gateway() as made:
        client = made.join("editor", dialect="codewhale")
        (only,) = made.router.sessions
        await client.says(line(1, "thread/resume", thread_id=f"thread-{only.state.id}", history=["Hi"]))
        assert [(row.kind, row.field) for row in made.ledger.partial()] == [("ResumeSession", "ext.params.history")]


async def test_a_session_is_named_after_the_thread_that_its_backend_opened() -> None:
    """The session has the same id in every dialect, and after a restart of the gateway (docs/translation.md, rule
    4.8).
    """
    async with in_memory_gateway(upstream="codewhale") as made:
        widget, editor = made.join("widget"), made.join("editor", dialect="codewhale")
        await widget.says(ask("create_conversation_session", "c", agentId=OPENED))
        assert (widget.news(), made.router.sessions) == ([], []), "it has no id yet"
        await answers(made, "thread/start", **shown(KEPT, "started"))
        (created,) = widget.news()
        assert created["data"]["conversationId"] == OPENED
        assert [session.state.id for session in made.router.sessions] == [OPENED]
        await editor.says(line(1, "thread/read", thread_id=KEPT))
        assert editor.news()[0]["result"]["thread_id"] == KEPT


async def test_a_thread_resumed_by_a_codewhale_client_has_the_same_id_for_a_smooth_client() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/resume", thread_id=KEPT))
        await resumes(made)
        assert [session.state.id for session in made.router.sessions] == [OPENED]


async def test_an_id_chosen_by_a_pando_client_is_an_alias_for_all_others() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        viewer, widget = made.join("viewer", dialect="pando", calls=True), made.join("widget")
        subscriber = made.join("subscriber", dialect="pando")
        row = {"id": CHOSEN, "title": "Atlas"}
        viewer.calls({"method": "db.write", "params": {"method": "CreateSession", "params": row}})
        await answers(made, "thread/start", **shown(KEPT, "started"))
        assert viewer.news()[0]["result"]["id"] == CHOSEN
        viewer.calls({"id": "2", "method": "message.send", "params": {"session_id": CHOSEN, "content": "Hi"}})
        await settle()
        published = [frame["payload"] for frame in subscriber.news() if frame["topic"] == "message.append"]
        assert [payload["session_id"] for payload in published] == [CHOSEN]
        await widget.says(ask("create_conversation_session", "c", agentId=OPENED, conversationId=CHOSEN))
        assert widget.news()[0]["data"]["conversationId"] == OPENED
        assert len(made.router.sessions) == 1


async def test_an_id_that_a_pando_client_chose_is_in_use_while_the_backend_opens_its_session() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        clients = [made.join(name, dialect="pando", calls=True) for name in ("first", "second")]
        for client in clients:
            client.calls({"method": "db.write", "params": {"method": "CreateSession", "params": {"id": CHOSEN}}})
            await settle()
        (refusal,) = clients[1].news()
        assert ID_IN_USE in refusal["error"]["message"]
        assert clients[0].news() == []


async def test_a_backend_that_opens_nothing_in_time_is_busy_before_a_pando_client_gives_up() -> None:
    with capture_logs() as lines:
        async with in_memory_gateway(upstream="codewhale") as made:
            client = made.join("editor", dialect="codewhale")
            await client.says(line(1, "thread/start"))
            assert Limits().open_deadline < 10, "a pando client waits 10 s for the answer to a call"
            await made.time.elapses(Limits().open_deadline)
            (refused,) = client.news()
            assert refused["error"]["code"] == -32603
            assert made.router.sessions == []
            assert made.pod.transport.closed is not None
    assert [entry["outcome"] for entry in lines if entry.get("action") == "open"] == ["busy"]


async def test_a_thread_that_two_clients_resume_at_once_is_one_session() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        clients = [made.join(name, dialect="codewhale") for name in ("one", "two")]
        for client in clients:
            client.sends(line(1, "thread/resume", thread_id=KEPT))
        await settle()
        for child in made.pods:
            (asking,) = [frame for frame in child.news() if frame["method"] == "thread/resume"]
            await child.says(result(asking, **shown(KEPT)))
            (reading,) = [frame for frame in child.news() if frame["method"] == "thread/read"]
            await child.says(result(reading, **shown(KEPT, "ok")))
        assert [client.news()[0]["result"]["thread_id"] for client in clients] == [KEPT, KEPT]
        made.time.passes(0)
        assert len(made.router.sessions) == 1
        await settle()
        assert [bool(child.transport.closed) for child in made.pods] == [False, True], "the second child is not needed"


async def test_a_resumed_thread_is_shown_once_the_session_of_a_listener_has_opened_it() -> None:
    """A listener knows the thread by its derived id alone, and finds it later, in the list of the server."""
    own = canonical_id("test", STORED)
    async with in_memory_gateway(upstream="codewhale") as made:
        editor = made.join("editor", dialect="codewhale")
        await editor.says(line(1, "thread/resume", thread_id=STORED))
        made.join("late", dialect="pod", ingress=Ingress(endpoint="pod+unix:/x", session=own))
        await refuses(made, "thread/resume", -32004, "thread not found")
        child = made.pods[0]
        for method, status in (("thread/resume", "resumed"), ("thread/read", "ok")):
            (asking,) = [frame for frame in child.news() if frame["method"] == method]
            await child.says(result(asking, **shown(STORED, status)))
        assert editor.news() == []
        await answers(made, "thread/list", threads=[thread(STORED)])
        await answers(made, "thread/resume", **shown(STORED))
        await answers(made, "thread/read", **shown(STORED, "ok", SAID))
        await settle()
        (told,) = editor.news()
        assert (told["result"]["thread_id"], len(told["result"]["data"]["history"])) == (STORED, len(SAID))
        assert [session.state.id for session in made.router.sessions] == [own]


async def test_a_client_that_leaves_before_its_session_is_opened_leaves_no_session() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        await client.says(line(1, "thread/start"))
        await client.transport.hangs_up()
        assert made.pod.transport.closed is not None
        assert made.router.sessions == []


async def test_a_message_to_an_unknown_thread_is_refused_and_leaves_no_session() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, "thread/message", thread_id=KEPT, input="Hi"))
        await refuses(made, "thread/resume", -32004, f"thread not found: {KEPT}")
        (answer,) = client.news()
        gone = {"error": "thread_not_found", "thread_id": KEPT}
        assert answer["error"] == {"code": -32004, "message": f"thread not found: {KEPT}", "data": gone}
        assert made.router.sessions == []


@pytest.mark.parametrize("method", ["thread/archive", "thread/set_name", "thread/goal/get", "thread/fork"])
async def test_commands_about_a_stored_thread_are_executed_by_the_store(method: str) -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        client.sends(line(1, method, thread_id=KEPT, **({"name": "N"} if method.endswith("name") else {})))
        await resumes(made)
        assert client.news() == []
        (said,) = asked(made, method)
        assert said["params"]["thread_id"] == KEPT


async def test_an_interrupt_of_a_thread_that_is_not_open_sends_no_request() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("editor", dialect="codewhale")
        await client.says(line(1, "thread/interrupt", thread_id=KEPT))
        assert client.news()[0]["result"] == {"thread_id": KEPT, "interrupted": False}
        assert made.dialled == 0


@pytest.mark.parametrize(
    "command",
    [
        ask("send_message", "r1", sessionId=OLD, message="Hi"),
        ask("cancel", "r1", sessionId=OLD),
        ask("confirm_tool_action", "r1", sessionId=OLD, approved=True),
    ],
    ids=lambda command: command["action"],
)
async def test_a_command_to_a_session_that_only_the_server_knows_is_sent_there(command: Frame) -> None:
    """A client may use its old sessionId on a new socket while the server knows it, and its turn may still run
    (docs/dialects/smooth.md, section 6).
    """
    async with in_memory_gateway(upstream="smooth") as made:
        client = made.join("widget")
        await client.says(command)
        (query,) = made.pod.news()
        assert (query["action"], query["sessionId"]) == ("get_session", OLD)
        ids = {"sessionId": OLD, "conversationId": KEPT.removeprefix("thread-"), "agentName": "smooth-agent"}
        await made.pod.says(acknowledged(query["requestId"], **ids))
        await made.pod.says(page(made.pod.news()[0]["requestId"]))
        (sent,) = made.pod.news()
        assert sent == {**command, "requestId": sent["requestId"]}
        assert client.news() == []


async def test_a_stored_conversation_that_no_list_has_shown_is_renamed() -> None:
    """A rename names the conversation, and `get_session` finds only sessions (docs/dialects/smooth.md, section 3)."""
    async with in_memory_gateway(upstream="smooth") as made:
        client = made.join("widget")
        await client.says(ask("rename_conversation", "r1", conversationId=OPENED, title="Mine"))
        (query,) = made.pod.news()
        assert query["action"] == "list_conversations"
        row = {"conversationId": OPENED, "title": "Hi", "updatedAt": "2026-05-09T21:28:20Z", "messageCount": 2}
        await made.pod.says(acknowledged(query["requestId"], conversations=[row]))
        (create,) = made.pod.news()
        assert (create["action"], create["conversationId"]) == ("create_conversation_session", OPENED)
        ids = {"sessionId": OLD, "conversationId": OPENED, "agentName": "smooth-agent"}
        await made.pod.says(acknowledged(create["requestId"], **ids))
        await made.pod.says(page(made.pod.news()[0]["requestId"]))
        (rename,) = made.pod.news()
        assert (rename["action"], rename["conversationId"], rename["title"]) == ("rename_conversation", OPENED, "Mine")
        await made.pod.says(acknowledged(rename["requestId"], conversationId=OPENED, title="Mine"))
        (answer,) = client.news()
        assert answer["data"] == {"conversationId": OPENED, "title": "Mine"}


async def test_a_cancel_of_a_session_that_the_server_does_not_know_has_no_answer() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        client = made.join("widget")
        await client.says(ask("cancel", "r1", sessionId=OLD))
        (query,) = made.pod.news()
        await made.pod.says(problem(query["requestId"], "SESSION_NOT_FOUND"))
        assert (client.news(), made.router.sessions) == ([], [])


@pytest.mark.parametrize("known", [True, False])
async def test_a_thread_of_another_owner_is_answered_like_an_unknown_one(known: bool) -> None:
    """The backend is asked for an unused name (docs/design.md, section 5)."""
    async with in_memory_gateway(upstream="codewhale", share="owner") as made:
        if known:
            owner = made.join("owner", principal="ann", dialect="codewhale")
            owner.sends(line(1, "thread/resume", thread_id=KEPT))
            await resumes(made)
            owner.news()
        eve = made.join("eve", principal="eve", dialect="codewhale")
        eve.sends(line(2, "thread/resume", thread_id=KEPT))
        await refuses(made, "thread/resume", -32004, "thread not found")
        (answer,) = eve.news()
        assert answer["error"]["data"] == {"error": "thread_not_found", "thread_id": KEPT}
        assert (asked(made, "thread/resume")[-1]["params"]["thread_id"] == KEPT) is not known


@pytest.mark.parametrize("method", ["thread/resume", "thread/fork", "thread/archive"])
async def test_the_name_of_a_foreign_thread_is_never_sent_to_the_backend(method: str) -> None:
    async with in_memory_gateway(upstream="codewhale", share="owner") as made:
        owner = made.join("owner", principal="ann", dialect="codewhale")
        owner.sends(line(1, "thread/resume", thread_id=KEPT))
        await resumes(made)
        before = [len(child.frames()) for child in made.pods]
        eve = made.join("eve", principal="eve", dialect="codewhale")
        await eve.says(line(2, method, thread_id=KEPT))
        news = [frame for child, old in zip(made.pods, [*before, 0], strict=False) for frame in child.frames()[old:]]
        (asking,) = [frame for frame in news if frame["method"].startswith("thread/")]
        assert KEPT not in str(news)
        await refuses(made, asking["method"], -32004, "no such thread in this store")
        assert "this store" not in str(eve.news())


async def test_an_input_that_waits_for_the_latest_thread_goes_to_the_session_that_has_it_open() -> None:
    """The server of 0.10.2 takes a second to start, and a user types meanwhile."""
    async with in_memory_gateway(upstream="codewhale") as made:
        made.join("editor", dialect="codewhale").sends(line(1, "thread/start"))
        await answers(made, "thread/start", **shown(KEPT, "started"))
        late = made.join("late", dialect="pod", ingress=Ingress(endpoint="pod+unix:/x", session=LATEST))
        await settle()
        late.sends(run("And now?"))
        await answers(made, "thread/list", threads=[thread(KEPT)])
        (message,) = asked(made, "thread/message")
        assert message["params"]["input"] == "And now?"
        made.pods[0].sends({"type": "response_start", "response_id": "r"})
        made.pods[0].sends({"type": "response_delta", "response_id": "r", "delta": "This."})
        await answers(made, "thread/message", thread_id=KEPT, status="accepted", data={"turn_id": "t"})
        assert [frame["event"] for frame in late.news()] == [
            "snapshot",
            "segment_rotated",
            "user_message",
            "status",
            "turn_start",
            "text_delta",
            "text_done",
            "turn_end",
            "run_end",
            "status",
        ]
        made.time.passes(0)
        (session,) = made.router.sessions
        assert [m.text for m in session.state.messages()] == ["And now?", "This."]


async def test_a_request_for_the_history_goes_over_to_the_session_that_has_the_latest_thread_open() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        editor, widget = made.join("editor", dialect="codewhale"), made.join("widget")
        editor.sends(line(1, "thread/start"))
        await answers(made, "thread/start", **shown(KEPT, "started"))
        editor.sends(line(2, "thread/message", thread_id=KEPT, input="Hi"))
        await settle()
        await answers(made, "thread/message", thread_id=KEPT, status="accepted", data={"turn_id": "t"})
        made.join("late", dialect="pod", ingress=Ingress(endpoint="pod+unix:/x", session=LATEST))
        await settle()
        waiting = next(session.state.id for session in made.router.sessions if session.state.id != OPENED)
        await widget.says(ask("create_conversation_session", "c", agentId=OLD, conversationId=waiting))
        shown_as = widget.news()[0]["data"]["sessionId"]
        await widget.says(history("h") | {"sessionId": shown_as})
        assert widget.news() == []
        await answers(made, "thread/list", threads=[thread(KEPT)])
        made.time.passes(0)
        await settle()
        (told,) = [frame for frame in widget.news() if frame.get("requestId") == "h"]
        assert [message["content"]["text"] for message in told["data"]["messages"]] == ["Hi"]


async def test_the_latest_thread_has_its_own_id_for_the_clients_of_other_dialects() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        viewer = made.join("viewer", dialect="pando")
        late = made.join("late", dialect="pod", ingress=Ingress(endpoint="pod+unix:/x", session=LATEST))
        await answers(made, "thread/list", threads=[thread(KEPT)])
        widget = made.join("widget")
        widget.sends(ask("create_conversation_session", "c", agentId=OLD, conversationId=OPENED))
        await resumes(made)
        (session,) = made.router.sessions
        assert session.state.id == OPENED
        assert widget.news()[0]["data"]["conversationId"] == OPENED
        assert [len(client.link.sessions) for client in (late, widget)] == [1, 1]
        assert [frame["payload"]["id"] for frame in viewer.news()] == [OPENED]


async def test_a_session_of_a_listener_gets_the_id_of_the_thread_that_its_first_input_opened() -> None:
    """A client that comes back after a restart of the gateway knows the conversation by this id. The former id is
    accepted too, because a client may have been told it before the first input.
    """
    async with in_memory_gateway(upstream="codewhale") as made:
        terminal = made.join("terminal", dialect="pod", ingress=Ingress(endpoint="pod+unix:/x", session=NEW))
        widget, late = made.join("widget"), made.join("late")
        await settle()
        (session,) = made.router.sessions
        former = session.state.id
        await widget.says(ask("create_conversation_session", "c", agentId=OLD, conversationId=former))
        (joined,) = widget.news()
        assert joined["data"]["conversationId"] == former
        terminal.sends(run("Hi"))
        with capture_logs() as logs:
            await answers(made, "thread/start", **shown(KEPT, "started"))
        assert session.state.id == OPENED
        changed = {"event": "session id changed", "log_level": "info", "session": OPENED, "former": former}
        assert changed in logs, "earlier log lines, and the name of its recording, have the former id"
        for name in (OPENED, former):
            await late.says(ask("create_conversation_session", name, agentId=OLD, conversationId=name))
            assert late.news()[0]["data"]["conversationId"] == OPENED
        await answers(made, "thread/message", thread_id=KEPT, status="accepted", data={"turn_id": "t"})
        widget.news()
        await widget.says(ask("send_message", "m", sessionId=joined["data"]["sessionId"], message="More"))
        await answers(made, "thread/message", thread_id=KEPT, status="accepted", data={"turn_id": "t"})
        assert [frame["type"] for frame in widget.news()] == ["immediate_response", "eventual_response"]
        assert [len(client.link.sessions) for client in (terminal, widget, late)] == [1, 1, 1]
        with capture_logs() as logs:
            await made.pod.transport.hangs_up()
            await settle()
        assert [entry["session"] for entry in logs if entry["event"].startswith("backend lost")] == [OPENED]


async def test_a_codewhale_client_uses_a_session_by_the_id_that_it_had_before_its_first_input() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        terminal = made.join("terminal", dialect="pod", ingress=Ingress(endpoint="pod+unix:/x", session=NEW))
        editor = made.join("editor", dialect="codewhale")
        await settle()
        former = f"thread-{made.router.sessions[0].state.id}"
        await editor.says(line(1, "thread/resume", thread_id=former))
        assert editor.news()[0]["result"]["thread"]["id"] == former
        terminal.sends(run("Hi"))
        await answers(made, "thread/start", **shown(KEPT, "started"))
        await answers(made, "thread/message", thread_id=KEPT, status="accepted", data={"turn_id": "t"})
        for number, name in enumerate((former, KEPT), start=2):
            await editor.says(line(number, "thread/read", thread_id=name))
            (read,) = editor.news()
            assert [item["content"] for item in read["result"]["data"]["history"]] == ["Hi"], name
        await editor.says(line(4, "thread/resume", thread_id=former))
        assert editor.news()[0]["result"]["status"] == "resumed"
        await editor.says(line(5, "thread/message", thread_id=former, input="More"))
        await answers(made, "thread/message", thread_id=KEPT, status="accepted", data={"turn_id": "t"})
        assert {frame["result"]["thread_id"] for frame in editor.news() if "result" in frame} == {former}
