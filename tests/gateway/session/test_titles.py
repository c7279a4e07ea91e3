"""The title of a session is kept by its backend, or by the gateway for a backend that has no rename."""

from __future__ import annotations

import pytest

from tests.gateway import smooth_server_messages as server
from tests.gateway.codewhale_messages import line
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.smooth_client_messages import CONVERSATION, error, reply


async def test_the_gateway_keeps_titles_for_a_backend_that_does_not() -> None:
    async with in_memory_gateway() as made:
        rename = {"action": "rename_conversation", "requestId": "n", "conversationId": CONVERSATION, "title": "New"}
        await (
            made.opens("a")
            .sends("a", rename)
            .receives("a", reply("n", conversationId=CONVERSATION, title="New"))
            .pod_receives()
        )
        assert made.session.state.title == "New"


@pytest.mark.parametrize(("dialect", "title"), [("codewhale", "New"), ("smooth", "")])
async def test_titles_that_a_smooth_server_cannot_change_are_kept_for_clients_of_other_dialects(
    dialect: str, title: str
) -> None:
    """The servers in Python and TypeScript have no `rename_conversation` (docs/dialects/smooth.md, section 3)."""
    conversation = server.CONVERSATION
    rename, answered = {
        "codewhale": (
            line(1, "thread/set_name", thread_id=f"thread-{conversation}", name="New"),
            {"id": 1, "result": {"status": "ok"}},
        ),
        "smooth": (
            {"action": "rename_conversation", "requestId": "n", "conversationId": conversation, "title": "New"},
            error("n", "UNSUPPORTED_ACTION"),
        ),
    }[dialect]
    async with in_memory_gateway(upstream="smooth") as made:
        await (
            made.asks_server("p", "Hi")
            .server_sends(server.taken("$t"))
            .connects("c", dialect=dialect)
            .sends("c", rename)
            .server_receives({"action": "rename_conversation", "requestId": "$r", "title": "New"})
            .server_sends(server.problem("$r", "UNSUPPORTED_ACTION"))
            .receives("c", answered)
            .ignores("p")
        )
        assert made.session.state.title == title
