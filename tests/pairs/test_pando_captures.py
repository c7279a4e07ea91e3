"""Messages of a captured pando beside its runs reach the clients of a gateway in front of such a pando."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.gateway.backends.in_memory_pando import frames, in_memory_pando_gateway
from tests.gateway.smooth_client_messages import ask
from tests.idle import settle
from tests.mappings.pando.data import CAPTURES
from tests.memory_transport import MemoryTransport
from tests.pairs.captured_pando import CapturedPandoConversation

SESSION = "5b0c6a0e-2f7d-4c57-9a34-0c1d2e3f4a5b"  # of which most of them are
NOW = datetime.fromisoformat("2026-05-09T23:45:00+02:00").timestamp()  # they were captured just before
FAILED = -32000

played = pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)


class Audience(Struct):
    """A played conversation, and its clients."""

    conversation: CapturedPandoConversation
    smooth: MemoryTransport
    pod: MemoryTransport
    pando: list[dict[str, Any]]


@asynccontextmanager
async def audience(path: Path) -> AsyncIterator[Audience]:
    """Play a capture to a client of each dialect, and repeat the calls of its client."""
    conversation = CapturedPandoConversation(path)
    async with in_memory_pando_gateway() as made:
        made.time.seconds = NOW - made.time.clock() / 1e9
        smooth, pod, pando = made.join("smooth"), made.join("pod"), made.join("pando", publishes=True)
        await smooth.says(json.dumps(ask("get_session", "open", sessionId=SESSION)).encode())
        await made.begins(*conversation.listed)
        await conversation.answers(made)
        made.time.passes(0.4)  # a pod waits no longer for a history that does not come
        await settle()
        before = len(frames(pando))
        await conversation.play(made, made.join("pando"))
        yield Audience(conversation, smooth, pod, frames(pando)[before:])


async def test_an_interrupted_run_is_cancelled_for_a_pod_client_without_a_failure() -> None:
    """The end of the run is the update after the answer: the next input of the capture is accepted at once."""
    async with audience(next(path for path in CAPTURES if path.stem.startswith("07-"))) as made:
        errors = [e["data"] for e in frames(made.pod) if e["event"] == "error"]
        assert errors == [{"code": "internal", "message": "Cancelled"}]


# -- what else a pando's client was told --------------------------------------------------------------


@played
async def test_publications_about_sessions_and_the_store_reach_pando_subscribers(path: Path) -> None:
    async with audience(path) as made:
        told = [(e["topic"], e["payload"]) for e in made.pando]
        store = [(topic, payload) for topic, payload in made.conversation.told if topic.startswith("db.")]
        assert [(topic, payload) for topic, payload in told if topic.startswith("db.")] == store
        sessions = [(topic, _session(p)) for topic, p in made.conversation.told if topic.startswith("session.")]
        heard = [(topic, _session(payload)) for topic, payload in told if topic.startswith("session.")]
        assert [said for said in sessions if said not in heard] == []


@played
async def test_the_captured_client_gets_its_answers(path: Path) -> None:
    async with audience(path) as made:
        conversation = made.conversation
        assert [called for called, _ in conversation.replies] == conversation.calls, "one each, in their order"
        gone = {payload["id"] for topic, payload in conversation.told if topic == "session.deleted"}
        for called, reply in conversation.replies:
            assert reply["id"] == called.reply["id"]
            if called.method == "state.sync":
                assert {row["id"] for row in reply["result"]["sessions"]} == {row["id"] for row in conversation.listed}
            elif called.method == "message.list" and called.session in gone:
                assert reply["result"] == [], "what is deleted is not shown, though the captured store was not cleared"
            else:
                assert _answer(called.method, reply) == _answer(called.method, called.reply), called.parts


def _answer(method: str, reply: dict[str, Any]) -> Any:
    """Return the part of a reply in which the gateway's must equal the captured one."""
    result: Any = reply.get("result")
    error = reply.get("error")
    if error is not None:  # the details of bad params are those of a library, and so are the words for no method
        text = error["message"].partition("invalid params: json:")[0]
        return error["code"], text if error["code"] == FAILED else ""
    match method:
        case "instance.ping":
            return result["status"]
        case "session.list":
            return sorted(_session(row) for row in result)
        case "message.list":  # messages that hold only calls are not told
            return [_message(message) for message in result if message["content"]]
    if isinstance(result, dict) and "title" in result:
        return {key: said for key, said in result.items() if key not in ("created_at", "updated_at")}
    return result


def _session(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["id"], row["title"], row["message_count"], datetime.fromisoformat(row["updated_at"]).timestamp()


def _message(message: dict[str, Any]) -> tuple[str, ...]:
    return message["id"], message["role"], message["content"]
