"""Sessions that clients open, resume and see: by a name, or their own; a foreign one is like an unknown one."""

from __future__ import annotations

import pytest

from dragoman.gateway.config.model import Limits
from dragoman.gateway.link import COUNTED
from dragoman.mappings.canonical.commands import GetHistory
from tests.gateway import smooth_server_messages as smooth_server
from tests.gateway.backends.in_memory_pando import frames, in_memory_pando_gateway, row
from tests.gateway.backends.in_memory_pando import send as sends
from tests.gateway.codewhale_messages import answers
from tests.gateway.codewhale_messages import shown as thread_shown
from tests.gateway.in_memory import InMemoryGateway, in_memory_gateway
from tests.gateway.pod_messages import delta, run, snapshot, took
from tests.gateway.smooth_client_messages import (
    AGENT,
    CONVERSATION,
    CREATE,
    SHOWN,
    Frame,
    accepted,
    ask,
    error,
    history,
    opened,
    reply,
    send,
    token,
)
from tests.gateway.talked import talked
from tests.idle import settle

UNKNOWN = "0198c3a1-0000-4000-8000-00000000dead"


async def test_creating_twice_gives_the_same_session_and_attaches_once() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .sends("a", CREATE | {"requestId": "again"})
            .receives("a", opened("again"))
            .pod_sends(*took("Hi"), delta("once"))
            .receives("a", token("$turn", "once"))
        )


@pytest.mark.parametrize("known", [CONVERSATION, UNKNOWN])
async def test_resuming_a_conversation_gives_the_single_session_of_the_backend(known: str) -> None:
    async with in_memory_gateway() as made:
        await made.connects("a").sends("a", CREATE | {"conversationId": known}).receives("a", opened("open"))


async def test_a_backend_with_one_session_is_busy_for_clients_that_do_not_own_it() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .connects("eve", principal="eve")
            .sends("eve", CREATE)
            .receives("eve", error("open", "TURN_IN_PROGRESS"))
        )
        assert made.dialled == 1


async def test_opening_attaches_to_the_session_of_another_owner_if_the_route_says_so() -> None:
    async with in_memory_gateway(share="owner", open="attach") as made:
        await (
            talked(made)
            .connects("eve", principal="eve")
            .sends("eve", CREATE)
            .receives("eve", opened("open"))
            .sends("eve", history("h"))
            .receives("eve", reply("h", hasMore=False))
        )
        assert made.session.state.owner == "local"


async def test_options_of_a_new_session_that_a_client_cannot_send_come_from_the_endpoint() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        made.join("a").sends(CREATE)
        await settle()
        (start,) = [frame for frame in made.pod.news() if frame["method"] == "thread/start"]
        assert (start["params"]["cwd"], start["params"]["model"]) == ("/src", "whale-1")


@pytest.mark.parametrize("request_id", ["open", "again"])
async def test_the_answer_has_the_agent_that_a_client_asked_a_backend_without_agents_for(request_id: str) -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        client = made.join("a")
        client.sends(CREATE)
        await answers(made, "thread/start", **thread_shown(f"thread-{KEPT}", "started"))
        if request_id == "again":
            client.sends(ask("get_session", request_id) | {"sessionId": KEPT})
            await settle()
        assert client.news()[-1]["data"]["agentId"] == AGENT


@pytest.mark.parametrize("name", [SHOWN, CONVERSATION])
async def test_sessionid_and_conversationid_both_name_the_session(name: str) -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", {"action": "get_session", "requestId": "g", "sessionId": name})
            .receives("a", opened("g"))
            .sends("a", send("r1", "Hi") | {"sessionId": name})
            .pod_sends(snapshot(), *took("Hi"))
            .receives("a", accepted("r1"))
            .pod_receives(run("Hi"))
        )


@pytest.mark.parametrize(
    "action",
    [
        ask("get_session", "x"),
        ask("send_message", "x", message="Hi"),
        ask("get_conversation_messages", "x"),
    ],
    ids=lambda action: str(action["action"]),
)
async def test_an_unknown_session_is_not_found(action: Frame) -> None:
    async with in_memory_gateway() as made:
        await (
            made.connects("a")
            .sends("a", action | {"sessionId": UNKNOWN})
            .receives("a", error("x", "SESSION_NOT_FOUND"))
        )
        assert made.dialled == 0


