"""The rights of clients on sessions: dialect, action, and who asks (docs/security.md, section 3).

client      is told
owner       what the action gives
other       what it is told of a session that does not exist, byte for byte except for the name and the time
outsider    nothing: it opens no connection, or is refused in its dialect before it is shown anything
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import aiohttp
import jwt
import pytest
from structlog.testing import capture_logs

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Auth, Jwt
from tests.gateway.identity.running import ALICE, BOB, WS, gateway
from tests.pairs.gateway import SmoothClient
from tests.pairs.pando_client import PandoClient, RefusalError
from tests.pairs.pod_client import PodClient

WATCHER = "watcher-watcher-watcher"
SECRET = "s" * 40
AUTH = Auth(
    tokens={"alice": ALICE, "bob": BOB, "watcher": WATCHER}, jwt=Jwt(secret=SECRET, audience="dragoman", leeway=0.0)
)
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
Frame = dict[str, Any]

ACTIONS: dict[str, Frame] = {
    "read": {"action": "get_session"},
    "history": {"action": "get_conversation_messages"},
    "send": {"action": "send_message", "message": "Hi"},
    "answer": {"action": "confirm_tool_action", "approved": True},
    "code": {"action": "verify_otp", "code": "123456"},
    "form": {"action": "submit_interaction", "interactionId": "i", "kind": "identity_form", "values": {}},
}
METHODS: dict[str, Frame] = {
    "thread/read": {},
    "thread/resume": {},
    "thread/fork": {},
    "thread/message": {"input": "Hi"},
    "thread/archive": {},
    "thread/unarchive": {},
    "thread/set_name": {"name": "mine"},
    "thread/goal/get": {},
    "thread/goal/set": {"objective": "win"},
    "thread/interrupt": {},
}
POD_METHODS: tuple[Frame, ...] = (
    {"method": "run", "params": {"input": [{"kind": "text", "content": "Hi"}]}},
    {"method": "cancel"},
    {"method": "pause"},
    {"method": "shutdown"},
    {"method": "list_visible_pods"},
)


@asynccontextmanager
async def clients(**options: Any) -> AsyncIterator[tuple[SmoothClient, SmoothClient]]:
    """Connect the owner of a session, and another client with its own token."""
    async with (
        gateway(WS, auth=AUTH, **options) as (_, (url,)),
        SmoothClient.connected(f"{url}?token={ALICE}") as owner,
        SmoothClient.connected(f"{url}?token={BOB}") as other,
    ):
        yield owner, other


@asynccontextmanager
async def beside(listener: str) -> AsyncIterator[tuple[App, SmoothClient]]:
    """The owner of a session, in a gateway that also listens at a Unix socket: its user is somebody else."""
    async with (
        gateway(WS, listener, auth=AUTH) as (app, (url, _)),
        SmoothClient.connected(f"{url}?token={ALICE}") as owner,
    ):
        yield app, owner


def without(text: str, name: str) -> str:
    """Return a frame with this name and its time replaced."""
    return re.sub(r'"timestamp":\d+', '"timestamp":0', text.replace(name, "NAME"))


async def first_frame(socket: aiohttp.ClientWebSocketResponse, frame: Frame) -> str:
    """Send a frame; return the first one that arrives then."""
    await socket.send_json({"requestId": "q", **frame})
    return str(await socket.receive_str())


async def first_line(path: Path, method: str, params: Frame) -> str:
    """Call a method of a codewhale over a connection of its own; return the first line of the answer."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
    line = await reader.readline()
    writer.close()
    return line.decode()


async def test_an_action_on_a_foreign_session_is_answered_like_one_on_an_unknown_session() -> None:
    unknown = str(uuid4())
    async with (
        gateway(WS, auth=AUTH) as (_, (url,)),
        SmoothClient.connected(f"{url}?token={ALICE}") as owner,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}?token={BOB}") as other,
    ):
        for action, frame in ACTIONS.items():
            foreign = await first_frame(other, {**frame, "sessionId": owner.session})
            none = await first_frame(other, {**frame, "sessionId": unknown})
            assert "error" in foreign, action
            assert without(foreign, owner.session) == without(none, unknown), action


