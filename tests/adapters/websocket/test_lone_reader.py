"""A server's message that comes alone is pushed; everything else goes to aiohttp's protocol."""

from __future__ import annotations

import asyncio
import struct
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.frames import masked_text_frames, text_frames
from dragoman.adapters.websocket.lone_reader import LoneReader, lone_text

TEXT, FINAL, CONTINUED = 0x01, 0x80, 0x00


def protocol_of_aiohttp() -> SimpleNamespace:
    """Return the names that a reader needs of aiohttp's protocol."""
    transport = SimpleNamespace(set_protocol=lambda _protocol: None)
    return SimpleNamespace(_reading_paused=False, pause_reading=lambda: None, transport=transport)


def server_frame(first: int, data: bytes) -> bytes:
    """Return an unmasked frame with less than 64 KiB."""
    size = bytes((len(data),)) if len(data) < 126 else struct.pack(">BH", 126, len(data))
    return bytes((first,)) + size + data


@given(st.lists(st.sampled_from(("text", "long", "fragments", "ping")), min_size=1, max_size=12), st.data())
async def test_messages_are_pushed_or_queued_in_order_however_the_stream_is_cut(kinds: list[str], data: Any) -> None:
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
    got: list[bytes] = []
    protocol = protocol_of_aiohttp()
    queue = WebSocketDataQueue(protocol, 1 << 20, loop=asyncio.get_running_loop())  # type: ignore[arg-type]  # all that it needs
    protocol._payload_parser = WebSocketReader(queue, 1 << 20, compress=False, decode_text=False)

    def push(message: bytes) -> bool:
        got.append(message)
        return True

    reader = LoneReader(protocol, SimpleNamespace(_reader=queue), Meter(), push)
    protocol.data_received = reader.feed_data
    places = sorted({0, len(stream), *ends, *cuts}) if data.draw(st.booleans()) else sorted({0, len(stream), *cuts})
    for start, end in pairwise(places):
        reader.data_received(stream[start:end])
        got += [message.data for message, _ in queue._buffer if message.type is WSMsgType.TEXT]
        queue._buffer.clear()
    assert got == sent


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535])
def test_a_lone_frame_of_a_server_is_read_and_nothing_else(size: int) -> None:
    data = text_frames([b"x" * size])
    assert lone_text(data) == b"x" * size
    assert lone_text(data[:-1]) is None
    assert lone_text(data + b"x") is None
    assert lone_text(masked_text_frames([b"x" * size])) is None
    assert lone_text(b"\x01" + data[1:]) is None, "a fragment"


def test_aiohttps_protocol_hears_of_the_end_and_of_the_buffer_for_writing() -> None:
    heard: list[str] = []

    class Protocol:
        transport = SimpleNamespace(set_protocol=lambda protocol: heard.append(type(protocol).__name__))
        _payload_parser = None

        def __getattr__(self, name: str) -> Any:
            return lambda *_arguments: heard.append(name)

    reader = LoneReader(Protocol(), SimpleNamespace(_reader=SimpleNamespace(_buffer=[])), Meter(), lambda _: True)
    reader.pause_writing()
    reader.resume_writing()
    reader.eof_received()
    reader.connection_lost(None)
    assert heard == ["LoneReader", "pause_writing", "resume_writing", "eof_received", "connection_lost"]
