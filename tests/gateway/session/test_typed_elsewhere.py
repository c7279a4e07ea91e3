"""Input typed in a real pando, which publishes no message.append, reaches clients of all dialects in order."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row
from tests.gateway.smooth_client_messages import ask
from tests.idle import settle
from tests.memory_transport import MemoryTransport
from tests.oracle import PodOracle

ONE = "0b0e9b0e-0000-4000-8000-000000000001"


def message(id: str, role: str, content: str) -> dict[str, Any]:
    return {"id": id, "role": role, "content": content, "created_at": "2026-05-09T21:28:20Z"}


BEFORE = [message("m-1", "user", "Where?"), message("m-2", "assistant", "Here.")]
TYPED = [*BEFORE, message("m-3", "user", "When?"), message("m-4", "assistant", "")]
SAID = [*BEFORE, message("m-3", "user", "When?"), message("m-4", "assistant", "Now.")]


async def run(made: InMemoryPandoGateway) -> None:
    """Let a run begin in the primary that uses a tool, whose start the primary does not publish."""
    await made.publishes("session.update", **row(ONE))
    await made.publishes("tool.end", session_id=ONE, tool_name="date", call_id="c", is_error=False, result="May")
    await made.answers("message.list", TYPED)
    await made.publishes("llm.token", session_id=ONE, token="Now.")
    await made.publishes("llm.end", session_id=ONE, tokens_in=0, tokens_out=0)
    await made.answers("message.list", SAID)


async def attached(made: InMemoryPandoGateway) -> MemoryTransport:
    """Return a pod client that has seen the run."""
    pod = made.join("pod")
    await made.opens(BEFORE, row(ONE))
    await run(made)
    return pod


def spoken(pod: MemoryTransport) -> list[tuple[str, str]]:
    """Return the user's and assistant's messages that a pod client saw since its snapshot, in a legal order."""
    oracle = PodOracle()
    said = []
    for event in frames(pod):
        oracle.got(event)
        if event["event"] == "user_message":
            said.append(("user", "".join(segment["content"] for segment in event["data"]["segments"])))
        elif event["event"] == "text_done":
            said.append(("assistant", event["data"]["text"]))
    return said


def words(value: object, known: tuple[str, ...] = ("Where?", "Here.", "When?", "Now.")) -> list[str]:
    """Return the known words in the order in which a message has them."""
    text = json.dumps(value)
    return sorted((word for word in known if word in text), key=text.index)


async def test_an_attached_pod_client_sees_the_input_before_the_answer() -> None:
    async with in_memory_pando_gateway() as made:
        pod = await attached(made)
        assert spoken(pod) == [("user", "When?"), ("assistant", "Now.")]
        assert "segment_rotated" not in [event["event"] for event in frames(pod)]


async def test_a_late_pod_client_sees_input_tool_and_answer_in_order() -> None:
    async with in_memory_pando_gateway() as made:
        await attached(made)
        late = made.join("pod")
        await settle()
        snapshot = frames(late)[0]
        assert snapshot["event"] == "snapshot"
        assert words(snapshot) == ["Where?", "Here.", "When?", "Now."]
        assert "date" in json.dumps(snapshot)


async def test_a_reloaded_history_keeps_tool_calls_that_the_store_does_not_have() -> None:
    async with in_memory_pando_gateway() as made:
        pod = await attached(made)
        await made.replaced(row(ONE))
        more = [*SAID, message("m-5", "user", "Why?"), message("m-6", "assistant", "So.")]
        await made.answers("message.list", more)
        rotated = frames(pod)[-1]
        assert rotated["event"] == "segment_rotated"
        in_order = ("Where?", "When?", "date", "Now.", "Why?", "So.")
        assert words(rotated, in_order) == [*in_order]


async def test_a_history_without_news_does_not_rotate_a_pod_client() -> None:
    async with in_memory_pando_gateway() as made:
        pod = await attached(made)
        before = len(frames(pod))
        await made.replaced(row(ONE))
        await made.answers("message.list", SAID)
        assert "segment_rotated" not in [event["event"] for event in frames(pod)[before:]]


async def test_a_codewhale_client_reads_input_typed_in_the_primary() -> None:
    async with in_memory_pando_gateway() as made:
        await attached(made)
        whale = made.join("codewhale")
        call = {"jsonrpc": "2.0", "id": 1, "method": "thread/read", "params": {"thread_id": f"thread-{ONE}"}}
        await whale.says(json.dumps(call).encode())
        while made.asked():
            await made.answers("message.list", SAID)
        assert words(frames(whale)[-1]["result"]["data"]["history"]) == ["Where?", "Here.", "When?", "Now."]


async def test_a_smooth_history_has_input_typed_in_the_primary() -> None:
    async with in_memory_pando_gateway() as made:
        smooth = made.join("smooth")
        smooth.say(json.dumps(ask("get_session", "open", sessionId=ONE)).encode())
        await made.opens(BEFORE, row(ONE))
        await run(made)
        await smooth.says(json.dumps(ask("get_conversation_messages", "h", sessionId=ONE)).encode())
        while made.asked():
            await made.answers("message.list", SAID)
        said = frames(smooth)[-1]["data"]["messages"]
        assert words(list(reversed(said))) == ["Where?", "Here.", "When?", "Now."]
