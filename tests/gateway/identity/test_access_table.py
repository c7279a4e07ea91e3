"""The rights of clients on sessions, by action and by client (docs/security.md, section 3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from dragoman.gateway.config.model import Auth
from tests.gateway.identity.test_listeners import ALICE, BOB, WS, gateway
from tests.pairs.gateway import SmoothClient

WATCHER = "watcher-watcher-watcher"
AUTH = Auth(tokens={"alice": ALICE, "bob": BOB, "watcher": WATCHER})
Frame = dict[str, Any]

ACTIONS: dict[str, Frame] = {
    "read": {"action": "get_session"},
    "history": {"action": "get_conversation_messages"},
    "send": {"action": "send_message", "message": "Hi"},
    "answer": {"action": "confirm_tool_action", "approved": True},
}


@asynccontextmanager
async def clients(**options: Any) -> AsyncIterator[tuple[SmoothClient, SmoothClient]]:
    """A session's owner, and another client with a token of its own."""
    async with (
        gateway(WS, auth=AUTH, **options) as (_, (url,)),
        SmoothClient.connected(f"{url}?token={ALICE}") as owner,
        SmoothClient.connected(f"{url}?token={BOB}") as other,
    ):
        yield owner, other


def told(frame: Frame) -> str:
    """Return the code of an error, or the type of a frame."""
    return str(frame["error"]["code"]) if "error" in frame else str(frame["type"])


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_on_a_foreign_session_is_answered_like_one_on_an_unknown_session(action: str) -> None:
    async with clients() as (owner, other):
        unknown = str(uuid4())
        foreign = await other.ask({**ACTIONS[action], "sessionId": owner.session, "requestId": "q"})
        none = await other.ask({**ACTIONS[action], "sessionId": unknown, "requestId": "q"})
        assert "error" in foreign
        same = [str(frame).replace(name, "NAME") for frame, name in ((foreign, owner.session), (none, unknown))]
        assert same[0].partition("timestamp")[0] == same[1].partition("timestamp")[0]
        assert told(foreign) == told(none)


@pytest.mark.parametrize("action", ["read", "history"])
async def test_an_owner_reads_its_session(action: str) -> None:
    async with clients() as (owner, _):
        assert "error" not in await owner.ask({**ACTIONS[action], "sessionId": owner.session})


@pytest.mark.parametrize("action", ["read", "history"])
async def test_another_client_reads_a_session_that_the_route_shares(action: str) -> None:
    async with clients(share="all") as (owner, other):
        assert "error" not in await other.ask({**ACTIONS[action], "sessionId": owner.session})


async def test_a_list_has_only_sessions_of_its_client() -> None:
    async with clients() as (owner, other):
        listing = {"action": "list_conversations"}
        assert "error" not in await owner.ask(listing)
        assert str(await other.ask(listing)).find(owner.session) == -1


@pytest.mark.parametrize("action", ["send", "answer", "open"])
async def test_a_client_without_the_role_gets_the_error_of_its_dialect(action: str) -> None:
    frame = ACTIONS.get(action, {"action": "create_conversation_session", "agentId": str(uuid4())})
    async with gateway(WS, auth=AUTH, share="all", roles={"*": ("watch",)}) as (app, (url,)):
        async with aiohttp.ClientSession() as http, http.ws_connect(f"{url}?token={WATCHER}") as socket:
            await socket.send_json({"requestId": "q", "sessionId": str(uuid4()), **frame})
            answer = await socket.receive_json()
        assert (answer["type"], answer["requestId"], told(answer)) == ("error", "q", "AGENT_NOT_AUTHORIZED")
        assert app.ledger.counters["commands_refused_by_role"] == 1


@pytest.mark.parametrize("query", ["", "?token=wrong-wrong-wrong"], ids=["anonymous", "wrong token"])
async def test_a_client_without_a_principal_opens_no_connection(query: str) -> None:
    async with gateway(WS, auth=AUTH) as (_, (url,)), aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(url + query)
        assert caught.value.status == 401
