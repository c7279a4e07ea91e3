"""One connection for many sessions: each message reaches its session, and no request waits for ever."""

from __future__ import annotations

import json

import pytest

from dragoman.gateway.backends.shared import SharedRequest, SharedRequests, SharedTexts
from dragoman.gateway.config.model import Limits
from dragoman.gateway.ingress import NEW, Ingress
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta
from dragoman.mappings.dialect import Burst, DeltaType
from dragoman.mappings.pando.translator.client import TICK
from dragoman.mappings.pando.translator.followed_sessions import FollowedSessions
from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row, send
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.pod_messages import run
from tests.gateway.smooth_client_messages import CREATE, ask
from tests.idle import settle
from tests.memory_transport import MemoryTransport

ONE, OTHER = "0b0e9b0e-0000-4000-8000-000000000001", "0b0e9b0e-0000-4000-8000-000000000002"

PARTS = '[{"type":"text","data":{"text":"hi"}}]'


def write(method: str, params: object, **members: object) -> dict[str, object]:
    """Return a `db.write` of a client."""
    return {
        "jsonrpc": "2.0",
        "id": "1",
        "method": "db.write",
        "params": {**members, "method": method, "params": params},
    }


async def watching(made: InMemoryPandoGateway, session: str) -> MemoryTransport:
    """Attach a smooth client to a session of the primary."""
    client = made.join("smooth")
    await send(client, ask("get_session", "open", sessionId=session))
    return client


async def test_publications_of_a_session_reach_only_its_clients() -> None:
    async with in_memory_pando_gateway() as made:
        client, other = await watching(made, ONE), await watching(made, OTHER)
        await made.begins(row(ONE), row(OTHER))
        assert made.asked() == ["message.list", "message.list"], "each session that is looked at"
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        await made.answers_each("message.list", [])
        assert [f["token"] for f in frames(client) if f["type"] == "stream_token"] == ["Hi"]
        assert "stream_token" not in [f["type"] for f in frames(other)]


async def test_a_command_names_its_session_and_its_answer_goes_to_its_sender() -> None:
    async with in_memory_pando_gateway() as made:
        client, other = await watching(made, ONE), await watching(made, OTHER)
        await made.opens([], row(ONE), row(OTHER))
        await made.answers("message.list", [])
        before = len(frames(other))
        await send(client, ask("send_message", "r1", sessionId=ONE, message="Hello"))
        asked = await made.answers("message.send", {"ok": True})
        assert asked == {"session_id": ONE, "content": "Hello"}
        assert [f["status"] for f in frames(client) if f.get("requestId") == "r1"] == [202]
        assert len(frames(other)) == before