async def test_a_client_that_attaches_to_a_foreign_conversation_gets_a_new_one() -> None:
    async with clients() as (owner, other):
        own = (await owner.ask({"action": "get_session", "sessionId": owner.session}))["data"]["conversationId"]
        wanted = {"action": "create_conversation_session", "agentId": str(uuid4())}
        opened = await other.ask({**wanted, "conversationId": own})
        unknown = await other.ask({**wanted, "conversationId": str(uuid4())})
        assert not {*opened["data"].values()} & {owner.session, own}
        assert without_ids(opened) == without_ids(unknown)


def without_ids(frame: Frame) -> str:
    """Return a frame without the id of its request and its time, and with each UUID replaced."""
    rest = {name: value for name, value in frame.items() if name not in ("requestId", "timestamp")}
    return re.sub(UUID, "NAME", json.dumps(rest))


@pytest.mark.parametrize("place", ["foreign", "unknown"])
async def test_a_cancel_of_a_foreign_session_is_answered_with_nothing_as_one_of_an_unknown_session(place: str) -> None:
    async with clients() as (owner, other):
        await owner.say("count 5")
        await owner.until(lambda: any(frame["type"] == "stream_token" for frame in owner.frames))
        seen = len(other.frames)
        await other.send({"action": "cancel", "sessionId": owner.session if place == "foreign" else str(uuid4())})
        assert "error" in await other.ask({"action": "get_session", "sessionId": owner.session}), "the cancel was read"
        assert len(other.frames) == seen + 1, "only the answer to the last request"
        await owner.until(owner.terminals)
        assert [frame["type"] for frame in owner.terminals()] == ["eventual_response"]


async def test_a_method_on_a_foreign_thread_is_answered_like_one_on_an_unknown_thread(tmp_path: Path) -> None:
    path, unknown = tmp_path / "sock", f"thread-{uuid4()}"
    async with beside(f"codewhale+unix:{path}") as (app, owner):
        (session,) = app.routers[0].sessions
        foreign = f"thread-{session.state.id}"
        for method, params in METHODS.items():
            answers = [await first_line(path, method, {"thread_id": name, **params}) for name in (foreign, unknown)]
            assert without(answers[0], foreign) == without(answers[1], unknown), method
            assert owner.session not in answers[0], method


async def test_a_list_of_threads_has_none_of_others(tmp_path: Path) -> None:
    async with beside(f"codewhale+unix:{tmp_path}/sock") as (_, owner):
        await owner.turn("count 3")
        assert len((await owner.ask({"action": "list_conversations"}))["data"]["conversations"]) == 1
        listed = await first_line(tmp_path / "sock", "thread/list", {})
        assert json.loads(listed)["result"]["threads"] == []


@pytest.mark.parametrize("method", [None, *POD_METHODS], ids=lambda method: method["method"] if method else "connect")
async def test_a_pod_client_at_the_socket_of_a_foreign_session_is_shown_nothing(method: Frame | None) -> None:
    async with in_a_directory() as (folder, app, owner):
        (session,) = app.routers[0].sessions
        reader, writer = await asyncio.open_unix_connection(f"{folder}/{session.state.id}/sock")
        with contextlib.suppress(ConnectionError):  # it may have been disconnected already
            writer.write(json.dumps(method).encode() + b"\n" if method else b"")
            await writer.drain()
        said = await reader.read()
        writer.close()
        assert "error" not in await owner.ask({**ACTIONS["read"], "sessionId": owner.session}), "it lives"
    assert json.loads(said) == {
        "event": "error",
        "data": {"code": "invalid_request", "message": "there is no session here for you"},
    }


