"""Clients that flood take turns: what was read of them waits for its turn, and they are not read meanwhile.

The turns are those of the gateway's fair queue, whose steps the test runs by hand.

The fragments and control frames of a client are counted however they arrive, and too many end the connection.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiohttp.http_websocket import WebSocketError

from dragoman.adapters.meter import STEP as METER_STEP
from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket import client_reader
from dragoman.adapters.websocket.client_reader import (
    CONTROL_MAX,
    CONTROL_UNITS,
    FRAGMENTS_MAX,
    FRAME_UNITS,
    PIECE,
    ClientReader,
    FrameCounter,
)
from dragoman.adapters.websocket.frames import CLOSE, control_frame, masked_text_frames
from dragoman.adapters.websocket.message_parser import CLOSING_MAX, Message
from dragoman.gateway.overload.fair_queue import LEAVE, QUANTUM, READ, STEP, FairQueue, SlicedWork
from dragoman.mappings.dialect import Frame
from tests.adapters.websocket.peers import LIMITS, serving
from tests.adapters.websocket.test_server import handshake, raw
from tests.transport_reader import receive_all

EMPTY_PING = b"\x89\x80" + bytes(4)
PINGS = 600  # of each client, in one read
MOST = STEP // CONTROL_UNITS  # pings that fill a step


class Receiver:
    """A connection that notes what its parser tells it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.is_read = True
        self.aborted = False
        self.ended = False
        self.error: WebSocketError | None = None

    def messages_received(self, messages: Sequence[Message]) -> None:
        self.messages += messages

    def stream_ended(self, error: WebSocketError | None) -> None:
        self.ended, self.error = True, error

    def hold(self, *, waits: bool) -> None:
        self.is_read = not waits

    def abort(self) -> None:
        self.aborted = True


class Client:
    """A client that writes what the test feeds; `seen` are the pings and messages that were parsed."""

    def __init__(self, work: FairQueue) -> None:
        self.connection = Receiver()
        self.meter = Meter()
        self.failed: Callable[[Exception], None] = lambda _error: None

        def new_work(fail: Callable[[Exception], None]) -> SlicedWork:
            self.failed = fail
            return SlicedWork(work, fail, READ)

        self.reader = ClientReader(self.connection, self.meter, 1 << 24, new_work)

    @property
    def seen(self) -> list[Any]:
        return [message.data or "ping" for message in self.connection.messages]


class Clients:
    """Clients that share one event loop. `step` runs its next iteration."""

    def __init__(self, count: int) -> None:
        self.soon: deque[Callable[[], None]] = deque()
        self.queue = FairQueue(self.soon.append)
        self.all = [Client(self.queue) for _ in range(count)]

    @property
    def parsed(self) -> int:
        return sum(len(client.seen) for client in self.all)

    @property
    def ended(self) -> int:
        return sum(client.connection.ended for client in self.all)

    def step(self) -> None:
        self.soon.popleft()()

    def use_step(self) -> None:
        self.queue.budget.left = 0


async def test_pings_of_many_clients_are_parsed_in_turns() -> None:
    clients = Clients(20)
    for client in clients.all:
        client.reader.feed_data(EMPTY_PING * PINGS)
    parsed = [clients.parsed]
    assert [client.connection.is_read for client in clients.all].count(False) == 20
    while clients.soon:
        clients.step()
        parsed.append(clients.parsed)
    assert parsed[-1] == 20 * PINGS
    piece = PIECE // CONTROL_UNITS
    assert max(after - before for before, after in zip([0, *parsed], parsed, strict=False)) <= MOST + piece
    assert all(client.connection.is_read for client in clients.all)


@pytest.mark.parametrize(
    ("flood", "units"),
    [(b"\x01\x80" + bytes(4) + (b"\x00\x80" + bytes(4)) * 4000, FRAME_UNITS), (EMPTY_PING * 1000, CONTROL_UNITS)],
    ids=["fragments", "pings"],
)
async def test_a_read_is_parsed_in_pieces(flood: bytes, units: int) -> None:
    clients = Clients(1)
    (client,) = clients.all
    sizes: list[int] = []
    parser: Any = client.reader._parser

    class Noting:
        def feed_data(self, data: bytes) -> None:
            sizes.append(len(data))
            parser.feed_data(data)

    client.reader._parser = Noting()  # type: ignore[assignment]  # has what is called
    client.reader.feed_data(flood)
    while clients.soon:
        clients.step()
    assert sum(sizes) == len(flood)
    assert max(sizes) == PIECE // units * 6


