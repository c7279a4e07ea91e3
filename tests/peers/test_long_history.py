"""A long history of a real smooth server, as clients of other dialects read it: whole, and requested in legal pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from smooth_operator_server.session_store import MessageDirection

from dragoman.gateway.config.model import Limits
from tests.pairs.gateway import LIMITS, bridged
from tests.pairs.pando_client import PandoClient
from tests.peers.smooth_server import RealServer, serving

pytestmark = pytest.mark.peers

STORED = 250


@asynccontextmanager
async def long_history(limits: Limits = LIMITS) -> AsyncIterator[tuple[RealServer, Any, PandoClient]]:
    """Connect a pando client to a conversation with a turn and STORED messages that no client has seen."""
    async with (
        serving() as server,
        bridged(server.endpoint, listen="pando+tcp://127.0.0.1:0", limits=limits) as (app, address),
        PandoClient.connected(address) as client,
    ):
        server.model.push_text("Hello.")
        await client.say("hi")
        await client.until(lambda: "llm.end" in client.topics())
        store = server.server.state.store
        (conversation,) = {message.conversation_id for log in store._messages.values() for message in log}
        for number in range(STORED):
            await store.append_message(conversation, MessageDirection.INBOUND, f"note {number}")
        yield server, app, client


async def test_a_pando_client_reads_the_whole_history_of_a_smooth_server() -> None:
    async with long_history() as (_, _, client):
        messages = await client.call("message.list", session_id=client.session)
        assert [message["content"] for message in messages] == ["hi", "Hello.", *(f"note {n}" for n in range(STORED))]
