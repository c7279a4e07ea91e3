"""R, T and the seed's server behind the gateway: a strict smooth client and a pod client see one conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs

from dragoman.gateway.config.model import Limits
from tests.pairs.gateway import LIMITS, SmoothClient, bridged
from tests.pairs.pod_client import PodClient
from tests.pairs.turn_clients import TurnClient, join
from tests.peers.smooth_server_versions import FLAVOURS, SmoothVersion, SmoothVersionServer
from tests.smooth_frame_check import check
from tests.smooth_shapes import assert_reply

ANSWER = "Well, that is it."
THOUGHT = {"R": "Let me see.", "T": "", "seed": "", "terse": ""}
LISTEN = {"smooth": "smooth+ws://127.0.0.1:0/ws", "pod": "pod+unix:{folder}/atlas/sock"}

AT_ONCE = 20.0  # seconds: well below the cancel_deadline here, which is for servers that know the word
PATIENT = structs.replace(LIMITS, cancel_deadline=60.0)

every = pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=list(FLAVOURS))
both = pytest.mark.parametrize("dialect", LISTEN)


@asynccontextmanager
async def before(
    flavour: SmoothVersion, dialect: str, folder: Path
) -> AsyncIterator[tuple[SmoothVersionServer, TurnClient]]:
    """Connect a client of a dialect to a gateway before this server, which accepts only legal actions."""
    (folder / "atlas").mkdir()
    async with (
        SmoothVersionServer(flavour).serving() as server,
        bridged(server.endpoint, limits=PATIENT, listen=LISTEN[dialect].format(folder=folder)) as (_, url),
        join(dialect, url) as peer,
    ):
        yield server, peer
    assert not server.illegal, server.illegal


@asynccontextmanager
async def before_smooth(
    flavour: SmoothVersion, limits: Limits = LIMITS
) -> AsyncIterator[tuple[SmoothVersionServer, SmoothClient]]:
    async with (
        SmoothVersionServer(flavour).serving() as server,
        bridged(server.endpoint, limits=limits) as (_, url),
        SmoothClient.connected(url) as client,
    ):
        yield server, client
    assert not server.illegal, server.illegal


def of(client: SmoothClient, request: str, kind: str) -> list[dict[str, Any]]:
    """Return the frames of one type and request."""
    return [frame for frame in client.of(request) if frame["type"] == kind]


def ended(client: SmoothClient, request: str) -> bool:
    """Return True if a turn has its terminal."""
    return any(frame["requestId"] == request for frame in client.terminals())


# -- the servers say what the real ones say ---------------------------------------------------------


@asynccontextmanager
async def talking_to(flavour: SmoothVersion) -> AsyncIterator[Any]:
    """Return a function that sends a frame directly to the server and returns the first frame of the answer."""
    async with (
        SmoothVersionServer(flavour).serving() as server,
        aiohttp.ClientSession() as http,
        http.ws_connect(server.url) as socket,
    ):

        async def ask(**frame: Any) -> dict[str, Any]:
            await socket.send_json(frame)
            answer: dict[str, Any] = await socket.receive_json()
            return answer

        yield ask


def code(frame: dict[str, Any]) -> str | None:
    return frame["error"]["code"] if frame["type"] == "error" else None


@pytest.mark.parametrize(("name", "sent"), [("R", True), ("T", False), ("seed", True)])
async def test_a_pong_has_data_except_from_server_t(name: str, sent: bool) -> None:
    async with talking_to(FLAVOURS[name]) as ask:
        assert ("data" in await ask(action="ping", requestId="p")) is sent


@pytest.mark.parametrize(("name", "refusal"), [("R", "VALIDATION_ERROR"), ("T", None), ("seed", "VALIDATION_ERROR")])
async def test_an_input_without_request_id_is_refused_except_by_server_t(name: str, refusal: str | None) -> None:
    async with talking_to(FLAVOURS[name]) as ask:
        session = (await ask(action="create_conversation_session", requestId="c", agentId="a"))["data"]["sessionId"]
        answer = await ask(action="send_message", sessionId=session, message="hello")
        assert code(answer) == refusal
        assert ("requestId" in answer) is (refusal is None), "what is refused for want of an id has none"


@pytest.mark.parametrize(("name", "refusal"), [("R", "VALIDATION_ERROR"), ("T", "SESSION_NOT_FOUND")])
async def test_a_missing_session_id_is_an_unknown_session_to_t(name: str, refusal: str) -> None:
    async with talking_to(FLAVOURS[name]) as ask:
        assert code(await ask(action="get_session", requestId="g")) == refusal


@pytest.mark.parametrize("action", ["cancel", "list_conversations", "submit_interaction", "verify_otp"])
async def test_the_seed_does_not_know_what_came_later(action: str) -> None:
    async with talking_to(FLAVOURS["seed"]) as ask:
        assert code(await ask(action=action, requestId="x")) == "UNSUPPORTED_ACTION"


# -- one conversation -------------------------------------------------------------------------------


@both
@every
async def test_a_conversation_reads_the_same(flavour: SmoothVersion, dialect: str, tmp_path: Path) -> None:
    thought = THOUGHT[flavour.name]
    async with before(flavour, dialect, tmp_path) as (_, peer):
        seen = await peer.turn("hello")
        assert (seen.text, seen.thought, seen.calls, seen.end) == (ANSWER, thought, [], "completed")
        seen = await peer.turn("look up 7")
        assert (seen.text, seen.thought, seen.end) == (ANSWER, thought, "completed")
        assert (seen.calls, seen.results) == (["lookup_order"], 1)
        seen = await peer.turn("fail")
        assert (seen.text, seen.end) == ("I was about to say" if flavour.streams else "", "failed")
        assert (await peer.turn("hello")).text == ANSWER


@every
async def test_a_smooth_client_gets_the_arguments_in_the_form_of_its_server(flavour: SmoothVersion) -> None:
    async with before_smooth(flavour) as (_, client):
        request = await client.turn("look up 7")
        chunks = [frame["data"]["state"].get("rawResponse", {}) for frame in of(client, request, "stream_chunk")]
        (arguments,) = [chunk["toolCall"]["arguments"] for chunk in chunks if "toolCall" in chunk]
        assert arguments == ('{"id": "7"}' if flavour.arguments_as_text else {"id": "7"})


@every
async def test_a_pod_client_gets_the_arguments_as_text(flavour: SmoothVersion, tmp_path: Path) -> None:
    async with before(flavour, "pod", tmp_path) as (_, peer):
        await peer.turn("look up 7")
        (arguments,) = [data["arguments"] for name, data in peer.client.events if name == "tool_call_done"]
        assert json.loads(arguments) == {"id": "7"}


@every
async def test_a_session_and_its_history_have_the_strict_form(flavour: SmoothVersion) -> None:
    async with before_smooth(flavour) as (_, client):
        request = await client.turn("hello")
        described = (await client.ask({"action": "get_session", "sessionId": client.session}))["data"]
        assert_reply("get_session", described)
        assert described["sessionId"] == client.session
        page = (await client.ask({"action": "get_conversation_messages", "sessionId": client.session}))["data"]
        assert_reply("history", page)
        told = [(message["direction"], message["content"]["text"]) for message in page["messages"]]
        assert told == [("outbound", ANSWER), ("inbound", "hello")]
        (terminal,) = of(client, request, "eventual_response")
        assert terminal["data"]["data"]["messageId"] == page["messages"][0]["id"]


@every
async def test_an_unknown_session_that_only_the_server_may_know_is_not_found(flavour: SmoothVersion) -> None:
    async with before_smooth(flavour) as (server, client):
        answer = await client.ask({"action": "get_session", "sessionId": "0b0e9b0e-0000-4000-8000-00000000dead"})
        assert code(answer) == "SESSION_NOT_FOUND"
        assert server.heard[-1]["action"] == "get_session"


@every
async def test_an_input_without_request_id_reaches_the_server_with_one(flavour: SmoothVersion) -> None:
    async with (
        SmoothVersionServer(flavour).serving() as server,
        bridged(server.endpoint) as (_, url),
        aiohttp.ClientSession() as http,
        http.ws_connect(url) as socket,
    ):
        await socket.send_json({"action": "create_conversation_session", "agentId": "a"})
        session = (await socket.receive_json())["data"]["sessionId"]
        await socket.send_json({"action": "send_message", "sessionId": session, "message": "hello"})
        ids = set()
        while (frame := await socket.receive_json())["type"] != "eventual_response":
            check(frame)
            ids.add(frame["requestId"])
        assert len(ids) == 1
        heard = [action["requestId"] for action in server.heard]
        assert len(heard) == len(set(heard)) == 2
        assert all(isinstance(request, str) for request in heard)


@every
async def test_a_failed_turn_keeps_the_servers_code(flavour: SmoothVersion) -> None:
    async with before_smooth(flavour) as (_, client):
        await client.say("fail")
        await client.until(client.terminals)
        assert [code(frame) for frame in client.terminals()] == [flavour.failure]


# -- a write that waits -----------------------------------------------------------------------------


async def park(client: SmoothClient) -> str:
    """Run a turn up to its confirmation."""
    request = await client.say("delete 7")
    await client.until(lambda: bool(of(client, request, "write_confirmation_required")))
    return request


def outcome(client: SmoothClient, request: str) -> tuple[str, bool]:
    """Return the gated tool's result, and whether it is a failure."""
    chunks = [frame["data"]["state"].get("rawResponse", {}) for frame in of(client, request, "stream_chunk")]
    (result,) = [chunk["toolResult"] for chunk in chunks if "toolResult" in chunk]
    return result["result"], result["isError"]


