"""A backend that holds one session: who gets it by its name."""

from __future__ import annotations

import pytest

from tests.gateway.codewhale_messages import line
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.pod_messages import snapshot
from tests.gateway.smooth_client_messages import ask

OTHER = "0198c3a1-0000-4000-8000-0000000000d2"


@pytest.mark.parametrize("principal", ["alice", "bob"])
async def test_a_client_that_resumes_the_session_gets_it_if_it_is_its_own(principal: str) -> None:
    """All others are answered as if the session were unknown (docs/design.md, section 5)."""
    async with in_memory_gateway(share="owner") as made:
        owner = made.join("widget", "alice")
        await owner.says(ask("create_conversation_session", "c", agentId=OTHER))
        await made.pod.says(snapshot())
        (only,) = made.router.sessions
        editor = made.join("editor", principal, "codewhale")
        await editor.says(line(1, "thread/resume", thread_id=f"thread-{only.state.id}"))
        await editor.says(line(2, "thread/resume", thread_id=f"thread-{OTHER}"))
        own, unknown = editor.news()
        assert unknown["error"]["code"] == -32004
        assert own.get("error", {}).get("code") == (None if principal == "alice" else -32004)
        assert ("editor" in only.delivery.attachments) is (principal == "alice")
