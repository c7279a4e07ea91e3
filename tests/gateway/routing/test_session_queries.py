"""Clients that ask for a session are shown it, and are attached to it."""

from __future__ import annotations

from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.smooth_client_messages import (
    AGENT,
    ask,
    reply,
)
from tests.gateway.talked import talked
from tests.idle import settle


async def test_the_agent_that_a_client_named_is_shown_to_the_next_one() -> None:
    async with in_memory_gateway() as made:
        await (
            made.script()
            .opens("a")
            .connects("b")
            .sends("b", ask("get_session", "g"))
            .receives("b", reply("g", agentId=AGENT, status="idle"))
            .done()
        )


async def test_a_session_of_another_owner_is_not_shown_on_a_pod_listener() -> None:
    async with in_memory_gateway(share="owner") as made:
        await talked(made).done()
        made.join("eve", principal="eve", dialect="pod")
        await settle()
        (frame,) = made.clients["eve"].news()
        assert (frame["event"], frame["data"]["code"]) == ("error", "invalid_request")
        assert not made.clients["eve"].link.alive


async def test_a_pod_client_is_shown_the_session_as_it_connects() -> None:
    async with in_memory_gateway() as made:
        await talked(made).done()
        made.join("tui", dialect="pod")
        await settle()
        (shown,) = made.clients["tui"].news()
        assert shown["event"] == "snapshot"
        assert len([entry for entry in shown["data"]["entries"] if entry["kind"] == "user_input"]) == 1
        assert "tui" in made.session.delivery.attachments
