"""Malformed input from one client, while two other clients of the same session must not notice it.

A `MalformedInputHarness` is a gateway in the test's own loop on real sockets. It has a smooth and a pod listener for
one session, and two bystanders. A `MalformedInput` says what the client sends, in which state of the session, and what
docs/dialects promises: the answer, what becomes of its connection, and that both bystanders go on to hold a turn each.

No client reads in the background. To read what it has received, a client sends a request of its own and reads up to the
answer. Everything that the gateway sent before is then read too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import aiohttp
import pytest
from aiohttp import WSMsgType
from msgspec import Struct

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.backend import DemoBackend
from dragoman.gateway.demo.script import Scripts
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.session.ports import BackendEvents
from dragoman.mappings.pod.wire.codecs import EVENTS
from tests.pairs.gateway import FORMS, TERMINALS, serving
from tests.smooth_frame_check import check

DEADLINE = 20.0  # seconds for anything that a party waits for
MAX_MESSAGE = 4 * 1024 * 1024  # above the 3 MB line that a pod takes (docs/dialects/pod.md, section 1)
LIMITS = Limits(max_message=MAX_MESSAGE, max_command=MAX_MESSAGE, drain_deadline=0.5, snapshot_wait=10.0)
DEMO = Endpoint(dialect="pod", transport="demo", address="conversation")
GOOD = "count 2"  # the demo backend answers it at once

Frame = dict[str, Any]


class Eof:
    """A step of a row: the peer closes its sending direction and continues to read."""


EOF = Eof()

Said = str | bytes | Mapping[str, Any] | Eof
"""The bad message to send: text and JSON as a text frame or line, bytes as a binary frame or unchanged.

`$session` in JSON is replaced by the session of the client that sends it.
"""

State = Literal["fresh", "open", "running", "occupied", "paused"]
"""`open`: the asker has its session (a pod client: its snapshot). `running`: the asker's own turn is open. `occupied`:
a bystander's is. `paused`: a bystander's turn is paused."""


class MalformedInput(Struct, frozen=True, kw_only=True):
    """A row of a table of malformed messages; `name` begins with a section of the dialect's page in docs/dialects.
    `answer` is everything that the sender receives, as far as the page specifies each frame (see `fits`). `closes`
    is the code with which the gateway closes the connection (0 for a pod, which has no code), or None if it stays
    open. With `runs` the answer is a turn, given without its streamed text, which the bystanders see whole.
    Otherwise they receive nothing.
    """

    name: str
    say: Sequence[Said]
    answer: Any = ()
    state: State = "open"
    closes: int | None = None
    runs: bool = False


def row(
    name: str,
    said: Said | list[Said],
    *told: Any,
    answer: Any = None,
    state: State = "open",
    runs: bool = False,
    closes: int | None = None,
) -> MalformedInput:
    """Return a row of the table: the sent input, and the answer to its sender."""
    say = said if isinstance(said, list) else [said]
    return MalformedInput(name=name, say=say, answer=answer or told, state=state, runs=runs, closes=closes)


class Bystander:
    """A client that can send anything, and checks strictly what it receives: `_told` is what nobody asked for yet."""

    def __init__(self) -> None:
        self._told: list[Frame] = []
        self._number = 0

    async def until(self, last: Callable[[Frame], bool]) -> list[Frame]:
        """Return everything received since the last call, up to the first message for which `last` is true."""
        async with asyncio.timeout(DEADLINE):
            while True:
                for at, frame in enumerate(self._told):
                    if last(frame):
                        seen, self._told = self._told[: at + 1], self._told[at + 1 :]
                        return seen
                assert await self._read(), f"the connection ended after {self._told}"

    async def closed(self) -> list[Frame]:
        """Return everything received until the gateway closes the connection."""
        async with asyncio.timeout(DEADLINE):
            while await self._read():
                pass
        return self._told

    async def _read(self) -> bool:
        """Add the next message to `_told`; return False at the end of the connection."""
        raise NotImplementedError


class SmoothBystander(Bystander):
    """A smooth bystander; `survives` are types of messages that no schema knows."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__()
        self.socket = socket
        self.session = ""
        self.survives: frozenset[str] = frozenset()

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str, *, opens: bool = True) -> AsyncIterator[SmoothBystander]:
        async with aiohttp.ClientSession() as http, http.ws_connect(url, max_msg_size=0) as socket:
            peer = cls(socket)
            if opens:
                await peer.open()
            yield peer

    async def open(self) -> None:
        """Open a session."""
        request = await self.ask(action="create_conversation_session", agentId=str(uuid4()), supports=FORMS)
        (reply,) = await self.until(lambda frame: frame.get("requestId") == request)
        self.session = reply["data"]["sessionId"]

    async def send(self, said: Said) -> None:
        if isinstance(said, Eof):
            raise TypeError("a WebSocket has no half that closes")
        if isinstance(said, bytes):
            await self.socket.send_bytes(said)
        elif isinstance(said, str):
            await self.socket.send_frame(said.encode("utf-8", "surrogateescape"), WSMsgType.TEXT)
        else:
            await self.socket.send_str(json.dumps(said).replace("$session", self.session))

    async def ask(self, **frame: Any) -> str:
        """Send an action under its own request id."""
        self._number += 1
        request = f"own-{self._number}"
        await self.send({"requestId": request, **frame})
        return request

    async def told(self) -> list[Frame]:
        """Return everything received since the last call."""
        request = await self.ask(action="ping")
        return (await self.until(lambda frame: frame["type"] == "pong" and frame.get("requestId") == request))[:-1]

    @property
    def code(self) -> int:
        """Return the code with which the gateway closed the connection."""
        return self.socket.close_code or 0

    async def turn(self, text: str) -> str:
        """Run a whole turn; return how it ended."""
        request = await self.ask(action="send_message", sessionId=self.session, message=text)
        seen = await self.until(lambda frame: frame["type"] in TERMINALS and frame.get("requestId") == request)
        return str(seen[-1]["type"])

    async def begin(self) -> None:
        """Begin a turn that stays open and silent."""
        await self.send({"action": "send_message", "sessionId": "$session", "requestId": "turn", "message": "wait"})
        await self.until(lambda frame: frame.get("status") == 202)

    async def run_seen(self) -> list[Frame]:
        """Return everything received, without streamed text, up to the end of another client's turn."""
        seen = await self.until(lambda frame: frame["type"] in TERMINALS and "requestId" in frame)
        return [frame for frame in seen if not frame["type"].startswith("stream_")]

    async def _read(self) -> bool:
        message = await self.socket.receive()
        if message.type is not WSMsgType.TEXT:
            return False
        frame: Frame = json.loads(message.data)
        if frame["type"] not in self.survives:
            check(frame)
        self._told.append(frame)
        return True


