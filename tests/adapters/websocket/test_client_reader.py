"""Clients that flood take turns: what was read of them waits for its turn, and they are not read meanwhile.

The turns are those of the gateway's fair queue, whose steps the test runs by hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiohttp.http_websocket import WebSocketError

from dragoman.adapters.meter import STEP as METER_STEP
from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.client_reader import ClientReader
from dragoman.adapters.websocket.frame_counter import CONTROL_MAX, CONTROL_UNITS, FRAME_UNITS, PIECE
from dragoman.adapters.websocket.frames import masked_text_frames
from dragoman.adapters.websocket.message_parser import CLOSING_MAX, Message
from dragoman.gateway.overload.fair_queue import LEAVE, QUANTUM, READ, STEP, FairQueue, SlicedWork

PING = b"\x89\x80" + bytes(4)
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
        client.reader.feed_data(PING * PINGS)
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
    [(b"\x01\x80" + bytes(4) + (b"\x00\x80" + bytes(4)) * 4000, FRAME_UNITS), (PING * 1000, CONTROL_UNITS)],
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
    client.reader.feed_data(PING + text[:-1])
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
        client.reader.feed_data(b"\x8a" + PING[1:])
    assert len(client.seen) == 3
    assert client.reader._work is None


async def test_pongs_of_a_client_that_sends_nothing_else_leave_nothing_counted() -> None:
    clients = Clients(1)
    (client,) = clients.all
    for _ in range(2 * METER_STEP // len(PING)):
        client.reader.feed_data(b"\x8a" + PING[1:])
        while clients.soon:
            clients.step()
    assert client.meter.size == 0


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "in its turn"])
async def test_a_client_is_disconnected_for_too_many_pings_in_one_read(*, waits: bool) -> None:
    clients = Clients(1)
    (client,) = clients.all
    if waits:
        clients.use_step()
    client.reader.feed_data(PING * (CONTROL_MAX + 1))
    steps = 0
    while clients.soon:
        clients.step()
        steps += 1
    assert isinstance(client.connection.error, WebSocketError)
    assert steps >= CONTROL_MAX // MOST - 1, "its pings are work, too"


async def test_a_frame_of_an_unknown_kind_ends_the_stream() -> None:
    (client,) = Clients(1).all
    client.reader.feed_data(b"\x83" + PING[1:])
    assert isinstance(client.connection.error, WebSocketError)


async def test_frames_that_wait_are_dropped_with_their_client() -> None:
    clients = Clients(1)
    (client,) = clients.all
    clients.use_step()
    client.reader.feed_data(PING * 2)
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
