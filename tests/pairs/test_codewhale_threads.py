"""Codewhale threads have the same ids for clients of all dialects and after a restart of the gateway, and a history.

A real server of 0.9.10 stores no message, and reads nothing but interrupts during a turn (docs/dialects/codewhale.md,
sections 1.4 and 3). So the gateway answers from what it saw itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dragoman.gateway.endpoint import parse
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.plan import read_plan
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.values import flatten
from tests.pairs.codewhale_child import child
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import SmoothClient, bridged
from tests.pairs.pando_client import PandoClient
from tests.pairs.recorded import LIMITS, served
from tests.pairs.table import DIALECTS, LISTEN
from tests.pairs.turn_clients import TurnClient, join


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


async def test_the_settings_of_a_resume_are_repeated_to_the_client_that_asked_for_them(tmp_path: Path) -> None:
    settings = {"approval_policy": "never", "sandbox": "read-only"}
    async with gateway("codewhale", tmp_path) as url, CodewhaleClient.connected(url) as editor:
        resumed = await editor.call("thread/resume", thread_id=editor.thread, **settings)
        again = await editor.call("thread/resume", thread_id=editor.thread)
    assert (settings.items() <= resumed.items(), settings.keys() & again.keys()) == (True, set())


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


async def test_a_recording_begins_with_the_input_that_opened_its_session(tmp_path: Path) -> None:
    """A smooth id or a pando id may be one that only the list of the backend tells, so the input waits for the list."""
    async with gateway("codewhale", tmp_path) as url, CodewhaleClient.connected(url) as editor:
        thread = editor.thread
    recording = tmp_path / "kept"
    async with gateway("pando", tmp_path, recording) as url, PandoClient.connected(url, "") as viewer:
        own = thread.removeprefix("thread-")
        await viewer.call("message.send", session_id=own, content="hello")
    (kept,) = [path for path in recording.iterdir() if own in path.name]
    inputs = [turn.input for turn in read_plan(open_recording(kept)).inputs]
    assert [flatten(one.segments) for one in inputs if isinstance(one, SubmitInput)] == ["hello"]


# -- the history of a thread -----------------------------------------------------------------------


@asynccontextmanager
async def talking(dialect: str, folder: Path) -> AsyncIterator[TurnClient]:
    """Connect a client of this dialect to a gateway before a codewhale child."""
    (folder / "front").mkdir()
    listen = LISTEN[dialect].format(folder=folder / "front")
    async with (
        bridged(child(str(uuid4()), folder), listen=listen, limits=LIMITS) as (_, url),
        join(dialect, url) as peer,
    ):
        yield peer


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_client_gets_the_history_of_a_thread_whose_server_stores_none(dialect: str, tmp_path: Path) -> None:
    async with talking(dialect, tmp_path) as peer:
        await peer.turn("one two")
        await peer.turn("three")
        assert await peer.history() == [
            ("user", "one two"),
            ("assistant", "one two "),
            ("user", "three"),
            ("assistant", "three "),
        ]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_history_does_not_wait_for_the_running_turn(dialect: str, tmp_path: Path) -> None:
    async with talking(dialect, tmp_path) as peer:
        await peer.begin("wait here", 1)
        assert await peer.history() == [("user", "wait here")]
        await peer.cancel()
        await peer.finish()
