"""Clients of the four dialects for the demo: each connects as the gateway connects to a backend of its dialect.

`received` contains the messages that a client received, each with its frame from the wire.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal
from uuid import uuid4

from msgspec import Struct

from dragoman.adapters.base import Transport
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.gateway.transports import Children, ChildSettings
from dragoman.gateway.transports.spec import Spawner
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import OpenSession, SubmitInput
from dragoman.mappings.canonical.events import (
    ErrorReported,
    HistorySnapshot,
    ReasoningDelta,
    Reply,
    SessionOpened,
    StatusChanged,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Failure, Text
from dragoman.mappings.dialect import Dialect, Frame, Parts, Step

Kind = Literal["thinks", "says", "calls", "gets", "ends", "fails", ""]

NOTHING: tuple[Kind, str] = ("", "")

DEADLINE = 10.0  # seconds for an answer, which takes milliseconds


class ReceivedPiece(Struct, frozen=True):
    """A message that a client received: its kind, the text to show, and the frame."""

    kind: Kind
    text: str
    frame: str


class DemoClient:
    """A connected client with the messages that it received."""

    def __init__(self, dialect: Dialect, transport: Transport) -> None:
        self.name = dialect.name
        self.received: list[ReceivedPiece] = []
        self._transport = transport
        self._events = dialect.events
        self._translator = dialect.client(time.time_ns, lambda: str(uuid4()), time.monotonic_ns)
        self._news = asyncio.Event()
        self._opened = asyncio.Event()

    async def listen(self) -> None:
        """Store the received frames."""
        await self._transport.run(self._take)

    async def begin(self) -> None:
        """Open a session, and wait until it is open."""
        opened = self._translator.opened().frames
        asked = self._translator.send([OpenSession(request=str(uuid4()), agent=str(uuid4()))]).frames
        await self._transport.send([*opened, *asked])
        await self._opened.wait()

    async def ask(self, text: str) -> None:
        """Send this input to the agent."""
        asked = SubmitInput(request=str(uuid4()), segments=(Text(text=text),))
        await self._transport.send(self._translator.send([asked]).frames)

    async def pieces(self, since: int) -> AsyncIterator[ReceivedPiece]:
        """Yield the messages from number `since` on, and wait for further ones."""
        while True:
            while since == len(self.received):
                self._news.clear()
                async with asyncio.timeout(DEADLINE):
                    await self._news.wait()
            yield self.received[since]
            since += 1

    async def over(self, since: int) -> None:
        """Wait until a turn that began after message number `since` has ended."""
        async for piece in self.pieces(since):
            if piece.kind == "ends":
                return

    def _take(self, frames: Sequence[Frame]) -> int:
        for frame in frames:
            step = self._translator.receive([frame])
            if any(isinstance(event, SessionOpened | HistorySnapshot) for event in _events(step)):
                self._opened.set()
            self._transport.try_send(step.frames)
            read: Step[Event] = Step()
            self._events.receive([frame], read)
            kind, text = next(filter(any, map(_kind, _events(read))), NOTHING)
            self.received.append(ReceivedPiece(kind, text, _text(frame)))
        self._news.set()
        return len(frames)


def _events(step: Step[Event]) -> Iterator[Event]:
    return (event for burst in step.bursts for event in burst.items)


def _kind(event: Event) -> tuple[Kind, str]:
    """Return the kind and the text of an event."""
    match event:
        case ReasoningDelta():
            return "thinks", event.text
        case TextDelta():
            return "says", event.text
        case ToolCallArguments(done=True):
            return "calls", f"{event.name} {event.json}"
        case ToolCallFinished():
            return "gets", event.output or event.summary or ""
        case TurnEnded(end="completed") | StatusChanged(status="idle"):
            return "ends", ""
        case TurnEnded() | ErrorReported() | Reply(failure=Failure()):
            return "fails", ""
    return NOTHING


def _text(frame: Any) -> str:
    """Return a received frame as text; of a published one, what follows the topic."""
    body = frame.parts[-1] if isinstance(frame, Parts) else frame
    return bytes(body).rpartition(b"\0")[2].decode()


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[DemoClient]:
    """Connect a client to an endpoint and send its first messages."""
    endpoint = parse(address)
    spawner = Spawner(Children(0), ChildSettings(env={}))  # sockets spawn nothing
    transport = await registry.connector(endpoint, Limits(), spawner)()
    client = DemoClient(registry.dialect(endpoint.dialect), transport)
    async with asyncio.TaskGroup() as group:
        reader = group.create_task(client.listen(), name=f"{client.name} client")
        try:
            async with asyncio.timeout(DEADLINE):
                await client.begin()
            yield client
        finally:
            reader.cancel()
            await transport.close()
