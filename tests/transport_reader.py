"""Read from a transport step by step, although a transport pushes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from dragoman.adapters.base import Sink
from dragoman.mappings.dialect import Frame


class PushingTransport(Protocol):
    """The reading part of a Transport."""

    async def run(self, sink: Sink) -> None: ...


async def receive(transport: PushingTransport) -> list[Frame]:
    """Return all frames that the transport pushes next, at least one; none after the peer is gone. Between two calls
    the transport has no sink, as if its link were busy.
    """
    received: list[Frame] = []
    pushed = asyncio.Event()

    def take(frames: Sequence[Frame]) -> int:
        received.extend(frames)
        pushed.set()
        return len(frames)

    async def run() -> None:
        await transport.run(take)
        pushed.set()

    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(), name="run")
        await pushed.wait()
        running.cancel()
    return received


async def receive_all(transport: PushingTransport) -> list[Frame]:
    """Return all frames that the transport pushes until its peer is gone."""
    received: list[Frame] = []

    def take(frames: Sequence[Frame]) -> int:
        received.extend(frames)
        return len(frames)

    await transport.run(take)
    return received