async def test_a_session_that_nobody_uses_is_forgotten_by_the_translator_too(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(FollowedSessions, "forget", lambda _self, session: forgotten.append(session))
    async with in_memory_pando_gateway() as made:
        client = await watching(made, ONE)
        await made.opens([], row(ONE))
        await client.hangs_up()
        assert forgotten == []
        made.time.passes(Limits().session_ttl)
        assert set(forgotten) == {ONE}


async def test_a_lost_primary_fails_the_open_turn_and_waiting_commands_once() -> None:
    async with in_memory_pando_gateway() as made:
        client, other = await watching(made, ONE), await watching(made, OTHER)
        await made.begins(row(ONE), row(OTHER))
        await send(client, ask("send_message", "r1", sessionId=ONE, message="Hello"))
        await made.publishes("llm.token", session_id=OTHER, token="Hi")
        made.time.passes(2)  # the primary does not tell who began the run
        await settle()
        await made.primaries[-1].hangs_up()
        made.time.passes(Limits().reconnect_grace)
        assert [f["type"] for f in frames(client) if f.get("requestId") == "r1"] == ["error"]
        assert [f["type"] for f in frames(other)][-2:] == ["stream_token", "error"]


async def in_a_turn(made: InMemoryPandoGateway) -> MemoryTransport:
    """Return a client whose turn r1 has streamed `Hel` when the connection to the primary is lost."""
    client = await watching(made, ONE)
    await made.opens([], row(ONE))
    await send(client, ask("send_message", "r1", sessionId=ONE, message="Hello"))
    await made.answers("message.send", {"ok": True})
    await made.publishes("llm.token", session_id=ONE, token="Hel")
    await made.primaries[-1].hangs_up()
    return client


def ends(client: MemoryTransport) -> list[tuple[str, object]]:
    """Return the terminals of all turns."""
    terminals = [f for f in frames(client) if f["type"] in ("eventual_response", "error", "cancelled")]
    return [(f["type"], f.get("data", {}).get("data", {}).get("response", {}).get("responseParts")) for f in terminals]


async def test_a_turn_continues_if_the_same_primary_is_found_again() -> None:
    asked = {"id": "m1", "role": "user", "content": "Hello"}
    async with in_memory_pando_gateway() as made:
        client = await in_a_turn(made)
        await made.begins(row(ONE))
        while "message.list" in made.asked():
            await made.answers("message.list", [asked])
        await made.publishes("llm.token", session_id=ONE, token="lo")
        await made.publishes("llm.end", session_id=ONE)
        await made.answers("message.list", [asked, {"id": "m2", "role": "assistant", "content": "Hello"}])
        assert ends(client) == [("eventual_response", ["Hello"])]
        assert made.asked() == []


async def test_a_missed_answer_is_completed_from_the_store() -> None:
    stored = [
        {"id": "m1", "role": "user", "content": "Hello"},
        {"id": "m2", "role": "assistant", "content": "Hello there"},
    ]
    async with in_memory_pando_gateway() as made:
        client = await in_a_turn(made)
        await made.begins(row(ONE))
        alive = {"status": "ok", "instance_id": "i-1", "uptime": "0s"}
        for _ in range(4):  # two answers, 15 s apart (docs/translation.md, rule 3.6)
            while made.asked():
                (method, *_) = made.asked()
                await made.answers(method, stored if method == "message.list" else alive)
            await made.time.elapses(5.0)
        while made.asked():
            (method, *_) = made.asked()
            await made.answers(method, stored if method == "message.list" else alive)
        assert ends(client) == [("eventual_response", ["Hello there"])]


async def test_an_answer_that_a_question_interrupts_is_no_contradiction() -> None:
    """Another dragoman puts a question in words, which ends the run, and stores one answer once the turn has ended."""
    asked = {"id": "m1", "role": "user", "content": "Delete it"}
    async with in_memory_pando_gateway() as made:
        client = await watching(made, ONE)
        await made.opens([], row(ONE))
        for number, (text, tokens, stored) in enumerate(
            [
                ("Delete it", ["Let me see.", "\n\nMay I?\nAnswer approve or deny."], [asked]),
                ("approve", [" Done", "."], [asked, {"id": "m2", "role": "assistant", "content": "Let me see. Done."}]),
            ]
        ):
            await send(client, ask("send_message", f"r{number}", sessionId=ONE, message=text))
            await made.publishes("message.append", session_id=ONE, message_id="", role="user", content=text)
            await made.publishes("llm.start", session_id=ONE)
            await made.answers("message.send", {"ok": True})
            for token in tokens:
                await made.publishes("llm.token", session_id=ONE, token=token)
            await made.publishes("llm.end", session_id=ONE)
            await made.answers("message.list", stored)
        question = "Let me see.\n\nMay I?\nAnswer approve or deny."
        assert ends(client) == [("eventual_response", [question]), ("eventual_response", [" Done."])]
        assert "Gap" not in [entry.kind for entry in made.ledger.entries()]


async def test_a_turn_fails_if_another_primary_answers_than_before() -> None:
    async with in_memory_pando_gateway() as made:
        client = await in_a_turn(made)
        await made.answers("instance.ping", {"status": "ok", "instance_id": "i-2", "uptime": "0s"})
        made.time.passes(TICK)
        assert ends(client) == [("error", None)]
        await made.answers("session.list", [row(ONE)])
        assert set(made.asked()) == {"message.list"}


async def test_an_input_within_the_grace_is_refused_and_not_written() -> None:
    async with in_memory_pando_gateway() as made:
        client = await in_a_turn(made)
        await send(client, ask("send_message", "r2", sessionId=ONE, message="More"))
        assert [f["error"]["code"] for f in frames(client) if f.get("requestId") == "r2"] == ["TURN_IN_PROGRESS"]
        assert "message.send" not in made.asked()


async def test_a_new_connection_requests_the_open_sessions_again() -> None:
    async with in_memory_pando_gateway() as made:
        await watching(made, ONE)
        await made.begins(row(ONE), row(OTHER))
        made.primaries[-1].hang_up()
        while len(made.primaries) < 2:
            await settle()
        await settle()
        assert sorted(made.asked()) == ["instance.ping", "message.list", "session.list"]


async def test_the_first_input_creates_a_session_if_the_primary_has_none() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.begins()
        await send(pod, run("Hello"))
        await made.answers("session.interrupt", {"ok": True})
        assert made.asked() == ["CreateSession"]
        written = await made.answers("CreateSession", {"id": ONE})
        assert written["params"]["id"]
        await made.answers("message.list", [])
        await made.answers("message.send", {"ok": True})
        await made.publishes("llm.end", session_id=ONE)
        await made.answers("message.list", [])
        await pod.hangs_up()
        made.time.passes(Limits().session_ttl)
        while len(made.primaries) < 2:
            await settle()
        await settle()
        assert sorted(made.asked()) == ["instance.ping", "session.list"], "nobody uses the session any more"


async def test_a_client_whose_session_the_primary_has_open_already_joins_it() -> None:
    """A primary with one session, such as a gateway before a pod, answers CreateSession with that session."""
    async with in_memory_pando_gateway() as made:
        other, client = await watching(made, ONE), made.join("smooth")
        await made.opens([], row(ONE))
        await send(client, CREATE)
        await made.answers("CreateSession", {"id": ONE})
        (opened,) = frames(client)
        await send(client, ask("send_message", "r1", sessionId=opened["data"]["sessionId"], message="Hello"))
        assert await made.answers("message.send", {"ok": True}) == {"session_id": ONE, "content": "Hello"}
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        for transport in (client, other):
            assert [f["token"] for f in frames(transport) if f["type"] == "stream_token"] == ["Hi"]


async def test_an_input_that_opens_a_session_goes_to_the_one_that_the_primary_has_open_already() -> None:
    async with in_memory_pando_gateway() as made:
        await watching(made, ONE)
        pod = made.join("pod", ingress=Ingress(endpoint="pod", session=NEW))
        await made.opens([], row(ONE))
        await send(pod, run("Hello"))
        await made.answers("session.interrupt", problem="session.interrupt: session 'x' not found")
        await made.answers("CreateSession", {"id": ONE})
        assert await made.answers("message.send", {"ok": True}) == {"session_id": ONE, "content": "Hello"}
        assert "message.send" not in made.asked(), "the input is written once"
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        assert [f["data"] for f in frames(pod) if f["event"] == "text_delta"] == [{"text": "Hi"}]


async def test_inputs_that_waited_are_refused_if_the_primary_opens_no_session() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.begins()
        await send(pod, run("Hello"))
        await made.answers("session.interrupt", {"ok": True})
        await made.answers("CreateSession", problem="dbproxy: INTERNAL (CreateSession): read-only")
        assert [f["event"] for f in frames(pod)][-1] == "error"
        assert made.asked() == []


async def test_an_input_to_a_shipped_primary_without_sessions_is_refused_and_writes_nothing() -> None:
    """A shipped primary takes no input from others (docs/dialects/pando.md, section 6). A session made for the input
    would stay there, empty.
    """
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.begins()
        await send(pod, run("Hello"))
        await made.answers(
            "session.interrupt", problem="session.interrupt: agent interrupter not available on this instance"
        )
        assert made.asked() == []
        (error,) = [e["data"] for e in frames(pod) if e["event"] == "error"]
        assert error["code"] == "invalid_request"
        assert "takes no input from other programs" in error["message"]


async def test_inputs_that_wait_for_a_lost_primary_are_refused() -> None:
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod")
        await made.begins()
        await send(pod, run("Hello"))
        await made.primaries[-1].hangs_up()
        assert [e["event"] for e in frames(pod)].count("error") == 1


async def test_a_delete_is_answered_once_although_its_event_comes_first() -> None:
    async with in_memory_pando_gateway() as made:
        caller = made.join("pando")
        await watching(made, ONE)
        await made.opens([], row(ONE))
        write = {"method": "DeleteSession", "params": ONE}
        await send(caller, {"jsonrpc": "2.0", "id": "req-1", "method": "db.write", "params": write})
        assert made.asked() == ["DeleteSession"]
        await made.publishes("session.deleted", **row(ONE))
        await made.answers("DeleteSession")
        assert frames(caller) == [{"jsonrpc": "2.0", "id": "req-1"}]
        assert made.router.sessions == []


async def test_a_session_that_a_client_deleted_is_over_although_the_primary_publishes_nothing() -> None:
    """A primary publishes at most the name of a method of `db.write` (docs/dialects/pando.md, section 4)."""
    async with in_memory_pando_gateway() as made:
        caller, subscriber = made.join("pando"), made.join("pando", publishes=True)
        client = await watching(made, ONE)
        await made.opens([], row(ONE))
        write = {"method": "DeleteSession", "params": ONE}
        await send(caller, {"jsonrpc": "2.0", "id": "req-1", "method": "db.write", "params": write})
        await made.answers("DeleteSession")
        assert [(f["id"], f.get("error")) for f in frames(caller)] == [("req-1", None)]
        assert frames(subscriber)[-1]["topic"] == "session.deleted"
        assert made.router.sessions == []
        await send(client, ask("get_session", "r9", sessionId=ONE))
        await made.answers("session.get", problem="session.get: sql: no rows in result set")
        assert frames(client)[-1]["error"]["code"] == "SESSION_NOT_FOUND"


async def test_a_rename_by_a_smooth_client_has_no_row_and_the_loss_of_counters_is_counted() -> None:
    async with in_memory_pando_gateway() as made:
        client = await watching(made, ONE)
        await made.opens([], row(ONE))
        await send(client, ask("rename_conversation", "r", conversationId=ONE, title="New"))
        await made.answers("UpdateSession", row(ONE, "New"))
        assert frames(client)[-1]["data"] == {"conversationId": ONE, "title": "New"}
        lost = [(entry.kind, entry.field) for entry in made.ledger.entries()]
        assert ("RenameSession", "row") in lost


async def test_an_unlisted_session_is_requested_by_its_own_id() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("smooth")
        await send(client, ask("get_session", "r1", sessionId=ONE))
        await made.begins()
        asked = await made.answers("session.get", row(ONE, "A child"))
        assert asked == {"session_id": ONE}
        assert frames(client)[-1]["type"] == "immediate_response"
        (session,) = made.router.sessions
        assert (session.state.id, session.state.title) == (ONE, "A child")


async def test_a_change_of_the_store_goes_to_subscribers_and_to_no_session() -> None:
    change = {
        "instance_id": "i-1",
        "path": "/",
        "payload": {"method": "CreateFile"},
        "timestamp": "2026-05-09T21:28:20Z",
    }
    async with in_memory_pando_gateway() as made:
        client = await watching(made, ONE)
        await made.begins(row(ONE))
        await made.publishes("db.file.created", topic="db.file.created", **change)
        assert ("StoreChanged", 1) in [(entry.kind, entry.count) for entry in made.ledger.entries()]  # nobody got it
        pando = made.join("pando", publishes=True)
        before = len(frames(client))
        await made.publishes("db.file.created", topic="db.file.created", **change)
        assert [f["payload"]["payload"] for f in frames(pando) if f["topic"] == "db.file.created"] == [
            change["payload"]
        ]
        assert len(frames(client)) == before
        assert ("StoreChanged", 1) in [(entry.kind, entry.count) for entry in made.ledger.entries()]


async def test_the_goal_progress_of_a_codewhale_client_is_not_written_into_the_database_of_a_pando() -> None:
    async with in_memory_pando_gateway() as made:
        client = await made.lists(row(ONE))
        editor = made.join("codewhale")
        await send(client, ask("get_conversation_messages", "h", sessionId=ONE))
        params = {"kind": "goal_record_progress", "thread_id": f"thread-{ONE}", "token_delta": 5}
        before = made.asked()
        await send(editor, {"jsonrpc": "2.0", "id": 1, "method": "thread/request", "params": params})
        (answer,) = frames(editor)
        assert answer["result"]["data"] == {"error": "there is no database here"}
        assert made.asked() == before


async def test_a_history_that_is_still_empty_when_it_is_read_again_is_not_told() -> None:
    change = {"instance_id": "i-2", "path": "/", "payload": {"method": "UpdateSession"}}
    async with in_memory_pando_gateway() as made:
        pod = made.join("pod", ingress=Ingress(session=ONE))
        await made.opens([], row(ONE))
        before = frames(pod)
        await made.publishes("db.session.updated", topic="db.session.updated", **change)
        for _ in range(3):
            await made.time.elapses(TICK)
        await made.answers("session.list", [row(ONE)])
        await made.answers("message.list", [])
        assert frames(pod) == before


async def test_heartbeats_of_the_primary_are_no_loss() -> None:
    async with in_memory_pando_gateway() as made:
        await watching(made, ONE)
        await made.begins(row(ONE))
        await made.publishes("instance.heartbeat", instance_id="i-1", session_count=0, uptime="5s", started_at="")
        assert "Heartbeat" not in [entry.kind for entry in made.ledger.entries()]


async def test_a_publication_of_an_unknown_topic_is_counted_with_its_dialect_and_content() -> None:
    async with in_memory_pando_gateway() as made:
        await watching(made, ONE)
        await made.begins(row(ONE))
        await made.publishes("later.topic", a=1)
        (lost,) = (entry for entry in made.ledger.entries() if entry.kind == "Unmapped")
        assert lost.source == "pando"
        assert "later.topic" in lost.sample


async def test_a_write_of_a_pando_client_reaches_the_store_of_its_pando() -> None:
    """The row is the one of the vectors: rep.db.write.CreateMessage."""
    written = {
        "id": "m-1",
        "session_id": "s-1",
        "role": "user",
        "parts": PARTS,
        "model": {"String": "x", "Valid": True},
    }
    times = {"created_at": 1778362100, "updated_at": 1778362100, "finished_at": {"Int64": 0, "Valid": False}}
    meta = {"source_instance_id": "", "request_id": "w", "timestamp": "2026-05-09T21:28:20Z"}
    async with in_memory_pando_gateway() as made:
        caller = made.join("pando")
        await send(caller, write("CreateMessage", written, meta=meta))
        await made.begins()
        asked = await made.answers("CreateMessage", written | times)
        assert asked == {"meta": meta, "method": "CreateMessage", "params": written}
        assert frames(caller) == [{"jsonrpc": "2.0", "id": "1", "result": written | times}]
        await send(caller, write("DeleteMessage", "m-1"))
        await made.replies("DeleteMessage", {})
        assert frames(caller)[1:] == [{"jsonrpc": "2.0", "id": "1"}]
        assert made.router.sessions == [], "it is nobody's session"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ({"method": "instance.info"}, {"code": -32601, "message": "ipc: method not found"}),
        (
            {"method": "db.write", "params": {"method": "Nope", "params": "f"}},
            {"code": -32000, "message": 'dbproxy handler: unknown write method "Nope"'},
        ),
    ],
)
async def test_a_call_that_the_primary_refuses_is_refused_in_its_words(
    call: dict[str, object], problem: dict[str, object]
) -> None:
    async with in_memory_pando_gateway() as made:
        caller = made.join("pando")
        await send(caller, {"jsonrpc": "2.0", "id": "1", **call})
        await made.begins()
        (asked,) = made.asked()
        await made.replies(asked, {"error": problem})
        assert frames(caller) == [{"jsonrpc": "2.0", "id": "1", "error": problem}]


