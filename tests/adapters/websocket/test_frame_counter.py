"""The fragments and control frames of a client are counted however they arrive, and too many end the connection."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Sequence

import pytest

from dragoman.adapters.websocket import frame_counter
from dragoman.adapters.websocket.frame_counter import CONTROL_MAX, FRAGMENTS_MAX, FrameCounter
from dragoman.adapters.websocket.frames import CLOSE, control_frame
from dragoman.mappings.dialect import Frame
from tests.adapters.websocket.peers import LIMITS, serving
from tests.adapters.websocket.test_server import handshake, raw
from tests.transport_reader import receive_all

TEXT, CONTINUED, FINAL, PING, PONG = 0x01, 0x00, 0x80, 0x89, 0x8A


def frame(first: int, size: int = 0) -> bytes:
    if size < 126:
        return bytes((first, 0x80 | size)) + bytes(4 + size)
    if size < 1 << 16:
        return struct.pack(">BBH", first, 0xFE, size) + bytes(4 + size)
    return struct.pack(">BBQ", first, 0xFF, size) + bytes(4 + size)


def refusal(counter: FrameCounter, data: bytes) -> int | None:
    """Count a whole read; return the code with which the connection must close, or None."""
    at = 0
    while at < len(data) and counter.error is None:
        at = counter.count_piece(data, at)
    return None if counter.error is None else int(counter.error.code)


@pytest.mark.parametrize("at_once", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 130])
def test_too_many_fragments_are_detected_however_they_arrive(
    at_once: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_counter, "FRAGMENTS_MAX", 10)
    counter = FrameCounter()
    most = frame(TEXT, size) + (frame(CONTINUED, size) + frame(PING, 3)) * 9
    for data, error in ((most, None), (frame(CONTINUED, size), 1009)):
        pieces = [data[at : at + at_once] for at in range(0, len(data), at_once)]
        assert [*filter(None, (refusal(counter, piece) for piece in pieces))][:1] == ([error] if error else [])


@pytest.mark.parametrize("first", [PING, PONG])
def test_too_many_control_frames_in_one_read_are_refused(first: int) -> None:
    counter = FrameCounter()
    assert not refusal(counter, frame(first, 3) * CONTROL_MAX)
    assert not refusal(counter, frame(first, 3) * CONTROL_MAX)
    assert refusal(counter, frame(first, 3) * (CONTROL_MAX + 1))


@pytest.mark.parametrize("at_once", [1, 5, 1 << 20])
def test_whole_messages_and_few_fragments_never_exceed(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_counter, "FRAGMENTS_MAX", 3)
    counter = FrameCounter()
    several = frame(TEXT, 70_000) + frame(CONTINUED, 10) + frame(CONTINUED | FINAL, 200)
    data = frame(TEXT | FINAL, 3) * 6 + several * 3
    pieces = [data[at : at + at_once] for at in range(0, len(data), at_once)]
    assert not any(refusal(counter, piece) for piece in pieces)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frame(0x83), id="unknown opcode"),
        pytest.param(frame(0x8B), id="unknown control opcode"),
        pytest.param(frame(0xC1), id="reserved bit"),
        pytest.param(b"\x81\x01a", id="no mask"),
        pytest.param(b"\x89\x00", id="ping without a mask"),
        pytest.param(frame(0x09), id="ping in fragments"),
        pytest.param(frame(PING, 126), id="long ping"),
        pytest.param(frame(CONTINUED | FINAL), id="continuation of nothing"),
        pytest.param(frame(TEXT) + frame(TEXT | FINAL, 3), id="message inside of an empty one"),
        pytest.param(frame(TEXT, 3) + frame(0x82, 3), id="message inside of another"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_a_frame_that_no_client_may_send_is_a_protocol_error(data: bytes, at_once: int) -> None:
    counter = FrameCounter()
    data = frame(TEXT | FINAL, 200) + data + frame(TEXT | FINAL, 3)
    assert 1002 in [refusal(counter, data[at : at + at_once]) for at in range(0, len(data), at_once)]


@pytest.mark.parametrize("at_once", [1, 1 << 20])
async def test_messages_before_a_frame_without_a_mask_arrive_and_the_connection_closes_with_1002(at_once: int) -> None:
    data = frame(TEXT | FINAL, 3) + frame(PING, 1) + b"\x81\x01"
    if at_once > 1:  # what is written after the close resets the connection, and its last frame may be lost
        data += b"a" + frame(TEXT | FINAL, 5)
    seen: list[Frame] = []

    def sink(frames: Sequence[Frame]) -> int:
        seen.extend(frames)
        return len(frames)

    async with asyncio.timeout(9), serving(LIMITS) as server, raw(server) as (peer, ours), asyncio.TaskGroup() as group:
        group.create_task(ours.run(sink), name="run")
        for at in range(0, len(data), at_once):
            peer.writer.write(data[at : at + at_once])
            await peer.writer.drain()
        end = b"\x8a\x01\x00" + control_frame(CLOSE, b"\x03\xeaa client must mask its frames")
        assert (await peer.reader.read()).endswith(end)
    assert seen == [bytes(3)]


def test_a_short_frame_without_a_mask_is_refused_with_its_first_two_bytes() -> None:
    counter = FrameCounter()
    assert [refusal(counter, byte) for byte in (b"\x89", b"\x00")] == [None, 1002]


async def test_frames_that_come_with_the_handshake_are_counted() -> None:
    data = frame(TEXT | FINAL, 3) + frame(TEXT) + frame(CONTINUED) * FRAGMENTS_MAX
    async with asyncio.timeout(10), serving(LIMITS) as server, handshake(server, behind=data) as (_, peer):
        ours = await server.next()
        assert await receive_all(ours) == [bytes(3)]
        assert await peer.reader.read() == control_frame(CLOSE, b"\x03\xf1message of more than 4096 fragments")
        await ours.close()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(frame(TEXT) + frame(CONTINUED) * FRAGMENTS_MAX, b"more than 4096 fragments", id="fragments"),
        pytest.param(frame(PING) * 2 * CONTROL_MAX, b"more than 1024 pings or pongs at once", id="pings"),
    ],
)
async def test_a_client_that_sends_too_many_frames_is_disconnected_with_1009(data: bytes, reason: bytes) -> None:
    async with asyncio.timeout(10), serving(LIMITS) as server, raw(server) as (peer, ours):
        peer.writer.write(data)
        async with asyncio.TaskGroup() as group:
            group.create_task(ours.run(len), name="run")
            assert re.search(b"\x88.\x03\xf1.*" + reason, await peer.reader.read(), re.DOTALL)
