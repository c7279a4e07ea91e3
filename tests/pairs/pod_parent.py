"""A parent pod and its calls to a child, connection by connection (docs/dialects/pod.md, section 11)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

PATIENCE = 20.0  # seconds for each line: a real parent waits 5 s, but the test machine may be busy

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def _connected(path: str) -> AsyncIterator[Pair]:
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _event(reader: asyncio.StreamReader) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        line = await reader.readline()
    assert line, "the pod hung up"
    event: dict[str, Any] = json.loads(line)
    return event


async def _snapshot(reader: asyncio.StreamReader) -> dict[str, Any]:
    while (event := await _event(reader))["event"] != "snapshot":
        pass
    data: dict[str, Any] = event["data"]
    return data


def _run(text: str) -> bytes:
    content = [{"kind": "text", "content": text}]
    return json.dumps({"method": "run", "params": {"input": content}}).encode() + b"\n"


async def probe(path: str) -> None:
    """Connect and disconnect at once."""
    async with _connected(path):
        pass


async def read_output(path: str) -> dict[str, Any]:
    """Connect, read the snapshot, and disconnect."""
    async with _connected(path) as (reader, _):
        return await _snapshot(reader)


async def send(path: str, text: str) -> str:
    """Write `run` before reading anything, then read until it is accepted (`turn_start`) or refused."""
    async with _connected(path) as (reader, writer):
        writer.write(_run(text))
        while True:
            event = await _event(reader)
            if event["event"] == "turn_start":
                return "accepted"
            if event["event"] == "error" and event["data"]["code"] == "already_running":
                return "rejected"


async def stop(path: str) -> None:
    """Read the snapshot, write `shutdown`, and close at once."""
    async with _connected(path) as (reader, writer):
        await _snapshot(reader)
        writer.write(b'{"method":"shutdown"}\n')


async def spawn(path: str, text: str) -> None:
    """Write `run` and close without reading anything, as parents of the seed do."""
    async with _connected(path) as (_, writer):
        writer.write(_run(text))


def said(snapshot: dict[str, Any]) -> list[str]:
    """Return the messages of user and assistant, as a parent reads them from the entries."""
    texts: list[str] = []
    for entry in snapshot["entries"]:
        if entry["kind"] == "segment_start":
            texts = [text for item in entry["history"] for text in _texts(item)]
        elif entry["kind"] == "user_input":
            texts.append("".join(segment["content"] for segment in entry["segments"]))
        elif entry["kind"] == "assistant_item":
            texts += _texts(entry["item"])
    return texts


def _texts(item: dict[str, Any]) -> list[str]:
    return ["".join(part["text"] for part in item["content"])] if item["kind"] == "message" else []
