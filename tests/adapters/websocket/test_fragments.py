"""The fragments of an unfinished message are counted however they arrive, and too many end the connection."""

from __future__ import annotations

import asyncio
import struct

import pytest

from dragoman.adapters.websocket.fragments import FRAGMENTS_MAX, FragmentCounter
from tests.adapters.websocket.peers import LIMITS, serving
from tests.adapters.websocket.test_server import raw

TEXT, CONTINUED, FINAL, PING = 0x01, 0x00, 0x80, 0x89


def frame(first: int, size: int = 0) -> bytes:
    if size < 126:
        return bytes((first, 0x80 | size)) + bytes(4 + size)
    if size < 1 << 16:
        return struct.pack(">BBH", first, 0xFE, size) + bytes(4 + size)
    return struct.pack(">BBQ", first, 0xFF, size) + bytes(4 + size)


@pytest.mark.parametrize("at_once", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 130])
def test_too_many_fragments_are_detected_however_they_arrive(at_once: int, size: int) -> None:
    counter = FragmentCounter()
    data = frame(TEXT, size) + (frame(CONTINUED, size) + frame(PING, 3)) * FRAGMENTS_MAX
    pieces = [data[at : at + at_once] for at in range(0, len(data), at_once)]
    assert True in map(counter.exceeds, pieces)


@pytest.mark.parametrize("at_once", [1, 5, 1 << 20])
def test_whole_messages_and_few_fragments_never_exceed(at_once: int) -> None:
    counter = FragmentCounter()
    several = frame(TEXT, 70_000) + frame(CONTINUED, 10) + frame(CONTINUED | FINAL, 200)
    data = frame(TEXT | FINAL, 3) * 2 * FRAGMENTS_MAX + several * 3
    pieces = [data[at : at + at_once] for at in range(0, len(data), at_once)]
    assert True not in map(counter.exceeds, pieces)


def test_a_frame_sent_with_the_handshake_is_received_before_the_end() -> None:
    begun = frame(TEXT, 300)
    counter = FragmentCounter(begun[:100])
    assert counter.exceeds(begun[100:] + frame(CONTINUED) * FRAGMENTS_MAX)


def test_the_counter_stops_at_a_header_that_no_client_may_send() -> None:
    counter = FragmentCounter(b"\x01\x00")
    assert not counter.exceeds(frame(CONTINUED) * 2 * FRAGMENTS_MAX)


async def test_a_client_whose_message_has_too_many_fragments_is_disconnected_with_1009() -> None:
    async with asyncio.timeout(10), serving(LIMITS) as server, raw(server) as (peer, ours):
        peer.writer.write(frame(TEXT) + frame(CONTINUED) * FRAGMENTS_MAX)
        async with asyncio.TaskGroup() as group:
            group.create_task(ours.run(len), name="run")
            assert b"\x88\x02" + (1009).to_bytes(2) in await peer.reader.read()
