"""The fragments and control frames of a client are counted however they arrive, and too many end the connection."""

from __future__ import annotations

import asyncio
import struct

import pytest

from dragoman.adapters.websocket.frame_counter import CONTROL_MAX, FRAGMENTS_MAX, FrameCounter
from tests.adapters.websocket.peers import LIMITS, serving
from tests.adapters.websocket.test_server import raw

TEXT, CONTINUED, FINAL, PING, PONG = 0x01, 0x00, 0x80, 0x89, 0x8A


def frame(first: int, size: int = 0) -> bytes:
    if size < 126:
        return bytes((first, 0x80 | size)) + bytes(4 + size)
    if size < 1 << 16:
        return struct.pack(">BBH", first, 0xFE, size) + bytes(4 + size)
    return struct.pack(">BBQ", first, 0xFF, size) + bytes(4 + size)


@pytest.mark.parametrize("at_once", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 130])
def test_too_many_fragments_are_detected_however_they_arrive(at_once: int, size: int) -> None:
    counter = FrameCounter()
    data = frame(TEXT, size) + (frame(CONTINUED, size) + frame(PING, 3)) * FRAGMENTS_MAX
    pieces = [data[at : at + at_once] for at in range(0, len(data), at_once)]
    assert any(counter.refusal(piece) for piece in pieces)


@pytest.mark.parametrize("first", [PING, PONG])
def test_too_many_control_frames_in_one_read_are_refused(first: int) -> None:
    counter = FrameCounter()
    assert not counter.refusal(frame(first, 3) * CONTROL_MAX)
    assert not counter.refusal(frame(first, 3) * CONTROL_MAX)
    assert counter.refusal(frame(first, 3) * (CONTROL_MAX + 1))


@pytest.mark.parametrize("at_once", [1, 5, 1 << 20])
def test_whole_messages_and_few_fragments_never_exceed(at_once: int) -> None:
    counter = FrameCounter()
    several = frame(TEXT, 70_000) + frame(CONTINUED, 10) + frame(CONTINUED | FINAL, 200)
    data = frame(TEXT | FINAL, 3) * 2 * FRAGMENTS_MAX + several * 3
    pieces = [data[at : at + at_once] for at in range(0, len(data), at_once)]
    assert not any(counter.refusal(piece) for piece in pieces)


def test_a_frame_sent_with_the_handshake_is_received_before_the_end() -> None:
    begun = frame(TEXT, 300)
    counter = FrameCounter(begun[:100])
    assert counter.refusal(begun[100:] + frame(CONTINUED) * FRAGMENTS_MAX)


def test_the_counter_stops_at_a_header_that_no_client_may_send() -> None:
    counter = FrameCounter(b"\x01\x00")
    assert not counter.refusal(frame(CONTINUED) * 2 * FRAGMENTS_MAX)


@pytest.mark.parametrize(
    "data", [frame(TEXT) + frame(CONTINUED) * FRAGMENTS_MAX, frame(PING) * 2 * CONTROL_MAX], ids=["fragments", "pings"]
)
async def test_a_client_that_sends_too_many_frames_is_disconnected_with_1009(data: bytes) -> None:
    async with asyncio.timeout(10), serving(LIMITS) as server, raw(server) as (peer, ours):
        peer.writer.write(data)
        async with asyncio.TaskGroup() as group:
            group.create_task(ours.run(len), name="run")
            assert b"\x88\x02" + (1009).to_bytes(2) in await peer.reader.read()
