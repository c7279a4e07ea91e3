"""A server's message that comes alone is pushed; everything else goes to aiohttp's parser."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import WSMsgType
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapters.meter import STEP as METER_STEP
from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.frames import masked_text_frames, text_frames
from dragoman.adapters.websocket.message_parser import Message
from dragoman.adapters.websocket.server_reader import FIRST_PIECE, PIECE, PIECE_MESSAGES, ServerReader, lone_text
from tests.adapters.websocket.test_client_reader import Receiver
from tests.idle import run_turns, settle

TEXT, FINAL, CONTINUED = 0x01, 0x80, 0x00


def server_frame(first: int, data: bytes) -> bytes:
    """Return an unmasked frame with less than 64 KiB."""
    size = bytes((len(data),)) if len(data) < 126 else struct.pack(">BH", 126, len(data))
    return bytes((first,)) + size + data


@given(st.lists(st.sampled_from(("text", "long", "fragments", "ping")), min_size=1, max_size=12), st.data())
def test_messages_are_pushed_or_parsed_in_order_however_the_stream_is_cut(kinds: list[str], data: Any) -> None:
    stream, sent, ends = b"", [], [0]
    for number, kind in enumerate(kinds):
        message = b'{"number":%d}' % number if kind != "long" else b'{"number":%d,"x":"%s"}' % (number, b"x" * 300)
        if kind == "ping":
            stream += server_frame(0x89, b"")
        elif kind == "fragments":
            stream += server_frame(TEXT, message[:3]) + server_frame(FINAL | CONTINUED, message[3:])
        else:
            stream += server_frame(FINAL | TEXT, message)
        sent += [message] if kind != "ping" else []
        ends.append(len(stream))
    cuts = data.draw(st.lists(st.sampled_from(ends) | st.integers(0, len(stream)), max_size=20))
    connection, got = Receiver(), list[bytes]()
    reader = ServerReader(connection, Meter(), 1 << 20, got.extend, 1 << 20)
    places = sorted({0, len(stream), *ends, *cuts}) if data.draw(st.booleans()) else sorted({0, len(stream), *cuts})
    for start, end in pairwise(places):
        reader.feed_data(stream[start:end])
        got += [message.data for message in connection.messages if message.type is WSMsgType.TEXT]
        connection.messages.clear()
    assert got == sent


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535])
def test_a_lone_frame_of_a_server_is_read_and_nothing_else(size: int) -> None:
    data = text_frames([b"x" * size])
    assert lone_text(data) == b"x" * size
    assert lone_text(data[:-1]) is None
    assert lone_text(data + b"x") is None
    assert lone_text(masked_text_frames([b"x" * size])) is None
    assert lone_text(b"\x01" + data[1:]) is None, "a fragment"


async def test_a_large_read_is_parsed_in_pieces_and_the_end_stays_behind_it() -> None:
    connection = Receiver()
    reader = ServerReader(connection, Meter(), 1 << 20, lambda _frames: None, 1 << 20)
    messages = [b"%d" % number for number in range(3 * PIECE // 4)]
    stream = b"".join(server_frame(FINAL | TEXT, message) for message in messages)
    reader.feed_data(stream[:-1])
    reader.feed_data(stream[-1:])
    reader.feed_eof()
    assert 0 < len(connection.messages) < PIECE_MESSAGES
    assert (connection.is_read, connection.ended) == (False, False)
    await run_turns(1_100)  # one for each piece
    assert [message.data for message in connection.messages] == messages
    assert (connection.is_read, connection.ended) == (True, True)


@pytest.mark.parametrize(
    ("size", "most"), [(0, 2 * PIECE_MESSAGES), (100, PIECE // 100 + 1), (2_000, PIECE // 2_000 + 1)]
)
async def test_a_piece_has_few_messages_and_few_bytes(size: int, most: int) -> None:
    class Counting(Receiver):
        def messages_received(self, messages: Sequence[Message]) -> None:
            counts.append(len(messages))

    counts: list[int] = []
    reader = ServerReader(Counting(), Meter(), 1 << 20, lambda _frames: None, 1 << 20)
    frame = server_frame(0x8A if size <= 125 else FINAL | TEXT, b"x" * size)
    reader.feed_data(frame * (16 * PIECE // len(frame)))
    await run_turns(1_100)  # one for each piece
    assert sum(counts) == 16 * PIECE // len(frame)
    assert most / 4 < max(counts) <= most


async def test_a_read_of_32_kib_is_parsed_in_pieces_also_after_large_messages() -> None:
    class Counting(Receiver):
        def messages_received(self, messages: Sequence[Message]) -> None:
            counts.append(len(messages))

    counts: list[int] = []
    reader = ServerReader(Counting(), Meter(), 1 << 20, lambda _frames: None, 1 << 20)
    reader.feed_data(server_frame(FINAL | TEXT, b"x" * 16_000) * 16)
    await run_turns(100)
    reader.feed_data(server_frame(0x89, b"") * 16_384)
    await run_turns(100)
    assert sum(counts) == 16 + 16_384
    assert max(counts) <= 4_096


async def test_a_failure_in_a_later_piece_of_a_large_read_disconnects_the_server() -> None:
    class Broken(Receiver):
        def messages_received(self, messages: Sequence[Message]) -> None:
            if self.messages:
                raise ValueError("a bug")
            super().messages_received(messages)

    connection = Broken()
    reader = ServerReader(connection, Meter(), 1 << 20, lambda _frames: None, 1 << 20)
    reader.feed_data(server_frame(FINAL | TEXT, b"{}") * PIECE)
    assert not connection.aborted
    await settle()
    assert connection.aborted


async def test_the_rest_of_a_large_read_is_counted_until_it_is_discarded() -> None:
    connection, meter = Receiver(), Meter()
    reader = ServerReader(connection, meter, 1 << 20, lambda _frames: None, 1 << 20)
    reader.feed_data(server_frame(FINAL | TEXT, b"{}") * PIECE)
    assert meter.size == 4 * PIECE - FIRST_PIECE
    reader.discard()
    seen = len(connection.messages)
    await settle()
    assert (meter.size, len(connection.messages)) == (0, seen)


def test_pongs_of_a_server_that_sends_nothing_else_leave_nothing_counted() -> None:
    meter = Meter()
    reader = ServerReader(Receiver(), meter, 1 << 20, lambda _frames: None, 1 << 20)
    for _ in range(2 * METER_STEP // 4):
        reader.feed_data(server_frame(0x8A, b"42"))
    assert meter.size == 0


@pytest.mark.parametrize("end", ["close", "discard"])
def test_after_the_end_no_message_is_pushed(end: str) -> None:
    got: list[bytes] = []
    reader = ServerReader(Receiver(), Meter(), 1 << 20, got.extend, 1 << 20)
    for number in range(2):
        reader.feed_data(server_frame(FINAL | TEXT, b"%d" % number))
    assert got == [b"1"], "the first one goes through the parser"
    getattr(reader, end)()
    reader.feed_data(server_frame(FINAL | TEXT, b"late"))
    assert got == [b"1"]


def test_a_message_that_is_too_long_is_parsed() -> None:
    connection, got = Receiver(), list[bytes]()
    reader = ServerReader(connection, Meter(), 1 << 20, got.extend, 5)
    for message in (b"first", b"too long", b"short"):
        reader.feed_data(server_frame(FINAL | TEXT, message))
    assert [message.data for message in connection.messages] == [b"first", b"too long"]
    assert got == [b"short"]