async def test_a_write_without_an_answer_is_refused_when_the_primary_is_lost() -> None:
    async with in_memory_pando_gateway() as made:
        caller = made.join("pando")
        await send(caller, write("DeleteFile", "f"))
        await made.begins()
        await made.primaries[-1].hangs_up()
        (reply,) = frames(caller)
        assert reply["error"]["code"] == -32000
        assert reply["error"]["message"].startswith("dbproxy: INTERNAL (DeleteFile): ")


async def test_the_gateway_only_observes_a_shipped_primary_because_it_takes_no_input() -> None:
    """Each client receives the refusal in its own dialect, and the turns of the primary's own user
    (docs/translation.md, rule 3.19).
    """
    reason = "message.send: agent runner not available on this instance"
    async with in_memory_pando_gateway() as made:
        smooth, pod, pando = made.join("smooth"), made.join("pod"), made.join("pando")
        await send(smooth, ask("get_session", "open", sessionId=ONE))
        await made.opens([], row(ONE))
        call = {"method": "message.send", "params": {"session_id": ONE, "content": "Hello"}}
        said: tuple[tuple[MemoryTransport, dict[str, object]], ...] = (
            (smooth, ask("send_message", "r1", sessionId=ONE, message="Hello")),
            (pod, run("Hello")),
            (pando, {"jsonrpc": "2.0", "id": "r1", **call}),
        )
        for client, words in said:
            await send(client, words)
            await made.answers("message.send", problem=reason)
        assert [(f["error"]["code"], f["error"]["message"]) for f in frames(smooth) if f["type"] == "error"] == [
            ("UNSUPPORTED_ACTION", reason)
        ]
        assert [e["data"] for e in frames(pod) if e["event"] == "error"] == [
            {"code": "invalid_request", "message": reason}
        ]
        assert [f["error"] for f in frames(pando)] == [{"code": -32000, "message": reason}]
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        await made.answers_each("message.list", [])
        assert [f["token"] for f in frames(smooth) if f["type"] == "stream_token"] == ["Hi"]
        assert [e["data"]["text"] for e in frames(pod) if e["event"] == "text_delta"] == ["Hi"]


