"""Sessions are forgotten `session_ttl` after the last client or turn, and no client is a reason to look at all of them.

What is touched is counted: the index, and each session, hand out their parts through counters.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

from dragoman.gateway.config.model import Limits
from tests.gateway.in_memory import InMemoryGateway, in_memory_gateway
from tests.gateway.smooth_client_messages import CREATE, ask
from tests.gateway.smooth_server_messages import acknowledged
from tests.idle import settle

TTL = Limits().session_ttl


async def opened(made: InMemoryGateway, name: str, conversation: int = 0) -> dict[str, Any]:
    """A smooth client opens a session of the smooth backend; its reply's data."""
    client = made.join(name)
    client.says(CREATE)
    await settle()
    await answer(made, conversation)
    (frame,) = client.news()
    return dict(frame["data"])


async def answer(made: InMemoryGateway, conversation: int) -> None:
    """The smooth server opens the conversation that it is asked for."""
    (asked,) = made.pod.news()
    made.pod.says(
        acknowledged(
            asked["requestId"],
            sessionId=f"0198c3a1-0000-4000-8000-1{conversation:011d}",
            conversationId=f"0198c3a1-0000-4000-8000-2{conversation:011d}",
            agentId="0198c3a1-0000-4000-8000-0000000000aa",
            agentName="smooth-agent",
            userParticipantId="0198c3a1-0000-4000-8000-0000000000b3",
            agentParticipantId="0198c3a1-0000-4000-8000-0000000000b4",
        )
    )
    await settle()


async def test_a_session_is_forgotten_when_its_time_is_over() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await opened(made, "a")
        made.clients["a"].transport.hang_up()
        await settle()
        made.time.passes(TTL - 1)
        assert len(made.router.sessions) == 1
        made.time.passes(1)
        assert made.router.sessions == []


async def test_a_session_with_a_client_is_not_forgotten() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await opened(made, "a")
        made.time.passes(3 * TTL)
        assert len(made.router.sessions) == 1


async def test_the_time_of_a_session_begins_anew_with_each_client() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        data = await opened(made, "a")
        made.clients["a"].transport.hang_up()
        await settle()
        made.time.passes(TTL - 1)
        again = made.join("b")
        again.says({**ask("get_session", "r"), "sessionId": data["sessionId"]})
        await settle()
        again.transport.hang_up()
        await settle()
        again.news()
        made.time.passes(TTL - 1)
        assert len(made.router.sessions) == 1
        made.time.passes(1)
        assert made.router.sessions == []


async def test_a_session_is_freed_by_its_last_timer_without_the_garbage_collector() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await opened(made, "a")
        session = weakref.ref(made.router.sessions[0])
        made.clients["a"].transport.hang_up()
        await settle()
        gc.collect()
        gc.disable()
        try:
            made.time.passes(TTL)
            del made.upstream  # the last connection, which the test may look at
            await settle()
            assert session() is None
        finally:
            gc.enable()
