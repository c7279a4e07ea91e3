"""A backend that is one session: a client that only asks waits until the backend has told what it is."""

from __future__ import annotations

from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.pod_messages import snapshot
from tests.idle import settle


async def test_a_list_waits_for_the_history_of_the_session_if_its_client_does_not_attach() -> None:
    async with in_memory_gateway() as made:
        viewer = made.join("viewer", dialect="pando", calls=True)
        viewer.calls({"method": "session.list", "params": {}})
        await settle()
        assert (made.dialled, viewer.news()) == (1, [])
        made.pod.sends(snapshot())
        await settle()
        (answer,) = viewer.news()
        assert [row["id"] for row in answer["result"]] == [made.session.state.id]
