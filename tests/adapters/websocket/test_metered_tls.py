"""The records of TLS are decrypted in turns."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.metered_tls import RECORD_UNITS, RECORDS, MeteredTls
from dragoman.gateway.overload.fair_queue import QUANTUM, READ, STEP, FairQueue, SlicedWork


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2) + b"x" * size


class Tls(asyncio.BufferedProtocol):
    """Keeps what it is given, and the size of each piece."""

    def __init__(self) -> None:
        self.given = bytearray()
        self.pieces: list[int] = []
        self.tcp: Any = None
        self._buffer = bytearray(1 << 15)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.tcp = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.given += self._buffer[:nbytes]
        self.pieces.append(nbytes)


class Tcp:
    """A TCP transport that is read, or not."""

    _reads = True
    aborted = False

    def is_reading(self) -> bool:
        return self._reads

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True

    def abort(self) -> None:
        self.aborted = True


class MeteredHarness:
    """A MeteredTls in front of a queue whose steps the test runs."""

    def __init__(self, queue: FairQueue | None = None, *, is_shaken: bool = True) -> None:
        self.steps: deque[Callable[[], None]] = deque()
        self.queue = queue or FairQueue(self.steps.append)
        self.tls, self.tcp = Tls(), Tcp()
        self.metered = MeteredTls(self.tls, lambda fail: SlicedWork(self.queue, fail, READ), lambda: is_shaken)
        self.metered.connection_made(self.tcp)  # type: ignore[arg-type]  # it has the methods that are called

    def run(self) -> Iterator[int]:
        """Run all steps; yield how many bytes each of them gave to TLS."""
        while self.steps:
            before = len(self.tls.given)
            self.steps.popleft()()
            yield len(self.tls.given) - before


def test_a_lone_record_is_decrypted_at_once_also_if_the_step_has_no_room() -> None:
    made = MeteredHarness()
    made.queue.budget.left = 0
    made.metered.data_received(record(100))
    assert bytes(made.tls.given) == record(100)
    assert made.tcp.is_reading()
    assert not made.steps


def test_many_handshakes_that_come_at_once_are_done_in_turns() -> None:
    first = MeteredHarness(is_shaken=False)
    shaking = [first, *(MeteredHarness(first.queue, is_shaken=False) for _ in range(19))]
    for made in shaking:
        made.metered.data_received(record(200))
    begun = [sum(bool(made.tls.given) for made in shaking)]
    while first.steps:
        first.steps.popleft()()
        begun.append(sum(bool(made.tls.given) for made in shaking))
    assert begun == list(range(2, 22, 2)), "two in each step of the event loop"
    assert all(made.tcp.is_reading() for made in shaking)


def test_thousands_of_records_of_one_read_take_many_steps_and_the_connection_is_not_read_meanwhile() -> None:
    made = MeteredHarness()
    made.metered.count_with(meter := Meter())
    data = record(18) * 10_000
    made.metered.data_received(data)
    assert not made.tcp.is_reading()
    assert meter.size == len(data) - len(made.tls.given)
    most = (STEP // RECORD_UNITS + RECORDS) * len(record(18))
    assert len(made.tls.given) <= most
    assert max(made.run()) <= most
    assert bytes(made.tls.given) == data
    assert made.tcp.is_reading()
    assert meter.size == 0
    assert max(made.tls.pieces) <= RECORDS * len(record(18))


def test_tls_is_given_at_most_the_bytes_of_one_record_at_once() -> None:
    """RFC 8446, section 5.1: a record has at most 2^14 bytes. An idle connection keeps the memory of a larger piece."""
    made = MeteredHarness()
    data = record(1 << 14) * RECORDS
    made.metered.data_received(data)
    deque(made.run(), 0)
    assert bytes(made.tls.given) == data
    assert max(made.tls.pieces) <= 1 << 14


def test_other_work_is_done_between_the_records_of_a_flood() -> None:
    made = MeteredHarness()
    made.metered.data_received(record(18) * 10_000)
    done: list[int] = []
    other = SlicedWork(made.queue, lambda _error: None, QUANTUM)
    other.add_work(iter(()))
    made.queue.arrivals.add_piece(lambda: done.append(len(made.tls.given)))
    next(made.run())
    assert done
    assert done[0] < len(record(18)) * 10_000


@pytest.mark.parametrize("seed", range(5))
def test_records_that_are_cut_anywhere_are_given_whole_and_in_order(seed: int) -> None:
    made, chance = MeteredHarness(), random.Random(seed)
    data = b"".join(record(chance.choice((0, 1, 18, 300, 20_000))) for _ in range(300))
    at = 0
    while at < len(data):
        size = chance.choice((1, 2, 5, 7, 100, 5_000, 60_000))
        if made.tcp.is_reading() or chance.random() < 0.2:  # a read may be under way when the reading is stopped
            made.metered.data_received(data[at : at + size])
            at += size
        elif made.steps:
            made.steps.popleft()()
    list(made.run())
    assert bytes(made.tls.given) == data
    assert made.tcp.is_reading()


def test_reading_stops_while_tls_wants_it_or_data_waits() -> None:
    made = MeteredHarness()
    made.metered.data_received(record(18) * 10_000)
    made.tls.tcp.pause_reading()
    list(made.run())
    assert not made.tcp.is_reading()
    made.tls.tcp.resume_reading()
    assert made.tcp.is_reading()


def test_data_that_waits_is_dropped_when_the_connection_is_lost() -> None:
    made = MeteredHarness()
    made.metered.count_with(meter := Meter())
    made.metered.data_received(record(18) * 10_000)
    made.metered.connection_lost(None)
    given = len(made.tls.given)
    list(made.run())
    assert len(made.tls.given) == given
    assert meter.size == 0


def test_a_peer_whose_data_cannot_be_decrypted_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MeteredHarness()

    def fail(_size: int) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(made.tls, "buffer_updated", fail)
    made.metered.data_received(record(18) * 100)
    assert made.tcp.aborted