@pytest.mark.parametrize("approved", [True, False])
@every
async def test_a_write_waits_for_its_answer(flavour: SmoothVersion, approved: bool) -> None:
    async with before_smooth(flavour) as (_, client):
        request = await park(client)
        confirm = {"action": "confirm_tool_action", "sessionId": client.session, "approved": approved}
        acknowledged = await client.ask(confirm)
        assert (acknowledged["status"], acknowledged["data"]["approved"]) == (200, approved)
        await client.until(lambda: ended(client, request))
        assert outcome(client, request) == (("Deleted.", False) if approved else ("The user said no.", True))
        assert code(await client.ask(confirm)) == "NO_PENDING_CONFIRMATION"


@pytest.mark.parametrize("name", ["R", "seed"])
async def test_a_write_that_the_server_itself_gave_up_on_is_denied(name: str) -> None:
    async with before_smooth(structs.replace(FLAVOURS[name], park=0.05)) as (_, client):
        request = await park(client)
        await client.until(lambda: ended(client, request))
        assert outcome(client, request) == ("The user said no.", True)
        assert client.terminals()[-1]["type"] == "eventual_response"


def test_server_r_denies_an_unanswered_write_after_five_minutes_and_server_t_never() -> None:
    assert {name: FLAVOURS[name].park for name in ("R", "T", "seed")} == {"R": 300.0, "T": None, "seed": 300.0}