async def test_an_input_of_a_parent_that_left_at_once_is_sent_when_the_sessions_are_known() -> None:
    """A parent pod writes the task of its child and closes without reading (docs/dialects/pod.md, section 11)."""
    async with in_memory_pando_gateway() as made:
        parent = made.join("pod")
        parent.say(json.dumps(run("Hello")).encode())
        parent.hang_up()
        await made.begins()
        await made.answers("session.interrupt", {"ok": True})
        await made.answers("CreateSession", row(ONE))
        await made.answers("message.list", [])
        assert (await made.answers("message.send", {"ok": True}))["content"] == "Hello"


async def list_asked(made: InMemoryPandoGateway) -> MemoryTransport:
    """Return a caller that asked for the list of a primary which has a connection and has not listed its sessions."""
    caller = made.join("pando")
    await send(caller, {"jsonrpc": "2.0", "id": "l", "method": "session.list", "params": {}})
    await made.answers("instance.ping", {"status": "ok", "instance_id": "i-1", "uptime": "0s"})
    await made.time.elapses(Limits().snapshot_wait)
    assert frames(caller) == []
    return caller


async def test_a_list_waits_for_a_slow_primary_as_long_as_its_caller_does() -> None:
    async with in_memory_pando_gateway() as made:
        caller = await list_asked(made)
        await made.answers("session.list", [row(ONE)])
        assert frames(caller) == [{"jsonrpc": "2.0", "id": "l", "result": [row(ONE)]}]


