"""Sessions that clients open and resume."""

from __future__ import annotations

import pytest

from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.pod_messages import delta, took
from tests.gateway.smooth_client_messages import (
    CONVERSATION,
    CREATE,
    SHOWN,
    error,
    history,
    opened,
    reply,
    token,
)
from tests.gateway.talked import talked
from tests.idle import settle

UNKNOWN = "0198c3a1-0000-4000-8000-00000000dead"


async def test_a_created_session_dials_the_backend_and_shows_its_two_ids() -> None:
    async with in_memory_gateway() as made:
        await (
            made.script()
            .connects("a")
            .sends("a", CREATE)
            .receives("a", reply("open", sessionId=SHOWN, conversationId=CONVERSATION))
            .done()
        )
        assert made.dialled == 1


async def test_creating_twice_gives_the_same_session_and_attaches_once() -> None:
    async with in_memory_gateway() as made:
        await (
            made.script()
            .opens("a")
            .sends("a", CREATE | {"requestId": "again"})
            .receives("a", opened("again"))
            .pod_sends(*took("Hi"), delta("once"))
            .receives("a", token("$turn", "once"))
            .done()
        )


@pytest.mark.parametrize("known", [CONVERSATION, UNKNOWN])
async def test_resuming_a_conversation_gives_the_single_session_of_the_backend(known: str) -> None:
    async with in_memory_gateway() as made:
        await (
            made.script()
            .connects("a")
            .sends("a", CREATE | {"conversationId": known})
            .receives("a", opened("open"))
            .done()
        )


async def test_a_backend_with_one_session_is_busy_for_clients_that_do_not_own_it() -> None:
    async with in_memory_gateway() as made:
        await (
            made.script()
            .opens("a")
            .connects("eve", principal="eve")
            .sends("eve", CREATE)
            .receives("eve", error("open", "TURN_IN_PROGRESS"))
            .done()
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
            .done()
        )
        assert made.session.state.owner == "local"


async def test_options_of_a_new_session_that_a_client_cannot_send_come_from_the_endpoint() -> None:
    async with in_memory_gateway(upstream="codewhale") as made:
        made.join("a").sends(CREATE)
        await settle()
        (start,) = [frame for frame in made.pod.news() if frame["method"] == "thread/start"]
        assert (start["params"]["cwd"], start["params"]["model"]) == ("/src", "whale-1")
