"""Kinds of backend: each route has one, and the router uses all of them in the same way."""

from __future__ import annotations

from tests.gateway.backends.in_memory_pando import in_memory_pando_gateway
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.pod_messages import snapshot
from tests.idle import settle


async def test_a_shared_backend_has_no_second_connection_for_requests() -> None:
    async with in_memory_pando_gateway() as made:
        made.router.backend.control().backend.start()
        await made.begins()
        assert len(made.primaries) == 1


async def test_other_backends_have_a_second_connection_for_requests() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        control = made.router.backend.control()
        assert control is made.router.backend.control()
        assert control not in made.router.sessions


# -- single ------------------------------------------------------------------------------------------


async def test_a_list_waits_for_the_history_of_the_session_if_its_client_does_not_attach() -> None:
    async with in_memory_gateway() as made:
        viewer = made.join("viewer", dialect="pando", calls=True)
        viewer.calls({"method": "session.list", "params": {}})
        await settle()
        assert (made.dialled, viewer.news()) == (1, [])
        await made.pod.says(snapshot())
        (answer,) = viewer.news()
        assert [row["id"] for row in answer["result"]] == [made.session.state.id]