@pytest.mark.parametrize("method", ["inspect_pod", "attach_or_restore_pod"])
async def test_a_request_for_a_foreign_pod_is_answered_like_one_for_an_unknown_pod(method: str) -> None:
    unknown = str(uuid4())
    async with in_a_directory() as (folder, app, _):
        (session,) = app.routers[0].sessions
        foreign = session.state.id
        answers = [await pod_answer(f"{folder}/test/sock", method, {"name": name}) for name in (foreign, unknown)]
    assert '"error"' in answers[0]
    assert without(answers[0], foreign) == without(answers[1], unknown)


async def test_a_list_of_pods_has_none_of_others() -> None:
    async with in_a_directory() as (folder, app, _):
        (session,) = app.routers[0].sessions
        listed = await pod_answer(f"{folder}/test/sock", "list_visible_pods")
    assert '"visible_pods"' in listed
    assert session.state.id not in listed


@asynccontextmanager
async def in_a_directory() -> AsyncIterator[tuple[str, App, SmoothClient]]:
    """The owner of a session that had a turn, beside a directory of pods whose user is somebody else."""
    with TemporaryDirectory() as folder:  # a path below `tmp_path` would be too long for a socket
        async with beside(f"pod+dir:{folder}") as (app, owner):
            await owner.turn("count 3")
            yield folder, app, owner