# -- cancel -----------------------------------------------------------------------------------------


async def begun(client: SmoothClient) -> str:
    """Run a turn up to the middle of its answer."""
    request = await client.say("wait")
    await client.until(lambda: bool(of(client, request, "stream_token")))
    return request


@both
@pytest.mark.parametrize("name", ["R", "T"])
async def test_a_cancelled_turn_ends_and_the_next_one_runs(name: str, dialect: str, tmp_path: Path) -> None:
    async with before(FLAVOURS[name], dialect, tmp_path) as (_, peer):
        seen = await peer.turn("wait", cancel_after=1)
        assert (seen.text, seen.end) == ("One moment. ", "cancelled")
        assert (await peer.turn("hello")).text == ANSWER


@both
async def test_a_cancel_toward_the_seed_ends_the_turn_for_the_client(dialect: str, tmp_path: Path) -> None:
    async with asyncio.timeout(AT_ONCE), before(FLAVOURS["seed"], dialect, tmp_path) as (server, peer):
        seen = await peer.turn("wait", cancel_after=1)
        assert (seen.text, seen.end) == ("One moment. ", "cancelled")
        assert not server.release.is_set()


async def accepted(client: SmoothClient) -> str:
    """Send hello until it is accepted; return that request."""
    while True:
        frame = await client.ask({"action": "send_message", "sessionId": client.session, "message": "hello"})
        if frame["type"] == "immediate_response":
            return str(frame["requestId"])
        assert code(frame) == "TURN_IN_PROGRESS"


