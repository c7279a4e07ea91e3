"""A client's messages are counted while aiohttp holds them, whole or in fragments, until they are read or discarded."""

from __future__ import annotations

import asyncio
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dragoman.adapters.base import CloseReason, TransportLimits
from dragoman.adapters.meter import STEP
from dragoman.adapters.websocket import WebSocketTransport
from dragoman.adapters.websocket.message_parser import CLOSING_MAX
from tests.adapters.websocket.peers import LIMITS, RawPeer, serving, some
from tests.adapters.websocket.test_server import raw
from tests.idle import settle

SIZE = 20 * STEP
TEXT, FINAL, CONTINUED = 0x01, 0x80, 0x00
PING = b"\x89\x80" + bytes(4)


def begin(first: int, size: int) -> bytes:
    """Return the header of a masked frame of this size."""
    return struct.pack(">BBQ", first, 0x80 | 127, size) + bytes(4)


@asynccontextmanager
async def connected(limits: TransportLimits = LIMITS) -> AsyncIterator[tuple[RawPeer, WebSocketTransport]]:
    async with serving(limits) as server, raw(server) as (peer, ours):
        yield peer, ours


async def until_counted(transport: WebSocketTransport, size: int) -> None:
    async with asyncio.timeout(10):
        while not size - STEP < transport.meter.size < size + 2 * STEP:
            await settle()


async def test_an_unfinished_message_is_counted_and_a_finished_one_no_more_once_it_is_read() -> None:
    async with connected() as (peer, ours):
        peer.writer.write(begin(FINAL | TEXT, SIZE) + b"x" * (SIZE - 1))
        await until_counted(ours, SIZE)
        peer.writer.write(b"x")
        assert await some(ours, 1) == [b"x" * SIZE]
        assert ours.meter.size < STEP


async def test_fragments_are_counted_together_and_pings_between_them_hide_nothing() -> None:
    async with connected() as (peer, ours):
        peer.writer.write(begin(TEXT, SIZE) + b"x" * SIZE)
        await until_counted(ours, SIZE)
        peer.writer.write(PING + begin(CONTINUED, SIZE) + b"x" * SIZE + PING)
        await until_counted(ours, 2 * SIZE)
        peer.writer.write(begin(FINAL | CONTINUED, 2) + b"yz")
        assert await some(ours, 1) == [b"x" * 2 * SIZE + b"yz"]
        assert ours.meter.size < STEP


async def test_messages_that_wait_to_be_read_are_counted() -> None:
    async with connected() as (peer, ours):
        peer.writer.write((begin(FINAL | TEXT, SIZE) + b"x" * SIZE) * 2)
        await until_counted(ours, 2 * SIZE)
        await some(ours, 2)
        assert ours.meter.size < STEP


async def test_many_small_messages_that_were_read_leave_nothing_counted() -> None:
    async with connected() as (peer, ours):
        peer.writer.write((begin(FINAL | TEXT, 10) + b"x" * 10) * 20_000)
        assert len(await some(ours, 20_000)) == 20_000
        assert ours.meter.size < STEP


async def test_discarded_frames_and_later_ones_are_not_held() -> None:
    async with connected(TransportLimits(close_deadline=0.05)) as (peer, ours):
        peer.writer.write(begin(FINAL | TEXT, SIZE) + b"x" * (SIZE - 1))
        await until_counted(ours, SIZE)
        ours.discard()
        assert ours.meter.size == 0
        peer.writer.write(b"x" * SIZE)
        await peer.writer.drain()
        await settle()
        assert ours.meter.size == 0


async def test_a_peer_that_goes_on_sending_after_the_close_is_disconnected_at_once() -> None:
    async with connected(TransportLimits(close_deadline=3600)) as (peer, ours), asyncio.TaskGroup() as group:
        closing = group.create_task(ours.close(CloseReason.FULL, "too many messages"))
        assert b"too many messages" in await peer.reader.read(1024)
        peer.writer.write((begin(FINAL | TEXT, 1) + b"x") * CLOSING_MAX)
        await closing


FEED = """
from types import SimpleNamespace
from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.message_parser import MessageParser

got = []
receiver = SimpleNamespace(messages_received=got.extend, stream_ended=got.append)
parser = MessageParser(receiver, Meter(), 1000)
parser.feed_data(b"\\x81\\x03one\\x01\\x02tw\\x80\\x01o")
parser.feed_data(b"\\x83\\x00")
print(*[message.data.decode() for message in got[:-1]], got[-1])
"""


def test_messages_are_parsed_without_the_parser_in_c() -> None:
    environment = {**os.environ, "AIOHTTP_NO_EXTENSIONS": "1"}
    said = subprocess.run([sys.executable, "-c", FEED], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "one two Unexpected opcode=3\n"


@pytest.mark.parametrize("sending", ["try_send", "send"])
async def test_unread_bytes_of_a_client_are_counted_until_it_reads(sending: str) -> None:
    frame = b"x" * 8 * 1024 * 1024
    async with (
        connected(TransportLimits(send_high=1024, close_deadline=1.0)) as (peer, ours),
        asyncio.TaskGroup() as group,
    ):
        if sending == "send":
            group.create_task(ours.send([frame]))
            await settle()
        else:
            assert ours.try_send([frame])
        assert ours.meter.size > 1024 * 1024
        received = 0
        while received < len(frame):
            received += len(await peer.reader.read(1 << 20))
        await settle()
        assert ours.meter.size == 0