async def pod_answer(path: str, method: str, params: Frame | None = None) -> str:
    """Call a method of the pod of this user; return the first line that is not about its session."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(json.dumps({"method": method, **({"params": params} if params else {})}).encode() + b"\n")
    while json.loads(line := (await reader.readline()).decode())["event"] in ("snapshot", "status"):
        pass
    writer.close()
    return line


@pytest.mark.parametrize(("share", "refused"), [("owner", [False, True]), ("all", [False, False])])
async def test_a_session_is_read_by_its_owner_and_by_others_only_if_the_route_shares_it(
    share: str, refused: list[bool]
) -> None:
    async with clients(share=share) as (owner, other):
        for action in ("read", "history"):
            answers = [await one.ask({**ACTIONS[action], "sessionId": owner.session}) for one in (owner, other)]
            assert ["error" in answer for answer in answers] == refused, action


async def test_a_list_has_only_sessions_of_its_client() -> None:
    async with clients() as (owner, other):
        await owner.turn("count 3")
        listed = [(await one.ask({"action": "list_conversations"}))["data"]["conversations"] for one in (owner, other)]
        assert [len(rows) for rows in listed] == [1, 0]


@pytest.mark.parametrize("action", ["send", "answer", "open"])
async def test_a_client_without_the_role_gets_the_error_of_its_dialect(action: str) -> None:
    frame = ACTIONS.get(action, {"action": "create_conversation_session", "agentId": str(uuid4())})
    async with gateway(WS, auth=AUTH, share="all", roles={"*": ("watch",)}) as (app, (url,)):
        async with aiohttp.ClientSession() as http, http.ws_connect(f"{url}?token={WATCHER}") as socket:
            await socket.send_json({"requestId": "q", "sessionId": str(uuid4()), **frame})
            answer = await socket.receive_json()
        assert (answer["requestId"], answer["error"]["code"]) == ("q", "AGENT_NOT_AUTHORIZED")
        assert app.ledger.counters["refused_command_role"] == 1


@pytest.mark.parametrize("method", ["thread/archive", "thread/unarchive"])
@pytest.mark.parametrize("role", ["close", "send"])
async def test_a_codewhale_client_puts_a_thread_away_only_with_the_role_close(
    method: str, role: str, tmp_path: Path
) -> None:
    path = tmp_path / "sock"
    async with gateway(f"codewhale+unix:{path}", auth=Auth(), roles={"*": ("open", role)}) as (app, _):
        opened = json.loads(await first_line(path, "thread/start", {}))
        answer = json.loads(await first_line(path, method, {"thread_id": opened["result"]["thread"]["id"]}))
        assert app.ledger.counters["refused_command_role"] == (role != "close")
        assert ("it needs the role `close`" in str(answer)) == (role != "close")


@pytest.mark.parametrize("role", ["close", "send"])
async def test_a_pando_client_deletes_a_session_only_with_the_role_close(role: str) -> None:
    async with (
        gateway("pando+tcp://127.0.0.1:0", auth=Auth(), roles={"local": ("open", role)}) as (app, (address,)),
        PandoClient.connected(address) as client,
    ):
        with pytest.raises(RefusalError) if role != "close" else contextlib.nullcontext():
            await client.write("DeleteSession", client.session)
        assert app.ledger.counters["refused_command_role"] == (role != "close")


async def test_without_the_role_open_a_known_conversation_is_shown_and_an_unknown_name_opens_none() -> None:
    roles = {"token:alice": ("send", "open"), "*": ("watch",)}
    create = {"action": "create_conversation_session", "agentId": str(uuid4())}
    async with (
        gateway(WS, auth=AUTH, share="all", roles=roles) as (app, (url,)),
        SmoothClient.connected(f"{url}?token={ALICE}") as owner,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}?token={WATCHER}") as watcher,
    ):
        (known,) = {session.state.id for router in app.routers for session in router.sessions}
        answers = [json.loads(await first_frame(watcher, {**create, "conversationId": name})) for name in (known, "?")]
        assert [answer["type"] for answer in answers] == ["immediate_response", "error"]
        assert (answers[0]["data"]["conversationId"], answers[1]["error"]["code"]) == (known, "SESSION_NOT_FOUND")
        assert {session.state.id for router in app.routers for session in router.sessions} == {known}
        assert owner.session


@pytest.mark.parametrize("role", ["answer", "send"])
async def test_an_input_that_answers_a_question_in_words_needs_the_role_answer(role: str, tmp_path: Path) -> None:
    path = tmp_path / "sock"
    roles = {"token:alice": ("send", "open"), "*": (role,)}
    async with (
        gateway(WS, f"pod+unix:{path}?session=latest", auth=AUTH, share="all", roles=roles) as (app, (url, _)),
        SmoothClient.connected(f"{url}?token={ALICE}") as owner,
    ):
        await owner.say("approve")
        await owner.until(lambda: owner.frames[-1]["type"] == "write_confirmation_required")
        async with PodClient.connected(str(path)) as other:
            await other.until(lambda: ("status", {"status": "paused"}) in other.events)
            await other.say("approve")
            await other.until(lambda: {"turn_end", "error"} & set(other.names()))
            assert ("it needs the role `answer`" in str(other.events)) == (role != "answer")
        assert bool(owner.terminals()) == (role == "answer")
        assert app.ledger.counters["refused_command_role"] == (role != "answer")


async def test_the_names_of_a_token_and_of_a_subject_are_two_principals() -> None:
    signed = jwt.encode({"sub": "alice", "aud": "dragoman", "exp": time.time() + 600}, SECRET, "HS256")
    async with (
        gateway(WS, auth=AUTH) as (_, (url,)),
        SmoothClient.connected(f"{url}?token={ALICE}") as named,
        SmoothClient.connected(f"{url}?token={signed}") as other,
    ):
        assert "error" in await other.ask({"action": "get_session", "sessionId": named.session})


@pytest.mark.parametrize("dialect", ["pod", "codewhale"])
async def test_a_user_without_a_principal_is_refused_in_its_dialect(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "sock"
    with capture_logs():
        async with gateway(f"{dialect}+unix:{path}?uid={os.getuid() + 1}", WS, auth=AUTH) as (app, _):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b'{"jsonrpc":"2.0","id":1,"method":"thread/list","params":{}}\n')
            said = await reader.read()
            writer.close()
    assert b"your user may not use this socket" in said
    assert not any(word in said for word in (b"threads", b"snapshot"))
    assert app.ledger.counters["refused_client_authentication"] == 1