class PodBystander(Bystander):
    """A pod bystander; an event unknown to its strict reader fails the test."""

    code = 0  # a stream just ends

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def connected(cls, path: str, *, opens: bool = True) -> AsyncIterator[PodBystander]:
        reader, writer = await asyncio.open_unix_connection(path, limit=1 << 26)
        try:
            peer = cls(reader, writer)
            if opens:
                await peer.told()
            yield peer
        finally:
            writer.close()

    async def send(self, said: Said) -> None:
        if isinstance(said, Eof):
            self.writer.write_eof()
            return
        if isinstance(said, Mapping):
            said = json.dumps(said)
        self.writer.write(said if isinstance(said, bytes) else said.encode() + b"\n")
        await self.writer.drain()

    async def told(self) -> list[Frame]:
        """Return everything received since the last call."""
        self._number += 1
        prefix = f"own-{self._number}"  # nothing completes to it, so it comes back as an empty list
        await self.send({"method": "list_completions", "params": {"kind": "workflow", "prefix": prefix}})
        return (await self.until(lambda event: fits(event, NOTHING)))[:-1]

    async def turn(self, text: str) -> str:
        """Run a whole turn; return how it ended."""
        await self.send({"method": "run", "params": {"input": [{"kind": "text", "content": text}]}})
        seen = await self.run_seen()
        return str(next((e["data"]["result"] for e in seen if e["event"] == "run_end"), "no run_end"))

    async def begin(self) -> None:
        """Begin a turn that stays open and silent."""
        await self.send({"method": "run", "params": {"input": [{"kind": "text", "content": "wait"}]}})
        await self.until(lambda event: event["event"] == "status")

    async def run_seen(self) -> list[Frame]:
        """Return everything received, without streamed text, up to the end of another client's turn."""
        return await self.until(lambda event: event["event"] == "status" and event["data"]["status"] != "running")

    async def _read(self) -> bool:
        line = await self._reader.readline()
        if line:
            EVENTS.decode(line)
            self._told.append(json.loads(line))
        return bool(line)


Peer = SmoothBystander | PodBystander
NOTHING = {"event": "completions", "data": {"kind": "workflow", "entries": []}}


