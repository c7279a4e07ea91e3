"""A turn as a client of either dialect sees it, read off its frames alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.pairs.gateway import SmoothClient
from tests.pairs.pod_client import PodClient

__all__ = ["Peer", "Seen", "join"]


class Seen:
    """What a client saw of its last turn, whatever its dialect."""

    def __init__(self, text: str, thought: str, calls: list[str], results: int, end: str) -> None:
        self.text = text
        self.thought = thought
        self.calls = calls
        self.results = results
        self.end = end


async def smooth_turn(client: SmoothClient, text: str, cancel_after: int = 0) -> Seen:
    request = await client.say(text)
    ends = ("eventual_response", "error", "cancelled")
    if cancel_after:
        await client.until(lambda: len([f for f in client.of(request) if f["type"] == "stream_token"]) >= cancel_after)
        await client.send({"action": "cancel", "sessionId": client.session})
    await client.until(lambda: any(f["type"] in ends for f in client.of(request)))
    frames = client.of(request)
    raw = [f["data"]["state"].get("rawResponse", {}) for f in frames if f["type"] == "stream_chunk"]
    assert [f["type"] for f in frames if f["type"] in ends] == [frames[-1]["type"]], (
        "one terminal, and nothing after it"
    )
    return Seen(
        text="".join(f["token"] for f in frames if f["type"] == "stream_token"),
        thought="".join(f["token"] for f in frames if f["type"] == "stream_reasoning"),
        calls=[chunk["toolCall"]["name"] for chunk in raw if "toolCall" in chunk],
        results=sum(1 for chunk in raw if "toolResult" in chunk),
        end={"eventual_response": "completed", "error": "failed", "cancelled": "cancelled"}[frames[-1]["type"]],
    )


async def pod_turn(client: PodClient, text: str, cancel_after: int = 0) -> Seen:
    before, start = client.idle(), len(client.events)
    await client.say(text)
    if cancel_after:
        await client.until(lambda: client.names()[start:].count("text_delta") >= cancel_after)
        await client.send("cancel")
    await client.until(lambda: client.idle() > before)
    told = client.events[start:]
    names = [name for name, _ in told]
    assert names.count("user_message") == 1
    assert "turn_start" in names, "a pod's parent waits for it"
    errors = [data["message"] for name, data in told if name == "error"]
    end = "completed" if "run_end" in names else "cancelled" if errors == ["Cancelled"] else "failed"
    return Seen(
        text="".join(data["text"] for name, data in told if name == "text_delta"),
        thought="".join(data["text"] for name, data in told if name == "thinking_delta"),
        calls=[data["name"] for name, data in told if name == "tool_call_done"],
        results=names.count("tool_result"),
        end=end,
    )


class Peer:
    """A client of either dialect."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def turn(self, text: str, cancel_after: int = 0) -> Seen:
        if isinstance(self.client, SmoothClient):
            return await smooth_turn(self.client, text, cancel_after)
        return await pod_turn(self.client, text, cancel_after)


@asynccontextmanager
async def join(dialect: str, url: str) -> AsyncIterator[Peer]:
    if dialect == "smooth":
        async with SmoothClient.connected(url) as smooth:
            yield Peer(smooth)
    else:
        async with PodClient.connected(url.removeprefix("unix:")) as pod:
            yield Peer(pod)
