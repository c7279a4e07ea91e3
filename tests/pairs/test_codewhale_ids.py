"""The ids of codewhale threads are the same for clients of all dialects, and after a restart of the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from dragoman.gateway.endpoint import parse
from tests.pairs.codewhale_child import child
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import SmoothClient
from tests.pairs.pando_client import PandoClient
from tests.pairs.recorded import served


@asynccontextmanager
async def gateway(dialect: str, folder: Path, recording: Path | None = None) -> AsyncIterator[str]:
    """Run a gateway before children that share one store."""
    upstream = parse(child(str(uuid4()), folder))
    async with served(dialect, upstream, folder / uuid4().hex[:8], recording) as url:
        yield url.removeprefix("unix:")


async def opened(client: SmoothClient, **keys: Any) -> tuple[str, str]:
    """Open a session as a smooth client; return the ids of the conversation and of the session."""
    request = {"action": "create_conversation_session", "agentId": str(uuid4()), "supports": [], **keys}
    data = (await client.ask(request))["data"]
    return data["conversationId"], data["sessionId"]


async def test_a_thread_has_one_id_in_every_dialect_and_in_each_new_gateway(tmp_path: Path) -> None:
    async with gateway("codewhale", tmp_path) as url, CodewhaleClient.connected(url) as editor:
        thread = editor.thread
    async with gateway("smooth", tmp_path) as url, SmoothClient.connected(url) as widget:
        conversation, session = await opened(widget, conversationId=thread.removeprefix("thread-"))
        assert f"thread-{conversation}" == thread
    async with gateway("smooth", tmp_path) as url, SmoothClient.connected(url) as widget:
        again = await widget.ask({"action": "get_session", "sessionId": session})
        assert again["data"]["conversationId"] == conversation
    async with gateway("pando", tmp_path) as url, PandoClient.connected(url, "") as viewer:
        await viewer.call("session.activate", session_id=conversation)
        rows = await viewer.call("session.list")
        assert conversation in [row["id"] for row in rows], "opened here, though the store has no message of it"


async def test_an_unknown_id_is_not_found_in_any_dialect(tmp_path: Path) -> None:
    unknown = str(uuid4())
    async with gateway("smooth", tmp_path) as url, SmoothClient.connected(url) as widget:
        answer = await widget.ask({"action": "get_session", "sessionId": unknown})
        assert answer["error"]["code"] == "SESSION_NOT_FOUND"
        create = {"action": "create_conversation_session", "agentId": unknown, "conversationId": unknown}
        assert (await widget.ask(create))["error"]["code"] == "SESSION_NOT_FOUND"
    async with gateway("codewhale", tmp_path) as url, CodewhaleClient.connected(url, "") as editor:
        assert (await editor.ask("thread/resume", thread_id=f"thread-{unknown}"))["error"]["code"] == -32004


async def test_a_recording_has_the_id_of_the_thread_and_the_request_that_opened_it(tmp_path: Path) -> None:
    recording = tmp_path / "kept"
    async with gateway("codewhale", tmp_path, recording) as url, CodewhaleClient.connected(url) as editor:
        thread = editor.thread
        await editor.answer(await editor.say("hello"))
    (kept,) = [path for path in recording.iterdir() if thread.removeprefix("thread-") in path.name]
    assert "thread/start" in kept.read_text("utf-8")
