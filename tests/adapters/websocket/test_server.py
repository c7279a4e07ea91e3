"""The WebSocket listener against clients of aiohttp and websockets, and against raw TCP peers that behave badly."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import WSMsgType
from aiohttp.http import HttpRequestParser
from websockets.asyncio.client import ClientConnection, connect

from dragoman.adapters.base import CloseReason, TransportLimits
from dragoman.adapters.send_queue import count_confirmed, count_unread
from dragoman.adapters.websocket import WebSocketTransport, listen
from dragoman.adapters.websocket.handshake import Handshake
from dragoman.adapters.websocket.server import REFUSING_MAX
from dragoman.adapters.websocket.transport import PONGS_MAX
from tests.adapters.websocket.peers import (
    FLOOD,
    KERNEL,
    LIMITS,
    RawPeer,
    Server,
    everybody,
    flood,
    refused,
    request,
    serving,
    stalled,
)
from tests.awaited import until
from tests.idle import settle
from tests.transport_reader import receive, receive_all


@asynccontextmanager
async def dialled(server: Server) -> AsyncIterator[tuple[ClientConnection, WebSocketTransport]]:
    """Yield a client of the websockets library, and the transport of ours that accepted it."""
    async with connect(server.url, max_size=None, max_queue=None, ping_interval=None) as client:
        ours = await server.next()
        yield client, ours
        await ours.close()


@asynccontextmanager
async def handshake(server: Server, *headers: str, behind: bytes = b"") -> AsyncIterator[tuple[str, RawPeer]]:
    """Send an upgrade request with these additional headers and data behind it; return the head of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request(*headers) + behind)
    head = await reader.readuntil(b"\r\n\r\n")
    try:
        yield head.decode(), RawPeer(reader, writer, masks=True)
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def raw(server: Server) -> AsyncIterator[tuple[RawPeer, WebSocketTransport]]:
    async with handshake(server) as (_, client):
        yield client, await server.next()


# -- frames --------------------------------------------------------------------------------------------


async def test_frames_go_both_ways() -> None:
    async with serving() as server, aiohttp.ClientSession() as session, session.ws_connect(server.url) as client:
        ours = await server.next()
        await client.send_str('{"action":"ping"}')
        assert await receive(ours) == [b'{"action":"ping"}']
        await ours.send([b'{"type":"pong"}'])
        message = await client.receive()
        assert (message.type, message.data) == (WSMsgType.TEXT, '{"type":"pong"}')
        async with asyncio.TaskGroup() as group:
            group.create_task(ours.close())
            assert (await client.receive()).type is WSMsgType.CLOSE