async def test_the_refusal_of_a_session_repeats_only_the_beginning_of_a_long_name() -> None:
    async with in_memory_gateway() as made:
        await made.connects("a")
        client = made.clients["a"]
        await client.says(ask("get_session", "x") | {"sessionId": "s" * 100_000})
        (answer,) = client.news()
        assert answer["error"]["message"] == f"session '{'s' * 200}'... not found"


async def test_a_command_without_a_session_means_the_session_of_its_link() -> None:
    async with in_memory_gateway() as made:
        await made.opens("a").connects("b")
        for name in "ab":
            made.clients[name].send_directly(made.router, GetHistory(request="h"), "get_conversation_messages")
        await settle()
        await made.script().receives("a", reply("h", messages=[])).receives("b", error("h", "SESSION_NOT_FOUND"))


async def test_the_agent_that_a_client_named_is_shown_to_the_next_one() -> None:
    async with in_memory_gateway() as made:
        await (
            made.opens("a")
            .connects("b")
            .sends("b", ask("get_session", "g"))
            .receives("b", reply("g", agentId=AGENT, status="idle"))
        )


async def test_a_session_of_another_owner_is_not_shown_on_a_pod_listener() -> None:
    async with in_memory_gateway(share="owner") as made:
        await talked(made)
        made.join("eve", principal="eve", dialect="pod")
        await settle()
        (frame,) = made.clients["eve"].news()
        assert (frame["event"], frame["data"]["code"]) == ("error", "invalid_request")
        assert not made.clients["eve"].link.alive


# -- a history that is a part of the answer --------------------------------------------------------------

KEPT = "0b0e9b0e-0000-4000-8000-000000000001"
STORED = [
    {"id": "m0", "role": "user", "content": "Hi", "created_at": "2026-05-09T23:28:20Z"},
    {"id": "m1", "role": "assistant", "content": "Hello", "created_at": "2026-05-09T23:28:20Z"},
]