async def test_a_list_is_empty_if_the_primary_does_not_list_its_sessions_in_time() -> None:
    async with in_memory_pando_gateway() as made:
        caller = await list_asked(made)
        await made.time.elapses(Limits().open_deadline)
        assert frames(caller) == [{"jsonrpc": "2.0", "id": "l", "result": []}]


async def test_a_list_is_empty_if_the_primary_is_lost_before_it_lists_its_sessions() -> None:
    async with in_memory_pando_gateway() as made:
        caller = await list_asked(made)
        await made.primaries[-1].hangs_up()
        assert frames(caller) == [{"jsonrpc": "2.0", "id": "l", "result": []}]


async def test_a_request_is_taken_once() -> None:
    requests = SharedRequests()
    requests.add("r", SharedRequest(answer=lambda _answer: None))
    assert requests.take("r") is not None
    assert requests.take("r") is None


async def test_an_answer_to_a_session_that_has_ended_is_dropped() -> None:
    async with in_memory_gateway() as made:
        told: list[Burst[Event]] = []
        requests = SharedRequests()
        requests.add("r", SharedRequest(answer=told.append, session=made.session))
        requests.drop_session(made.session)
        request = requests.take("r")
        assert request is not None
        assert request.session is None
        request.answer(Burst(items=[]))
        assert told == []


async def test_a_session_whose_requests_were_answered_leaves_nothing_behind() -> None:
    async with in_memory_gateway() as made:
        requests = SharedRequests()
        requests.add("r", SharedRequest(answer=lambda _answer: None, session=made.session))
        requests.take("r")
        assert not any(vars(requests).values())


class Block:
    def __init__(self, delta: DeltaType = TextDelta) -> None:
        self.delta = delta
        self.texts: list[str] = []

    def add_text(self, text: str, _at: int, _session: str) -> bool:
        self.texts.append(text)
        return True


def test_a_piece_of_a_session_that_streams_no_more_is_not_taken() -> None:
    texts, one = SharedTexts(), Block()
    texts.note("s1", one)
    texts.note("s1", None)
    assert not texts.add_text("a", 0, "s1")


def test_a_piece_of_text_does_not_go_to_open_reasoning() -> None:
    texts, one = SharedTexts(), Block(ReasoningDelta)
    texts.note("s1", one)
    assert not texts.add_text("a", 0, "s1")


def test_no_sink_is_kept_once_they_are_cleared() -> None:
    texts, one = SharedTexts(), Block()
    texts.note("s1", one)
    texts.clear()
    assert not texts.add_text("a", 0, "s1")