def accepted(client: object) -> socket.socket:
    """Return our end of a client's connection, as a copy."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError), ExitStack() as stack:
            ours = stack.enter_context(socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM))
            if ours.getpeername() == client:
                stack.pop_all()
                return ours
    raise AssertionError("no such connection")


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are found in /proc")
async def test_an_accepted_connection_sends_at_once_and_finds_out_that_its_peer_is_gone() -> None:
    async with serving() as server, handshake(server) as (_, client):
        await server.next()
        with accepted(client.writer.get_extra_info("sockname")) as ours:
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_each_ping_and_pong_of_a_client_is_counted() -> None:
    counted: list[int] = []
    async with serving() as server, raw(server) as (client, ours):
        ours.watch_pings(counted.append)
        client.write(*[(0x89, b"")] * 100, *[(0x8A, b"")] * 50, (0x81, b"one"))
        assert await receive(ours) == [b"one"]
    assert sum(counted) == 150


# -- the end -------------------------------------------------------------------------------------------


async def test_a_long_reason_is_cut_to_what_a_close_frame_holds() -> None:
    async with serving() as server, dialled(server) as (client, ours):
        await ours.close(CloseReason.DONE, "é" * 100)
        await client.wait_closed()
        assert client.close_reason == "é" * 61


async def test_close_ends_a_waiting_receive() -> None:
    async with serving() as server, dialled(server) as (_, ours):
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(receive(ours))
            await asyncio.sleep(0)
            await ours.close()
        assert waiting.result() == []


async def test_the_last_pings_of_a_flood_are_answered() -> None:
    pings = [b"%d" % number for number in range(PONGS_MAX + 1)]
    async with serving() as server, raw(server) as (client, ours), asyncio.TaskGroup() as group:
        reading = group.create_task(receive(ours))
        client.write(*[(0x89, ping) for ping in pings])
        answers = b"".join(bytes((0x8A, len(ping))) + ping for ping in pings)
        answered = await client.reader.readexactly(len(b"\x8a\x0264"))
        while not answers.endswith(answered) or len(answered) < len(pings[-1]) + 2:
            answered += await client.reader.read(1 << 16)
        assert answers.endswith(answered)
        client.write((0x81, b"one"))
        await reading


async def test_a_client_that_does_not_read_gets_the_answer_to_its_last_ping_once_it_reads() -> None:
    limits = TransportLimits(send_high=1024, close_deadline=1.0)
    frame = b"x" * 8 * 1024 * 1024
    async with serving(limits) as server, raw(server) as (client, ours):
        counted: list[int] = []
        ours.watch_pings(counted.append)
        assert ours.try_send([frame])
        for ping in (b"first", b"last"):
            client.write((0x89, ping))
            before = len(counted)
            while len(counted) == before:
                await settle()
        assert not ours.try_send([b"late"])
        got = await client.reader.readexactly(10 + len(frame) + 6)
        assert got[-6:] == b"\x8a\x04last"


async def test_a_client_that_reads_slowly_is_not_taken_for_dead() -> None:
    """Its answer to a ping comes only after all that was sent before the ping."""
    limits = TransportLimits(heartbeat=3600, send_high=1024, close_deadline=0.05)
    async with serving(limits) as server, raw(server) as (client, ours), asyncio.TaskGroup() as group:
        group.create_task(refused(flood(ours)))
        await stalled(ours, 1024)
        ours._check_heartbeat(3600)
        while count_confirmed(descriptor(ours)) == ours._confirmed:
            await client.reader.readexactly(4 * 1028)
        ours._check_heartbeat(1800)
        assert not ours._tcp.is_closing(), "it read"
        while not ours._tcp.is_closing():
            ours._check_heartbeat(1800)
            await asyncio.sleep(0)


async def test_a_peer_that_takes_nothing_is_taken_for_dead_also_if_more_is_sent_to_it() -> None:
    limits = TransportLimits(heartbeat=3600, send_high=1024, close_deadline=0.05)
    async with serving(limits) as server, raw(server) as (_, ours), asyncio.TaskGroup() as group:
        group.create_task(refused(flood(ours)))
        await stalled(ours, 1024)
        await settle()
        ours._check_heartbeat(3600)
        unread = count_unread(descriptor(ours))
        # Linux calls a socket writable once a third of its buffer is free.
        ours._tcp.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * KERNEL)
        await until(lambda: count_unread(descriptor(ours)) > unread)
        ours._check_heartbeat(1800)
        assert ours._tcp.is_closing()


def descriptor(transport: WebSocketTransport) -> int:
    return int(transport._tcp.get_extra_info("socket").fileno())


# -- what an open connection keeps of its handshake ----------------------------------------------------


async def test_an_open_connection_keeps_no_request_and_no_http_parser() -> None:
    async with serving() as server, dialled(server):
        gc.collect()
        kept = [one for one in gc.get_objects() if isinstance(one, HttpRequestParser | Handshake)]
        assert kept == []


async def test_a_handshake_needs_no_task() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        before = asyncio.all_tasks()
        writer.write(request())
        await reader.readuntil(b"\r\n\r\n")
        await server.next()
        assert asyncio.all_tasks() == before
        writer.transport.abort()


async def test_frames_sent_with_the_handshake_are_received_before_a_close() -> None:
    said = b"\x81\x82" + bytes(4) + b"hi" + b"\x88\x80" + bytes(4)  # a message and a close
    async with serving() as server, handshake(server, behind=said) as (_, client):
        ours = await server.next()
        assert await receive_all(ours) == [b"hi"]
        assert (await client.until_end())[:1] == b"\x88"
        await ours.close()


# -- back-pressure -------------------------------------------------------------------------------------


async def test_a_send_continues_if_another_send_to_the_same_peer_is_cancelled() -> None:
    limits = TransportLimits(send_high=64 * 1024, close_deadline=0.05)
    async with serving(limits) as server, raw(server) as (client, ours), asyncio.TaskGroup() as group:
        first = group.create_task(flood(ours))
        await stalled(ours, limits.send_high)
        shared = ours._writer._protocol._drain_waiter
        assert shared is not None
        shared.cancel()  # as aiohttp does when a pong that waits in its _drain_helper is cancelled
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not first.done()
        assert ours._writer._protocol._drain_waiter not in (None, shared), "it waits anew and does not spin"
        for _ in range(FLOOD):
            await client.reader.readexactly(4 * 1028)
        await first


# -- the handshake -------------------------------------------------------------------------------------


async def get(url: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url.replace("ws:", "http:"), headers=headers) as answer:
        return answer.status, await answer.text()


async def shake(server: Server, *headers: str) -> int:
    async with handshake(server, *headers) as (head, _):
        return int(head.split()[1])


async def test_the_address_with_its_dialect_is_the_endpoint() -> None:
    async with serving() as server:
        assert server.url == f"ws://127.0.0.1:{server.port}/ws"
        assert server.port > 0


@pytest.mark.parametrize("path", ["/", "/ws/", "/wss", "/other"])
async def test_a_request_for_another_path_is_told_the_right_path(path: str) -> None:
    async with serving() as server:
        status, text = await get(server.url.removesuffix("/ws") + path, Upgrade="websocket")
        assert (status, text) == (404, f"nothing at '{path}': open a WebSocket at /ws\n")


async def test_plain_http_is_told_to_upgrade() -> None:
    async with serving() as server:
        status, text = await get(server.url)
        assert (status, text) == (426, "this is a WebSocket endpoint: open a WebSocket (version 13) at /ws\n")


@pytest.mark.parametrize(
    "origin",
    ["http://localhost", "https://localhost:3000", "http://127.0.0.1:8787", "http://[::1]:5173"],
)
async def test_an_origin_on_loopback_is_accepted(origin: str) -> None:
    async with serving() as server:
        assert await shake(server, f"Origin: {origin}") == 101


async def test_a_program_without_an_origin_is_accepted() -> None:
    async with serving() as server:
        assert await shake(server) == 101


FOREIGN = [
    "https://evil.example",
    "http://localhost.evil.example",
    "http://127.0.0.1@evil.example",
    "http://127.0.0.2:80",
    "file://localhost",
    "null",
    "http://[::1",
    "",
]


@pytest.mark.parametrize("origin", FOREIGN)
async def test_another_origin_is_refused(origin: str) -> None:
    async with serving() as server:
        assert await shake(server, f"Origin: {origin}") == 403


async def test_the_refusal_of_an_origin_names_the_option() -> None:
    async with serving() as server:
        status, text = await get(server.url, Origin="https://evil.example")
        assert status == 403
        assert "'https://evil.example'" in text
        assert "?origin=https://app.example" in text
        assert text.count("\n") == 1


async def test_only_origins_that_were_named_are_accepted() -> None:
    async with serving(origins=("https://App.example/",)) as server:
        assert await shake(server, "Origin: https://app.example") == 101
        assert await shake(server, "Origin: https://app.example:8443") == 403


async def test_an_asterisk_accepts_every_origin() -> None:
    async with serving(origins=("*",)) as server:
        assert [await shake(server, f"Origin: {origin}") for origin in FOREIGN] == [101] * len(FOREIGN)


async def test_compression_is_not_negotiated() -> None:
    async with serving() as server, handshake(server, "Sec-WebSocket-Extensions: permessage-deflate") as (head, _):
        assert head.startswith("HTTP/1.1 101 ")
        assert "extensions" not in head.lower()


async def test_an_offer_of_subprotocols_is_ignored_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server, handshake(server, "Sec-WebSocket-Protocol: chat, superchat") as (head, _):
        assert head.startswith("HTTP/1.1 101 ")
        assert "-protocol" not in head.lower()
    assert caplog.records == []


@pytest.mark.parametrize("version", ["8", "12", "14", "x"])
async def test_a_request_for_another_version_is_told_the_right_one(version: str) -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(version=version))
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.close()
    assert head.startswith("HTTP/1.1 426 ")
    assert "Sec-WebSocket-Version: 13\r\n" in head


async def test_a_port_in_use_is_refused() -> None:
    async with serving() as server:
        with pytest.raises(OSError, match=str(server.port)):
            await listen("127.0.0.1", server.port, "/ws", LIMITS, everybody(server.accept))


def upgrade(server: Server, said: bytes) -> socket.socket:
    """Connect a client and send these bytes before the event loop can accept it."""
    client = socket.create_connection(("127.0.0.1", server.port), timeout=1)
    client.sendall(said)
    client.setblocking(False)
    return client


async def test_a_client_whose_request_came_before_the_listener_closed_is_served() -> None:
    loop = asyncio.get_running_loop()
    async with serving() as server:
        with upgrade(server, request()) as client:
            await server.listener.close()
            assert (await loop.sock_recv(client, 1 << 16)).startswith(b"HTTP/1.1 101 ")
            ours = await server.next()
            await ours.send([b"hello"])
            assert await loop.sock_recv(client, 1 << 16) == b"\x81\x05hello"


async def test_a_client_that_only_connected_before_the_listener_closed_is_disconnected() -> None:
    async with serving() as server:
        with upgrade(server, b"") as client:
            await server.listener.close()
            assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


@pytest.mark.parametrize("said", [b"", b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\n"], ids=["nothing", "a part"])
async def test_a_client_that_does_not_finish_its_handshake_is_disconnected(said: bytes) -> None:
    async with serving(TransportLimits(close_deadline=1.0, handshake_deadline=0.05)) as server:
        with upgrade(server, said) as client:
            answer = [await asyncio.get_running_loop().sock_recv(client, 1024) for _ in range(2)]
            assert (answer[0][:13], answer[1]) == (b"HTTP/1.1 408 ", b"")
        assert server.transports == []


async def test_the_deadline_of_the_handshake_does_not_end_an_open_connection() -> None:
    async with (
        serving(TransportLimits(close_deadline=1.0, handshake_deadline=0.05)) as server,
        dialled(server) as (client, ours),
    ):
        with upgrade(server, b"") as later:
            await asyncio.get_running_loop().sock_recv(later, 1)  # its deadline came after that of the first client
        await client.send("still here")
        assert await receive(ours) == [b"still here"]


async def test_closing_a_listener_keeps_its_peers_and_disconnects_clients_before_their_handshake() -> None:
    async with serving() as server, dialled(server) as (client, ours):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /nothing HTTP/1.1\r\n")
        await settle()
        await server.listener.close()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        await client.send("still here")
        assert await receive(ours) == [b"still here"]


class Room:
    """Room for so many connections at once, and the peers that asked for it."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.asked: list[str] = []
        self.left = asyncio.Event()

    def connect(self, peer: str) -> str:
        self.asked.append(peer)
        if not self.room:
            return "no room"
        self.room -= 1
        return ""

    def disconnect(self, peer: str) -> None:
        assert peer in self.asked
        self.room += 1
        self.left.set()


