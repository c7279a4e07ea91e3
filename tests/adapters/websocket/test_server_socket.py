"""The closing handshake and the pongs of a listener, against a peer that writes its own bytes."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import WSMsgType

from dragoman.adapters.base import TransportLimits
from tests.adapters.websocket.peers import serving
from tests.adapters.websocket.test_server import raw
from tests.transport_reader import receive

CLOSE = (0x88, b"\x03\xe8")
LONG = TransportLimits(close_deadline=3600)


async def test_a_close_frame_is_answered_with_a_close_frame() -> None:
    async with serving(LONG) as server, raw(server) as (client, ours):
        client.write(CLOSE)
        assert await receive(ours) == []
        assert await client.until_end() == b"\x88\x02\x03\xe8"


async def test_messages_up_to_the_close_frame_of_the_peer_are_dropped() -> None:
    async with serving(LONG) as server, raw(server) as (client, ours), asyncio.TaskGroup() as group:
        closing = group.create_task(ours.close())
        assert await client.reader.readexactly(4) == b"\x88\x02\x03\xe8"
        client.write((0x81, b"late"), (0x89, b""), CLOSE)
        await closing
        assert await client.until_end() == b"", "no pong follows a close frame"


async def test_a_receive_that_waits_ends_when_the_socket_is_closed() -> None:
    async with serving(LONG) as server, raw(server) as (client, ours), asyncio.TaskGroup() as group:
        waiting = group.create_task(ours._socket.receive())
        await asyncio.sleep(0)
        closing = group.create_task(ours._socket.close(code=1001, message=b"bye"))
        assert (await waiting).type is WSMsgType.CLOSED
        assert await client.reader.readexactly(7) == b"\x88\x05\x03\xe9bye"
        client.write(CLOSE)
        await closing


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