DEAF = structs.replace(FLAVOURS["R"], name="deaf", deaf=True)


@pytest.mark.parametrize(
    "flavour",
    [FLAVOURS["seed"], DEAF],
    ids=["seed", "deaf"],
)
async def test_new_input_is_busy_until_the_turn_that_was_cancelled_for_its_client_ended(flavour: SmoothVersion) -> None:
    limits = structs.replace(LIMITS, cancel_deadline=0.1)
    async with asyncio.timeout(AT_ONCE), before_smooth(flavour, limits) as (server, client):
        old = await begun(client)
        await client.send({"action": "cancel", "sessionId": client.session})
        await client.until(lambda: ended(client, old))
        assert client.terminals()[-1]["type"] == "cancelled"
        shown = len(client.of(old))
        refused = await client.ask({"action": "send_message", "sessionId": client.session, "message": "hello"})
        assert code(refused) == "TURN_IN_PROGRESS"
        assert "cancelled turn" in refused["error"]["message"], "the text says why"
        server.release.set()
        new = await accepted(client)
        await client.until(lambda: ended(client, new))
        tokens = [frame["token"] for frame in of(client, new, "stream_token")]
        assert "".join(tokens) == ANSWER, "nothing of the old turn is in the new one"
        assert len(client.of(old)) == shown, "nothing of the old turn after its end"


async def test_a_pod_client_is_told_why_its_input_waits_for_a_cancelled_turn(tmp_path: Path) -> None:
    async with asyncio.timeout(AT_ONCE), before(FLAVOURS["seed"], "pod", tmp_path) as (_, peer):
        await peer.turn("wait", cancel_after=1)
        client: PodClient = peer.client
        told = len(client.events)
        await client.say("hello")
        await client.until(lambda: "error" in client.names()[told:])
        assert client.events[-1][1]["code"] == "already_running"
        assert "cancelled turn" in client.events[-1][1]["message"]


# -- what the seed does not have --------------------------------------------------------------------


async def test_the_gateway_lists_conversations_for_a_server_that_cannot() -> None:
    async with before_smooth(FLAVOURS["seed"]) as (_, client):
        await client.turn("hello")
        listed = (await client.ask({"action": "list_conversations"}))["data"]
        assert_reply("conversations", listed)
        assert [row["title"] for row in listed["conversations"]] == ["hello"]


async def test_an_answer_to_a_form_that_the_seed_never_shows_is_refused_and_ends_nothing() -> None:
    async with before_smooth(FLAVOURS["seed"]) as (server, client):
        turn = await begun(client)
        form = {"action": "submit_interaction", "sessionId": client.session, "interactionId": "i", "values": {}}
        assert code(await client.ask(form)) in ("UNSUPPORTED_ACTION", "NO_PENDING_INTERACTION")
        server.release.set()
        await client.until(lambda: ended(client, turn))
        assert of(client, turn, "eventual_response")


async def test_a_session_has_one_turn_also_where_the_server_would_run_two() -> None:
    async with before_smooth(FLAVOURS["seed"]) as (server, client):
        turn = await begun(client)
        second = await client.ask({"action": "send_message", "sessionId": client.session, "message": "hello"})
        assert code(second) == "TURN_IN_PROGRESS"
        assert [frame["message"] for frame in server.heard if frame["action"] == "send_message"] == ["wait"]
        server.release.set()
        await client.until(lambda: ended(client, turn))


@every
async def test_a_server_that_was_restarted_is_asked_for_the_conversation_again(flavour: SmoothVersion) -> None:
    async with before_smooth(flavour) as (server, client):
        conversation = server.sessions[client.session].ids["conversationId"]
        await client.turn("before")
        await server.forget()
        client.oracle.forgotten = not flavour.resumes
        new = await client.turn("hello")
        assert of(client, new, "eventual_response"), client.of(new)
        (session,) = server.sessions.values()
        assert (session.ids["conversationId"] == conversation) is flavour.resumes
        assert [frame["conversationId"] for frame in server.heard if "conversationId" in frame] == [conversation]
        line = of(client, new, "stream_token")[0]["token"]
        assert ("the backend has forgotten the conversation" in line) is not flavour.resumes
