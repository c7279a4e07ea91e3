"""A connection behaves the same whichever side dialled it: client and listener each take the role under test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import ServerConnection

from dragoman.adapters.base import CloseReason, TransportLimits
from dragoman.adapters.send_queue import count_unread
from dragoman.adapters.websocket import DialledTransport, WebSocketTransport, connect, transport
from dragoman.adapters.websocket.frames import text_frames
from dragoman.adapters.websocket.transport import address
from dragoman.mappings.dialect import HEAD, Oversize
from tests.adapters.websocket import test_client, test_server
from tests.adapters.websocket.peers import (
    FLOOD,
    LIMITS,
    SMALL,
    RawPeer,
    close_when_stalled,
    flood,
    refused,
    send_all,
    serving,
    some,
    stalled,
)
from tests.awaited import until
from tests.idle import settle
from tests.transport_reader import receive, receive_all


@pytest.fixture(params=["client", "server"])
def side(request: pytest.FixtureRequest) -> str:
    return str(request.param)


CLOSED = (0x88, b"\x03\xe8")
BRIEF = TransportLimits(close_deadline=0.05)  # for an end that does not answer a close, as nobody receives there


@asynccontextmanager
async def ends(
    side: str, limits: TransportLimits = LIMITS
) -> AsyncIterator[tuple[WebSocketTransport, WebSocketTransport]]:
    """Return the transport of `side`, and the one at the other end."""
    async with serving(limits) as server:
        client = await connect(server.url, limits)
        accepted = await server.next()
        try:
            yield (client, accepted) if side == "client" else (accepted, client)
        finally:
            await asyncio.gather(client.close(), accepted.close())
            assert client._session.closed


Library = ClientConnection | ServerConnection


@asynccontextmanager
async def library(side: str, limits: TransportLimits = LIMITS) -> AsyncIterator[tuple[Library, WebSocketTransport]]:
    """Yield a connection of the websockets library, and the transport of `side` at the other end."""
    async with AsyncExitStack() as stack:
        if side == "client":
            yield await stack.enter_async_context(test_client.dialled(limits))
        else:
            server = await stack.enter_async_context(serving(limits))
            yield await stack.enter_async_context(test_server.dialled(server))


@asynccontextmanager
async def bytewise(side: str, limits: TransportLimits = LIMITS) -> AsyncIterator[tuple[RawPeer, WebSocketTransport]]:
    """Yield a peer that writes its own bytes, and the transport of `side` at the other end."""
    async with AsyncExitStack() as stack:
        if side == "client":
            yield await stack.enter_async_context(test_client.raw(limits))
        else:
            server = await stack.enter_async_context(serving(limits))
            yield await stack.enter_async_context(test_server.raw(server))


def head(frame: bytes) -> tuple[int, int]:
    """Return the first byte of a frame, and its size, without the mark of a key."""
    return frame[0], frame[1] & 0x7F


async def test_a_burst_arrives_completely_and_in_order_both_ways(side: str) -> None:
    frames = [b'{"n":%d}' % n for n in range(10_000)]
    async with library(side) as (peer, ours), asyncio.TaskGroup() as group:
        group.create_task(send_all(ours, frames))
        assert [await peer.recv(decode=False) for _ in frames] == frames
        received = group.create_task(some(ours, len(frames)))
        for frame in frames:
            await peer.send(frame, text=True)
        assert await received == frames


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1_000_000])
async def test_every_size_of_header_is_read_and_written(size: int, side: str) -> None:
    frame = b"x" * size
    async with library(side) as (peer, ours):
        await ours.send([frame, b"next"])
        assert [await peer.recv(decode=False), await peer.recv(decode=False)] == [frame, b"next"]
        await peer.send(frame, text=True)
        assert await receive(ours) == [frame]


async def test_a_binary_websocket_message_is_a_frame(side: str) -> None:
    async with library(side) as (peer, ours):
        await peer.send(b"\xff{}")
        assert await receive(ours) == [b"\xff{}"]


async def test_a_message_in_fragments_is_one_frame(side: str) -> None:
    async with library(side) as (peer, ours):
        await peer.send(["one ", "two ", "three"])
        assert await receive(ours) == [b"one two three"]


async def test_invalid_utf8_is_passed_on_to_the_dialect(side: str) -> None:
    async with bytewise(side) as (peer, ours):
        peer.write((0x81, b"\xff\xfe"), (0x81, b"{}"))
        assert await some(ours, 2) == [b"\xff\xfe", b"{}"]


async def test_one_receive_returns_all_ready_frames(side: str) -> None:
    async with bytewise(side) as (peer, ours):
        peer.write((0x81, b"one"), (0x81, b"two"), (0x82, b"three"))
        assert await receive(ours) == [b"one", b"two", b"three"]


async def test_an_oversized_message_loses_only_that_message(side: str) -> None:
    async with library(side, SMALL) as (peer, ours):
        for size in (1000, 1001, 3999):
            await peer.send("x" * size)
        await peer.send(["x" * 600, "x" * 600])
        await peer.send("next")
        oversize = [Oversize(size=size, limit=1000, head=b"x" * min(size, HEAD)) for size in (1001, 3999, 1200)]
        assert await some(ours, 5) == [b"x" * 1000, *oversize, b"next"]


async def test_a_message_far_over_the_limit_closes_with_1009(side: str) -> None:
    async with library(side, SMALL) as (peer, ours):
        await peer.send("one")
        await peer.send("x" * 4001)
        assert await receive_all(ours) == [b"one"]
        await peer.wait_closed()
        assert peer.close_code == 1009


async def test_a_ping_among_messages_is_answered_without_delaying_them(side: str) -> None:
    async with library(side) as (peer, ours), asyncio.TaskGroup() as group:
        await peer.send("one")
        answered = await peer.ping(b"are you there")
        assert await receive(ours) == [b"one"]
        waiting = group.create_task(receive(ours))
        await answered
        assert not waiting.done()
        await peer.send("two")
        assert await waiting == [b"two"]


async def test_a_ping_that_can_no_longer_be_answered_does_not_hide_the_frames_behind_it(side: str) -> None:
    async with bytewise(side) as (peer, ours):
        peer.write((0x81, b"one"), (0x89, b""), (0x81, b"two"))
        await peer.writer.drain()
        peer.writer.transport.abort()
        await ours._lost.wait()
        assert await receive_all(ours) == [b"one", b"two"]


async def test_send_waits_for_a_peer_that_does_not_read(side: str) -> None:
    limits = TransportLimits(send_high=64 * 1024, close_deadline=1.0)
    piece = 4 * (1024 + (8 if side == "client" else 4))  # what `flood` sends at once: frames with headers, and keys
    async with bytewise(side, limits) as (peer, ours), asyncio.TaskGroup() as group:
        sending = group.create_task(flood(ours))
        await stalled(ours, limits.send_high)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not sending.done()
        assert ours._tcp.get_write_buffer_size() < limits.send_high + 2 * piece, "the mark and what went past it"
        for _ in range(FLOOD):
            await peer.reader.readexactly(piece)


async def test_a_send_that_was_cancelled_does_not_break_the_next(side: str) -> None:
    limits = TransportLimits(send_high=64 * 1024, close_deadline=0.05)
    async with bytewise(side, limits) as (peer, ours), asyncio.TaskGroup() as group:
        first = group.create_task(flood(ours))
        await stalled(ours, limits.send_high)
        first.cancel()
        await asyncio.wait((first,))
        second = group.create_task(ours.send([b"the end"]))
        while not second.done():
            assert await peer.reader.read(1 << 20)


async def test_a_gateway_that_does_not_receive_stops_the_peer(side: str) -> None:
    async with bytewise(side) as (peer, ours):
        sent = 0
        while peer.writer.transport.get_write_buffer_size() < 1024 * 1024:
            peer.write(*[(0x81, b"x" * 100)] * 100)
            sent += 100
            await asyncio.sleep(0)
        assert sent * 100 < 64 * 1024 * 1024, "the kernel's buffers and ours"
        assert await some(ours, sent) == [b"x" * 100] * sent


async def test_the_peer_is_named_by_its_address(side: str) -> None:
    async with library(side) as (peer, ours):
        host, port = peer.local_address
        assert ours.peer == f"{host}:{port}"


async def test_try_send_writes_a_frame_at_once_and_in_order(side: str) -> None:
    async with ends(side, BRIEF) as (ours, other):
        assert ours.try_send([b"a", b"b"])
        await ours.send([b"c"])
        assert await some(other, 3) == [b"a", b"b", b"c"]
        await ours.close()
        assert not ours.try_send([b"late"])


class CountingTransport:
    """A TCP transport that remembers its writes."""

    def __init__(self, tcp: asyncio.Transport) -> None:
        self.tcp = tcp
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self.tcp.write(data)

    def is_closing(self) -> bool:
        return self.tcp.is_closing()


async def test_all_frames_of_one_send_are_one_write(side: str) -> None:
    frames = [b'{"n":%d}' % n for n in range(500)]
    async with ends(side) as (ours, other):
        counting = CountingTransport(ours._writer._tcp)
        ours._writer._tcp = counting  # type: ignore[assignment]  # has what is called
        await ours.send(frames)
        keys = 4 * len(frames) if isinstance(ours, DialledTransport) else 0
        assert [len(data) for data in counting.writes] == [len(text_frames(frames)) + keys]
        assert await some(other, len(frames)) == frames


# -- the end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", list(CloseReason))
async def test_the_peer_gets_the_reason_of_our_close(reason: CloseReason, side: str) -> None:
    async with library(side) as (peer, ours):
        await ours.close(reason, "because")
        await peer.wait_closed()
        assert (peer.close_code, peer.close_reason) == (reason, "because")


@pytest.mark.parametrize("code", [1000, 1001, 1009, 1011, 4000])
async def test_a_peer_that_closes_ends_receive_after_its_last_frame(code: int, side: str) -> None:
    async with library(side) as (peer, ours):
        async with asyncio.TaskGroup() as group:
            received = group.create_task(receive_all(ours))
            await peer.send("last words")
            await peer.close(code, "because")
        assert received.result() == [b"last words"]
        assert peer.close_code == 1000, "the close was answered"
        assert ours.reason == ("" if code == 1000 else f"closed with code {code}, because")
        await refused(ours.send([b"anybody?"]))


ENDS = {
    "no code": (0x88, b""),
    "half a code": (0x88, b"\x03"),
    "a reason that is not UTF-8": (0x88, b"\x03\xe8\xff\xfe"),
    "code 1005": (0x88, b"\x03\xed"),
    "opcode 3": (0x83, b""),
    "compressed": (0xC1, b"{}"),
    "continues nothing": (0x80, b""),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_each_kind_of_end_ends_receive_after_the_last_frame(end: tuple[int, bytes], side: str) -> None:
    async with bytewise(side, BRIEF) as (peer, ours):
        peer.write((0x81, b"one"), end)
        assert await receive_all(ours) == [b"one"]


async def test_frames_behind_a_close_of_the_peer_are_not_read(side: str) -> None:
    async with bytewise(side, BRIEF) as (peer, ours):
        peer.write((0x81, b"one"), CLOSED, *[(0x81, b"late")] * 10)
        assert await receive_all(ours) == [b"one"]
        assert await receive(ours) == []


async def test_a_peer_that_vanishes_ends_receive_after_its_last_frame(side: str) -> None:
    async with bytewise(side) as (peer, ours):
        peer.write((0x81, b"one"), (0x81, b"two"))
        await peer.writer.drain()
        peer.writer.transport.abort()
        assert await receive_all(ours) == [b"one", b"two"]


@pytest.mark.parametrize("received", [True, False])
async def test_sending_to_a_gone_peer_raises_connection_error(received: bool, side: str) -> None:
    async with bytewise(side) as (peer, ours):
        peer.writer.transport.abort()
        if received:
            assert await receive(ours) == []
        else:
            await ours._lost.wait()
        await refused(ours.send([b"anybody?"]))


@pytest.mark.parametrize("receiving", [True, False])
async def test_a_peer_that_died_silently_is_detected(receiving: bool, side: str) -> None:
    async with bytewise(side, TransportLimits(heartbeat=0.05, close_deadline=1.0)) as (peer, ours):
        if receiving:
            assert await receive(ours) == []
        assert head(await peer.until_end()) == (0x89, 0), "a ping came first"
        assert await receive(ours) == []


@pytest.mark.parametrize(("reads", "tells", "lives"), [(True, True, True), (False, True, False), (False, False, True)])
async def test_a_peer_that_is_not_read_must_take_what_waits_for_it_if_the_system_tells(
    reads: bool, tells: bool, lives: bool, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not tells:
        monkeypatch.setattr(transport, "count_confirmed", lambda _descriptor: 0)
    limits = TransportLimits(heartbeat=1800, close_deadline=1.0, send_high=1024)
    async with ends(side, limits) as (ours, other):
        ours.hold(waits=True)
        if not reads:
            other._tcp.pause_reading()
            while ours.try_send([b"x" * 1_000_000]):
                pass
        for since in (1800, 900, 900):
            ours._check_heartbeat(since)
            await settle()
            if reads:
                await until(lambda: not count_unread(ours._tcp.get_extra_info("socket").fileno()))
        assert ours._tcp.is_closing() is not lives
        other._tcp.abort()


async def test_close_gives_up_on_a_peer_that_does_not_answer(side: str) -> None:
    async with bytewise(side, BRIEF) as (peer, ours):
        await ours.close(CloseReason.GOING_AWAY)
        assert head(await peer.until_end()) == (0x88, 2)


async def test_close_gives_up_on_a_peer_that_does_not_read(side: str) -> None:
    async with bytewise(side, TransportLimits(close_deadline=0.05, send_high=1024)) as (_, ours):
        sent, closed = await asyncio.gather(flood(ours), close_when_stalled(ours, 1024), return_exceptions=True)
        assert isinstance(sent, ConnectionError)
        assert closed is None


async def test_frames_sent_before_a_close_arrive(side: str) -> None:
    async with ends(side) as (ours, other):
        await ours.send([b"one", b"two"])
        received, _ = await asyncio.gather(receive_all(other), ours.close(CloseReason.GOING_AWAY))
        assert received == [b"one", b"two"]


async def test_both_peers_may_close_the_connection_at_once(side: str) -> None:
    async with ends(side) as (ours, other):
        await asyncio.gather(ours.close(CloseReason.GOING_AWAY), other.close(CloseReason.INTERNAL))
        assert [await receive(ours), await receive(other)] == [[], []]


async def test_close_is_idempotent(side: str) -> None:
    async with ends(side, BRIEF) as (ours, _):
        await asyncio.gather(ours.close(CloseReason.GOING_AWAY), ours.close(CloseReason.DONE))
        await ours.close()
        assert [await receive(ours) for _ in range(10)] == [[]] * 10


async def test_a_close_that_is_cancelled_drops_what_a_peer_that_does_not_read_was_sent() -> None:
    limits = TransportLimits(close_deadline=3600, send_high=1024)
    async with ends("server", limits) as (ours, other), asyncio.TaskGroup() as group:
        other._tcp.pause_reading()
        while ours.try_send([b"x" * 1_000_000]):
            pass
        closing = group.create_task(ours.close())
        await settle()
        closing.cancel()
        await asyncio.wait((closing,))
        async with asyncio.timeout(10):
            await ours._lost.wait()
        other._tcp.abort()


async def test_no_frames_are_received_after_our_own_close(side: str) -> None:
    async with ends(side, BRIEF) as (ours, other):
        await other.send([b"one"])
        assert await receive(ours) == [b"one"]
        await other.send([b"late"])
        await ours.close()
        assert [await receive(ours) for _ in range(10)] == [[]] * 10


async def test_sending_after_our_own_close_raises_connection_error(side: str) -> None:
    async with ends(side, BRIEF) as (ours, _):
        await ours.close()
        await refused(ours.send([b"late"]))


# -- the closing handshake, with a client that writes its own bytes ------------------------------------

LONG = TransportLimits(close_deadline=3600)


async def test_a_close_frame_is_answered_with_a_close_frame() -> None:
    async with serving(LONG) as server, test_server.raw(server) as (client, ours):
        client.write(CLOSED)
        assert await receive(ours) == []
        assert await client.until_end() == b"\x88\x02\x03\xe8"


async def test_messages_up_to_the_close_frame_of_the_peer_are_dropped() -> None:
    async with serving(LONG) as server, test_server.raw(server) as (client, ours), asyncio.TaskGroup() as group:
        closing = group.create_task(ours.close())
        assert await client.reader.readexactly(4) == b"\x88\x02\x03\xe8"
        client.write((0x81, b"late"), (0x89, b""), CLOSED)
        await closing
        assert await client.until_end() == b"", "no pong follows a close frame"


async def test_the_code_and_reason_of_a_broken_stream_are_told_to_the_peer() -> None:
    async with serving(BRIEF) as server, test_server.raw(server) as (client, ours):
        client.write((0xF1, b"reserved bits"))
        assert await receive(ours) == []
        reason = b"unknown opcode, or a reserved bit is set"
        assert await client.until_end() == b"\x88" + bytes([len(reason) + 2]) + b"\x03\xea" + reason


@pytest.mark.parametrize("code", [1006, 5000, 65535])
async def test_a_close_code_that_no_peer_may_send_is_a_protocol_error(code: int) -> None:
    async with serving(BRIEF) as server, test_server.raw(server) as (client, ours):
        client.write((0x88, code.to_bytes(2)))
        assert await receive(ours) == []
        assert (await client.until_end())[2:] == b"\x03\xea" + b"no peer may send the close code %d" % code


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert [address(("127.0.0.1", 1)), address(("::1", 1))] == ["127.0.0.1:1", "[::1]:1"]


def test_a_peer_without_an_address_has_a_name_all_the_same() -> None:
    assert address(None) == "a disconnected peer"