@pytest.mark.parametrize("method", ["thread/resume", "thread/read"])
async def test_a_codewhale_client_that_opens_a_stored_session_is_shown_its_history(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of both has the history (docs/dialects/codewhale.md, section 3), which a pando is asked for then."""
    async with in_memory_pando_gateway() as made:
        spent: list[int] = []
        monkeypatch.setattr(made.services.queue, "spend", spent.append)
        client = made.join("codewhale")
        await sends(client, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"thread_id": f"thread-{KEPT}"}})
        await made.begins(row(KEPT))
        assert frames(client) == []
        await made.answers("message.list", STORED)
        (answer,) = frames(client)
        assert [item["content"] for item in answer["result"]["data"]["history"]] == ["Hi", "Hello"]
        assert len(STORED) * COUNTED in spent, "the messages before the newest ones are counted for their numbers"


async def test_a_codewhale_client_is_answered_also_if_no_history_comes() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("codewhale")
        resume = {"jsonrpc": "2.0", "id": 1, "method": "thread/resume", "params": {"thread_id": f"thread-{KEPT}"}}
        await sends(client, resume)
        await made.begins(row(KEPT))
        await made.time.elapses(Limits().open_deadline)
        (answer,) = frames(client)
        assert (answer["result"]["status"], answer["result"]["data"]["history"]) == ("resumed", [])


# -- a smooth server's open conversation, resumed with details of the user --------------------------

KNOWN = {"userName": "Ann", "userEmail": "ann@example.com", "metadata": {"k": 1}, "supports": ["choice_chips"]}
PROOF = {"userId": "ann", "signature": "00", "timestamp": 1}
RESUME = CREATE | {"requestId": "again", "conversationId": smooth_server.CONVERSATION}


def shown(request: str, session: str = smooth_server.SERVER_SESSION) -> Frame:
    """Return the response that describes the smooth server's conversation."""
    return reply(request, sessionId=session, conversationId=smooth_server.CONVERSATION)


async def opened_on_smooth(made: InMemoryGateway) -> None:
    """Open a conversation of the smooth server for client `a`, who tells these details."""
    await (
        made.connects("a")
        .sends("a", CREATE | KNOWN)
        .server_receives({**smooth_server.create("$open"), "supports": KNOWN["supports"]})
        .server_sends(smooth_server.acknowledged("$open", **smooth_server.CREATED))
        .receives("a", shown("open"))
    )


@pytest.mark.parametrize("details", [{}, KNOWN, {"supports": []}], ids=["none", "the same", "fewer forms"])
async def test_a_client_that_brings_nothing_new_is_shown_the_open_conversation_at_once(details: Frame) -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await opened_on_smooth(made)
        await made.connects("b").sends("b", RESUME | details).receives("b", shown("again"))


@pytest.mark.parametrize(
    "details",
    [
        {"userEmail": "bob@example.com"},
        {"userName": "Bob"},
        {"metadata": {}},
        {"supports": ["identity_form"]},
        {"authContext": PROOF},
        {"agentId": UNKNOWN},
    ],
)
async def test_a_create_with_further_details_reaches_the_smooth_server_and_has_its_answer(details: Frame) -> None:
    create = {**smooth_server.create("$c"), "supports": None, "conversationId": smooth_server.CONVERSATION, **details}
    later = smooth_server.CREATED | {"sessionId": UNKNOWN}
    async with in_memory_gateway(upstream="smooth") as made:
        await opened_on_smooth(made)
        script = made.connects("b")
        for name in "$1", "$2":  # a refused create changes nothing, so the next one is no repetition
            script = script.sends("b", RESUME | details).server_receives(create | {"requestId": name})
            script = script.server_sends(smooth_server.problem(name, "AUTH_CONTEXT_INVALID"))
            script = script.receives("b", error("again", "AUTH_CONTEXT_INVALID"))
        await (
            script.sends("b", RESUME | details)
            .server_receives(create)
            .server_sends(smooth_server.acknowledged("$c", **later))
            .receives("b", shown("again", UNKNOWN))
            .sends("a", send("r", "Hi") | {"sessionId": smooth_server.SERVER_SESSION})
            .server_receives({"action": "send_message", "sessionId": UNKNOWN})
        )


async def test_a_slow_client_gets_the_end_of_its_turn_although_it_resumes_with_further_details() -> None:
    async with in_memory_gateway(upstream="smooth", limits=Limits(outbox_soft=1000)) as made:
        await opened_on_smooth(made)
        script = made.script().sends("a", send("r", "Hi") | {"sessionId": smooth_server.SERVER_SESSION})
        script = script.server_receives(smooth_server.told("$r", "Hi")).server_sends(smooth_server.taken("$r"))
        script = script.receives("a", accepted("r")).stops_reading("a")
        for _ in range(20):
            script = script.server_sends(smooth_server.said("$r", "x" * 50))
        await (
            script.server_sends(smooth_server.answered("$r", "x" * 1000))
            .sends("a", RESUME | {"userEmail": "bob@example.com"})
            .server_receives({"requestId": "$c", "userEmail": "bob@example.com"})
            .server_sends(smooth_server.acknowledged("$c", **smooth_server.CREATED))
            .ignores("a")
        )
        made.clients["a"].transport.reading.set()
        await settle()
        ends = [frame["requestId"] for frame in made.clients["a"].news() if frame["type"] != "stream_token"]
        assert sorted(ends) == ["again", "r"]


async def test_a_create_that_names_no_user_has_the_one_of_the_upstream() -> None:
    async with in_memory_gateway(upstream="smooth+ws://127.0.0.1:2/ws?user=Desk") as made:
        await opened_on_smooth(made)
        script = made.connects("b").sends("b", RESUME | {"authContext": PROOF})
        await script.server_receives({"requestId": "$c", "userName": "Desk", "authContext": PROOF})


async def test_a_client_that_may_only_watch_changes_no_open_conversation() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await opened_on_smooth(made)
        made.join("b").link.roles = frozenset({"watch"})
        await made.script().sends("b", RESUME | {"userEmail": "bob@example.com"}).receives("b", shown("again"))
