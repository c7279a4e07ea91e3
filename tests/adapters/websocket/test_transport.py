"""A connection behaves the same whichever side dialled it: client and listener each take the role under test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dragoman.adapters.base import CloseReason, TransportLimits
from dragoman.adapters.websocket import DialledTransport, WebSocketTransport, connect
from dragoman.adapters.websocket.frames import text_frames
from dragoman.adapters.websocket.transport import address
from tests.adapters.websocket.peers import LIMITS, refused, serving, some
from tests.adapters.websocket.test_server import raw
from tests.idle import settle
from tests.transport_reader import receive, receive_all


@pytest.fixture(params=["client", "server"])
def side(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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

CLOSED = (0x88, b"\x03\xe8")
LONG = TransportLimits(close_deadline=3600)


async def test_a_close_frame_is_answered_with_a_close_frame() -> None:
    async with serving(LONG) as server, raw(server) as (client, ours):
        client.write(CLOSED)
        assert await receive(ours) == []
        assert await client.until_end() == b"\x88\x02\x03\xe8"


async def test_messages_up_to_the_close_frame_of_the_peer_are_dropped() -> None:
    async with serving(LONG) as server, raw(server) as (client, ours), asyncio.TaskGroup() as group:
        closing = group.create_task(ours.close())
        assert await client.reader.readexactly(4) == b"\x88\x02\x03\xe8"
        client.write((0x81, b"late"), (0x89, b""), CLOSED)
        await closing
        assert await client.until_end() == b"", "no pong follows a close frame"


async def test_the_code_and_reason_of_a_broken_stream_are_told_to_the_peer() -> None:
    async with serving(TransportLimits(close_deadline=0.05)) as server, raw(server) as (client, ours):
        client.write((0xF1, b"reserved bits"))
        assert await receive(ours) == []
        reason = b"unknown opcode, or a reserved bit is set"
        assert await client.until_end() == b"\x88" + bytes([len(reason) + 2]) + b"\x03\xea" + reason


@pytest.mark.parametrize("code", [1006, 5000, 65535])
async def test_a_close_code_that_no_peer_may_send_is_a_protocol_error(code: int) -> None:
    async with serving(TransportLimits(close_deadline=0.05)) as server, raw(server) as (client, ours):
        client.write((0x88, code.to_bytes(2)))
        assert await receive(ours) == []
        assert (await client.until_end())[2:] == b"\x03\xea" + b"no peer may send the close code %d" % code


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert [address(("127.0.0.1", 1)), address(("::1", 1))] == ["127.0.0.1:1", "[::1]:1"]


def test_a_peer_without_an_address_has_a_name_all_the_same() -> None:
    assert address(None) == "a disconnected peer"
