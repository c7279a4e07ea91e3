"""The groups of a session open a stream of text, and close it when a client comes or goes."""

from __future__ import annotations

from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.pod_messages import delta
from tests.gateway.session.test_session import begun
from tests.gateway.session.test_text_stream import streaming
from tests.gateway.smooth_client_messages import token


async def test_a_lone_piece_of_text_opens_a_stream() -> None:
    async with in_memory_gateway() as made:
        await begun(made).done()
        assert made.session.delivery.groups.streamed is None
        for text in ("a", "b"):
            await made.script().pod_sends(delta(text)).receives("a", token("r1", text)).done()
        assert made.session.delivery.groups.streamed is not None


async def test_a_client_that_leaves_closes_the_stream() -> None:
    async with in_memory_gateway() as made:
        await streaming(made).done()
        made.session.delivery.detach(made.clients["a"].link)
        assert made.session.delivery.groups.streamed is None
