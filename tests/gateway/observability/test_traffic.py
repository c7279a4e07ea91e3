"""Totals of the frames that links exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.observability.traffic import ObservedTransport, Traffic, size_of_frames, timed
from tests.memory_transport import MemoryTransport


def test_links_of_one_dialect_and_role_add_to_the_same_totals() -> None:
    ledger = Ledger()
    assert ledger.traffic_of("pod", "client") is ledger.traffic_of("pod", "client")
    assert ledger.traffic_of("pod", "client") is not ledger.traffic_of("pod", "backend")


def test_a_timed_function_returns_its_result_and_counts_the_time_of_each_call() -> None:
    times = Traffic().read_seconds
    measure = timed(len, times)
    assert [measure("ab"), measure("abc")] == [2, 3]
    assert times.number == 2
    assert times.total > 0


def test_the_size_of_frames_is_that_of_their_bytes() -> None:
    assert size_of_frames([b"abc", b"de"]) == 5


def test_the_headers_and_pings_of_a_websocket_can_be_observed_too() -> None:
    class WithPings(MemoryTransport):
        headers: Mapping[str, str] = {"traceparent": "00-1-2-03"}

        def watch_pings(self, count: Callable[[int], None]) -> None:
            count(3)

    counted: list[int] = []
    observed = ObservedTransport(WithPings(), Traffic())
    assert observed.watch_pings is not None
    observed.watch_pings(counted.append)
    assert (observed.headers, counted) == ({"traceparent": "00-1-2-03"}, [3])
    assert ObservedTransport(MemoryTransport(), Traffic()).watch_pings is None
