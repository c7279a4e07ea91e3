"""The handshake of one connection, against peers that send it in parts, never finish it, or have to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from dragoman.adapters.base import Accept, TransportLimits
from dragoman.adapters.websocket import handshake
from dragoman.adapters.websocket.handshake import REQUEST_MAX, REQUEST_UNITS
from dragoman.gateway.overload.fair_queue import STEP, FairQueue
from tests.adapters.websocket.peers import Server, request, serving
from tests.idle import settle
from tests.transport_reader import receive

FRAME = b"\x81\x82" + bytes(4) + b"hi"


@asynccontextmanager
async def client(server: Server) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    yield reader, writer
    writer.transport.abort()


async def response(server: Server, said: bytes) -> bytes:
    """Return what a client reads that says this, until its connection is closed."""
    async with client(server) as (reader, writer):
        writer.write(said)
        return await reader.read()


async def test_a_handshake_that_comes_byte_by_byte_is_accepted() -> None:
    async with serving() as server, client(server) as (reader, writer):
        for byte in request() + FRAME:
            writer.write(bytes((byte,)))
            await settle()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await receive(await server.next()) == [b"hi"]


async def test_a_handshake_waits_for_its_turn_if_those_of_others_fill_the_step() -> None:
    steps = list[Callable[[], None]]()
    queue = FairQueue(steps.append)
    async with serving(queue=queue) as server, client(server) as (reader, writer):
        queue.budget.left = 0
        writer.write(request())
        await settle()
        writer.write(FRAME * 2)
        await settle()
        assert server.transports == []
        steps.pop()()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert queue.budget.left <= STEP - REQUEST_UNITS
        assert await receive(await server.next()) == [b"hi", b"hi"]


async def test_a_handshake_whose_peer_has_left_takes_no_turn() -> None:
    steps = list[Callable[[], None]]()
    queue = FairQueue(steps.append)
    async with serving(queue=queue) as server:
        queue.budget.left = 0
        async with client(server) as (_, writer):
            writer.write(request())
            await settle()
        await settle()
        steps.pop()()
        assert (server.transports, queue.budget.left) == ([], STEP)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "BadHttpMethod"),
        (b"GET /ws HTTP/1.1\nHost: a\n\n", "BadStatusLine"),
        (request().replace(b"Host: 127.0.0.1\r\n", b""), "BadHttpMessage"),
        (request("Host: evil.example"), "BadHttpMessage"),
        (request("Content-Length: 5", "Transfer-Encoding: chunked"), "BadHttpMessage"),
        (request(*["X: a"] * 200), "BadHttpMessage"),
    ],
)
async def test_a_malformed_request_gets_400_and_is_reported_by_its_kind(said: bytes, kind: str) -> None:
    kinds: list[str] = []
    async with serving(bad_request=kinds.append) as server:
        head, _, body = (await response(server, said)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert body == b"malformed HTTP request\n", "it repeats nothing of the request, which may contain a token"
        assert kinds == [kind]


@pytest.mark.parametrize("name", ["Host", "Origin"])
async def test_a_request_of_a_foreign_page_is_reported_with_a_part_of_its_name(name: str) -> None:
    kinds: list[str] = []
    foreign = f"https://{'e' * 1000}.example"
    said = f"GET /ws HTTP/1.1\r\nHost: {foreign if name == 'Host' else 'localhost'}\r\nOrigin: {foreign}\r\n\r\n"
    async with serving(bad_request=kinds.append) as server:
        assert (await response(server, said.encode())).startswith(b"HTTP/1.1 403 ")
    assert kinds == [f"{name.lower()} '{foreign}"[:200]]


@pytest.mark.parametrize(("path", "status"), [("/token", 404), ("/ws", 426)])
async def test_the_request_of_a_probe_is_not_reported(path: str, status: int) -> None:
    kinds: list[str] = []
    async with serving(bad_request=kinds.append) as server:
        refused = await response(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert refused.startswith(f"HTTP/1.1 {status} ".encode())
    assert kinds == []


async def test_a_second_request_behind_a_refused_one_gets_no_response() -> None:
    async with serving() as server:
        refused = await response(server, b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n" + request())
        assert refused.startswith(b"HTTP/1.1 404 ")
        assert refused.count(b"HTTP/1.1") == 1
        assert server.transports == []


async def test_a_body_is_not_read_as_frames() -> None:
    async with serving() as server:
        refused = await response(server, request(f"Content-Length: {len(FRAME)}") + FRAME)
        assert refused.startswith(b"HTTP/1.1 426 ")
        assert server.transports == []


async def test_a_head_request_gets_no_body() -> None:
    async with serving() as server:
        refused = await response(server, b"HEAD /ws HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 426 ")
        assert refused.endswith(b"\r\n\r\n")


async def test_a_request_without_an_end_is_read_only_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "REQUEST_MAX", REQUEST_MAX // 8)
    kinds: list[str] = []
    async with serving(bad_request=kinds.append) as server, client(server) as (reader, writer):
        writer.write(b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with suppress(ConnectionError):
            for _ in range(20):
                writer.write(b"X-a: " + b"b" * 8000 + b"\r\n")
                await writer.drain()
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        await settle()
    assert kinds == ["RequestTooLarge"]


async def test_a_request_with_a_long_line_is_told_so() -> None:
    kinds: list[str] = []
    async with serving(bad_request=kinds.append) as server:
        head, _, body = (await response(server, request("X: " + "a" * 9000))).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert body == b"the request or one of its lines is too long\n"
        assert kinds == ["LineTooLong"]


@pytest.mark.parametrize("begun", [b"", b"GET /ws HTTP/1.1\r\nHost: "])
async def test_a_request_that_takes_too_long_is_told_so(begun: bytes) -> None:
    async with serving(TransportLimits(handshake_deadline=0.05)) as server:
        head, _, body = (await response(server, begun)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert body == b"the request took too long (`handshake_deadline`)\n"


class Waiting:
    """An authentication that ends when the test says so."""

    def __init__(self, outcome: Accept | str) -> None:
        self.outcome = outcome
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.go_on = asyncio.Event()

    async def wait(self, _refusal: str) -> Accept | str:
        self.begun.set()
        try:
            await self.go_on.wait()
        finally:
            self.ended.set()
        return self.outcome


async def test_frames_that_come_during_an_authentication_are_received_after_it() -> None:
    accepted: list[object] = []
    waiting = Waiting(accepted.append)
    async with serving(identify=lambda _facts: "wait", wait=waiting.wait) as server, client(server) as (reader, writer):
        writer.write(request() + FRAME)
        await waiting.begun.wait()
        writer.write(FRAME)
        await settle()
        waiting.go_on.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        (transport,) = accepted
        assert await receive(transport) == [b"hi", b"hi"]  # type: ignore[arg-type]  # it is one
        await transport.close()  # type: ignore[attr-defined]  # as above


async def test_a_client_that_leaves_during_its_authentication_ends_it() -> None:
    waiting = Waiting("refused")
    async with serving(identify=lambda _facts: "wait", wait=waiting.wait) as server:
        async with client(server) as (_, writer):
            writer.write(request())
            await waiting.begun.wait()
        await waiting.ended.wait()


async def test_the_deadline_of_the_handshake_does_not_end_an_authentication() -> None:
    waiting = Waiting("refused")
    limits = TransportLimits(handshake_deadline=0.05)
    async with (
        serving(limits, identify=lambda _facts: "wait", wait=waiting.wait) as server,
        client(server) as (reader, writer),
        client(server) as (late, _),
    ):
        writer.write(request())
        await waiting.begun.wait()
        assert (await late.read()).startswith(b"HTTP/1.1 408 "), "the deadline of a later connection is over"
        waiting.go_on.set()
        assert (await reader.read()).startswith(b"HTTP/1.1 401 ")


async def test_an_authentication_that_fails_gets_500_and_ends_only_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(_refusal: str) -> str:
        raise OSError("no key")

    async with serving(identify=lambda _facts: "wait", wait=fail) as server:
        assert (await response(server, request())).startswith(b"HTTP/1.1 500 ")
        assert (await response(server, request())).startswith(b"HTTP/1.1 500 ")