class Absent:
    """A placeholder in an expected frame for a key that must be absent."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


def fits(told: object, expected: object) -> bool:
    """Return True if a received value matches the expected one: objects may have more keys, and functions decide by
    themselves.
    """
    if isinstance(expected, Mapping):
        return isinstance(told, dict) and all(fits(told.get(key, ABSENT), value) for key, value in expected.items())
    if isinstance(expected, list | tuple):
        return isinstance(told, list) and len(told) == len(expected) and all(map(fits, told, expected))
    return bool(expected(told)) if callable(expected) else told == expected


class MalformedInputHarness(Struct, kw_only=True):
    """A gateway on real sockets with two bystanders in one session."""

    app: App
    url: str
    path: str
    smooth: SmoothBystander
    pod: PodBystander

    async def nothing_new(self) -> None:
        """Assert that neither bystander received anything since the last call."""
        assert await self.smooth.told() == []
        assert await self.pod.told() == []

    async def catch_up(self) -> None:
        """Read everything that the bystanders were sent so far."""
        await self.smooth.told()
        await self.pod.told()

    async def prepare(self, state: State, asker: Peer) -> None:
        """Bring the session into `state`."""
        match state:
            case "running":
                await asker.begin()
            case "occupied":
                await self.smooth.begin()
            case "paused":
                await self.smooth.ask(action="send_message", sessionId=self.smooth.session, message="slow")
                await self.pod.until(lambda event: event["event"] == "text_delta")
                await self.pod.send({"method": "pause"})
                await self.pod.run_seen()
            case "fresh" | "open":
                pass
        await self.catch_up()
        if state != "fresh":
            await asker.told()

    async def stop(self) -> None:
        """Assert that the open turn is still open and ends for both bystanders when one cancels it."""
        await self.pod.send({"method": "cancel"})
        assert (await self.pod.run_seen())[-1]["data"]["status"] == "idle"
        assert (await self.smooth.run_seen())[-1]["type"] == "cancelled"

    async def both_saw_a_turn(self) -> None:
        """Assert that a turn was played and that both bystanders saw all of it."""
        ends = [frame["type"] for frame in await self.smooth.run_seen() if frame["type"] in TERMINALS]
        assert ends == ["eventual_response"]
        assert [event["event"] for event in await self.pod.run_seen()].count("run_end") == 1

    async def good_turns(self) -> None:
        """Run a turn of each bystander, and assert that the other sees it."""
        assert await self.smooth.turn(GOOD) == "eventual_response"
        assert [event["event"] for event in await self.pod.run_seen()].count("run_end") == 1
        assert await self.pod.turn(GOOD) == "finished"
        assert (await self.smooth.run_seen())[-1]["type"] == "eventual_response"
        await self.nothing_new()


def played_together(**tables: Sequence[MalformedInput]) -> list[Any]:
    """Return the parameters of a test: the rows of each table, and alone each row whose turn would stay in the history
    that later clients are shown.
    """
    quiet = [pytest.param([row for row in rows if not row.runs], id=name) for name, rows in tables.items()]
    return quiet + [pytest.param([row], id=row.name) for rows in tables.values() for row in rows if row.runs]


@contextmanager
def named(row: str) -> Iterator[None]:
    """Tell which row of a table an error comes from."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the row {row!r}")
        raise


async def play(row: MalformedInput, at: MalformedInputHarness, asker: Peer) -> None:
    """Test a row: bring the session into its state, send the input, and check that both bystanders still work."""
    await at.prepare(row.state, asker)
    for said in row.say:
        await asker.send(said)
    if row.closes is not None:
        told = await asker.closed()
        assert asker.code == row.closes
    else:
        told = await asker.run_seen() if row.runs else await asker.told()
    assert fits(told, row.answer), f"told {told}, expected {row.answer}"
    if row.runs:
        await at.both_saw_a_turn()
    await at.nothing_new()
    if row.state in ("running", "occupied"):
        await at.stop()
    await at.good_turns()


@asynccontextmanager
async def listening(folder: Path, upstream: Endpoint, limits: Limits = LIMITS) -> AsyncIterator[tuple[App, str, str]]:
    """Run a gateway with a WebSocket and a socket listener; yield it and both addresses. `demo` runs in this
    process.
    """
    path = folder / "atlas" / "sock"
    path.parent.mkdir()
    listen = (parse("smooth+ws://127.0.0.1:0/ws"), parse(f"pod+unix:{path}"))
    route = Route(name="test", listen=listen, upstream=upstream)

    def demo(session: BackendEvents) -> DemoBackend:
        return DemoBackend(session, app.spawn, Scripts(()))

    played = upstream.transport == "demo"
    app = App(Config(routes=(route,), limits=limits), make_backend=demo if played else None)
    async with serving(app) as (endpoint, _):
        yield app, endpoint.removeprefix("smooth+"), str(path)


@asynccontextmanager
async def malformed_input_harness(folder: Path, upstream: Endpoint = DEMO) -> AsyncIterator[MalformedInputHarness]:
    """Run a gateway with both bystanders in the single session of its backend."""
    async with AsyncExitStack() as stack:
        app, url, path = await stack.enter_async_context(listening(folder, upstream))
        pod = await stack.enter_async_context(PodBystander.connected(path))
        smooth = await stack.enter_async_context(SmoothBystander.connected(url))
        yield MalformedInputHarness(app=app, url=url, path=path, smooth=smooth, pod=pod)
