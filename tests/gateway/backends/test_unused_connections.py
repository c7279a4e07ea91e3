"""A backend that is away is dialled again for a client, and not for a session that nobody uses."""

from __future__ import annotations

import pytest

from tests.gateway.in_memory import InMemoryGateway, in_memory_gateway
from tests.gateway.pod_messages import run
from tests.idle import run_turns


async def dials(made: InMemoryGateway) -> int:
    """Return how often the backend is dialled in a while."""
    before = made.dialled
    await run_turns()
    return made.dialled - before


@pytest.mark.parametrize("backend", ["smooth", "codewhale"])
async def test_an_unreachable_backend_is_not_dialled_for_a_session_without_clients(backend: str) -> None:
    async with in_memory_gateway(upstream=backend) as made:
        made.away = True
        client = made.join("client", dialect="pod")
        await made.settle()
        client.sends(run("hi"))
        assert await dials(made) > 1
        client.transport.hang_up()
        await made.settle()
        assert await dials(made) == 0
        made.join("next", dialect="pod").sends(run("hi"))
        assert await dials(made) > 1