class Flood:
    """A link that always has commands, each of which takes a quantum."""

    expected = QUANTUM
    given = 0
    has_read = False
    waiting = 100

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue

    def take(self) -> None:
        self._queue.budget.left -= QUANTUM


async def test_two_messages_in_one_read_do_not_wait_for_several_commands_of_each_flood() -> None:
    clients = Clients(1)
    (client,) = clients.all
    for _ in range(20):
        clients.queue.enqueue(Flood(clients.queue))
    for _ in range(4):
        clients.step()
    client.reader.feed_data(masked_text_frames([b"a", b"b"]))
    clients.step()
    assert client.seen == [b"a", b"b"]


async def test_data_of_a_client_that_waits_is_counted_and_stays_in_order() -> None:
    clients = Clients(1)
    (client,) = clients.all
    clients.use_step()
    text = masked_text_frames([b"a"])
    client.reader.feed_data(EMPTY_PING + text[:-1])
    client.reader.feed_data(text[-1:] + masked_text_frames([b"b" * 3 * METER_STEP]))
    client.reader.feed_data(masked_text_frames([b"c" * 10]))
    client.reader.feed_eof()
    assert (client.seen, client.connection.is_read, client.connection.ended) == ([], False, False)
    assert client.meter.size > 3 * METER_STEP
    while clients.soon:
        clients.step()
    assert client.seen == ["ping", b"a", b"b" * 3 * METER_STEP, b"c" * 10]
    assert client.connection.ended


async def test_a_client_that_sends_only_pongs_now_and_then_keeps_no_work() -> None:
    (client,) = Clients(1).all
    for _ in range(3):
        client.reader.feed_data(b"\x8a" + EMPTY_PING[1:])
    assert len(client.seen) == 3
    assert client.reader._work is None


async def test_pongs_of_a_client_that_sends_nothing_else_leave_nothing_counted() -> None:
    clients = Clients(1)
    (client,) = clients.all
    for _ in range(2 * METER_STEP // len(EMPTY_PING)):
        client.reader.feed_data(b"\x8a" + EMPTY_PING[1:])
        while clients.soon:
            clients.step()
    assert client.meter.size == 0


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "in its turn"])
async def test_a_client_is_disconnected_for_too_many_pings_in_one_read(*, waits: bool) -> None:
    clients = Clients(1)
    (client,) = clients.all
    if waits:
        clients.use_step()
    client.reader.feed_data(EMPTY_PING * (CONTROL_MAX + 1))
    steps = 0
    while clients.soon:
        clients.step()
        steps += 1
    assert isinstance(client.connection.error, WebSocketError)
    assert steps >= CONTROL_MAX // MOST - 1, "its pings are work, too"


async def test_a_frame_of_an_unknown_kind_ends_the_stream() -> None:
    (client,) = Clients(1).all
    client.reader.feed_data(b"\x83" + EMPTY_PING[1:])
    assert isinstance(client.connection.error, WebSocketError)


async def test_frames_that_wait_are_dropped_with_their_client() -> None:
    clients = Clients(1)
    (client,) = clients.all
    clients.use_step()
    client.reader.feed_data(EMPTY_PING * 2)
    client.reader.discard()
    clients.step()
    assert client.seen == []
    client.failed(ValueError("a bug"))
    assert client.connection.aborted


async def test_a_discarded_client_that_goes_on_sending_is_disconnected() -> None:
    (client,) = Clients(1).all
    client.reader.discard()
    client.reader.close()
    client.reader.feed_data(b"x" * CLOSING_MAX)
    assert not client.connection.aborted
    client.reader.feed_data(b"x")
    assert client.connection.aborted


async def test_connections_that_are_lost_at_once_end_in_several_steps() -> None:
    clients = Clients(4 * STEP // LEAVE)
    for client in clients.all:
        client.reader.feed_eof()
    ended = [clients.ended]
    while clients.soon:
        clients.step()
        ended.append(clients.ended - sum(ended))
    assert sum(ended) == len(clients.all)
    assert max(ended) <= STEP // LEAVE


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
    monkeypatch.setattr(client_reader, "FRAGMENTS_MAX", 10)
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
    monkeypatch.setattr(client_reader, "FRAGMENTS_MAX", 3)
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