async def test_a_peer_for_which_there_is_no_room_gets_503_and_the_reason_before_its_handshake() -> None:
    room = Room(0)
    async with serving(connect=room.connect, disconnect=room.disconnect) as server:
        async with handshake(server) as (head, refused):
            assert head.startswith("HTTP/1.1 503")
            assert "Retry-After: 1" in head
            assert await refused.until_end() == b"no room\n"
        assert server.transports == []
        room.room = 1
        async with handshake(server) as (head, _):
            assert head.startswith("HTTP/1.1 101")
        assert all(peer.startswith("127.0.0.1:") for peer in room.asked)


async def test_a_connection_counts_from_its_accept_until_it_is_lost() -> None:
    room = Room(1)
    async with serving(connect=room.connect, disconnect=room.disconnect) as server:
        with upgrade(server, b""):
            async with handshake(server) as (head, _):
                assert head.startswith("HTTP/1.1 503")
        await room.left.wait()
        async with handshake(server) as (head, _):
            assert head.startswith("HTTP/1.1 101")


async def test_most_connections_without_room_are_closed_before_they_say_anything() -> None:
    room = Room(0)
    loop = asyncio.get_running_loop()
    async with serving(connect=room.connect, disconnect=room.disconnect) as server, AsyncExitStack() as stack:
        silent = [stack.enter_context(upgrade(server, b"")) for _ in range(REFUSING_MAX + 3)]
        for client in silent[REFUSING_MAX:]:
            assert await loop.sock_recv(client, 1) == b""
        assert len(room.asked) == REFUSING_MAX + 3


async def host_answer(server: Server, host: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.evil", "[x", ""]
)
async def test_a_foreign_host_is_refused(host: str) -> None:
    async with serving() as server:
        assert await host_answer(server, host) == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:99", "LOCALHOST.", "[::1]:80", "192.0.2.7", "Gateway.example:1"]
)
async def test_a_host_header_that_dns_rebinding_cannot_use_is_accepted(host: str) -> None:
    async with serving(hosts=("gateway.example",)) as server:
        assert await host_answer(server, host) == 426, "not a WebSocket handshake, but the right host"
