"""Several upstreams of a route: the circuit breaker of each, and where sessions go."""

from __future__ import annotations

import asyncio
import errno
import gc
from contextlib import suppress

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.adapters.base import Transport
from dragoman.gateway.backends.failover import CircuitBreaker, FailoverConnection, UpstreamPool
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.mappings.canonical import SessionState
from tests.gateway.in_memory import ManualClock
from tests.memory_transport import MemoryTransport

LIMITS = Limits(max_fails=3, fail_timeout=10.0, connect_deadline=0.02)


def failed(clock: ManualClock, times: int = 3) -> CircuitBreaker:
    """Return the circuit of an upstream that has failed so many times."""
    circuit = CircuitBreaker(lambda: LIMITS, clock.monotonic)
    for _ in range(times):
        circuit.note_failure()
    return circuit


def test_a_circuit_opens_with_the_last_of_max_fails_failures() -> None:
    clock = ManualClock()
    assert failed(clock, 2).state == "closed"
    assert failed(clock, 3).state == "open"


def test_failures_that_are_farther_apart_than_fail_timeout_open_no_circuit() -> None:
    clock = ManualClock()
    circuit = failed(clock, 2)
    clock.passes(10.0)
    circuit.note_failure()
    assert circuit.state == "closed"


def test_a_successful_dial_resets_the_count_of_failures() -> None:
    circuit = failed(ManualClock(), 2)
    circuit.note_success()
    circuit.note_failure()
    assert circuit.state == "closed"


def test_an_open_circuit_takes_one_session_after_fail_timeout() -> None:
    clock = ManualClock()
    circuit = failed(clock)
    clock.passes(9.9)
    assert not circuit.takes
    clock.passes(0.1)
    assert (circuit.state, circuit.takes) == ("half-open", True)
    circuit.note_attempt()
    assert not circuit.takes


def test_an_attempt_that_never_ends_blocks_a_half_open_circuit_for_fail_timeout_only() -> None:
    clock = ManualClock()
    circuit = failed(clock)
    clock.passes(10.0)
    circuit.note_attempt()
    clock.passes(10.0)
    assert circuit.takes


def test_a_half_open_circuit_closes_with_a_success_and_opens_with_a_failure() -> None:
    clock = ManualClock()
    good, bad = failed(clock), failed(clock)
    clock.passes(10.0)
    good.note_success()
    bad.note_failure()
    assert (good.state, bad.state) == ("closed", "open")


class Backends:
    """Three upstreams that accept, refuse, or never answer."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.down: dict[str, OSError] = {}
        self.silent: set[str] = set()
        self.dialled: list[str] = []
        self.endpoints = [parse(f"smooth+ws://127.0.0.1:{port}/ws") for port in (1, 2, 3)]
        upstreams = [
            (endpoint, lambda name=name: self._dial(name)) for name, endpoint in zip("abc", self.endpoints, strict=True)
        ]
        self.limits = LIMITS
        self.pool = UpstreamPool("test", upstreams, lambda: self.limits, self.clock.clock)

    async def _dial(self, name: str) -> Transport:
        self.dialled.append(name)
        if name in self.silent:
            await asyncio.Event().wait()
        if name in self.down:
            raise self.down[name]
        return MemoryTransport()

    def session(self) -> FailoverConnection:
        return FailoverConnection(self.pool, SessionState(id="s"))

    async def connect(self) -> str:
        """Connect a new session; return the upstreams that were tried."""
        self.dialled.clear()
        await self.session().connect()
        return "".join(self.dialled)


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")


async def test_a_new_session_tries_the_upstreams_in_their_order() -> None:
    made = Backends()
    made.down = {"a": REFUSED, "b": REFUSED}
    assert await made.connect() == "abc"


async def test_an_upstream_whose_circuit_is_open_is_passed_over_until_its_probe_succeeds() -> None:
    made = Backends()
    made.down = {"a": REFUSED}
    for _ in range(3):
        assert await made.connect() == "ab"
    assert await made.connect() == "b"
    made.down.clear()
    made.clock.passes(10.0)
    probe = made.session()
    await probe.connect()
    assert await made.connect() == "b"
    probe.note_heard()
    assert await made.connect() == "a"


async def test_circuits_have_the_limits_that_are_in_force_now() -> None:
    made = Backends()
    made.down = {"a": REFUSED}
    assert [await made.connect() for _ in range(2)] == ["ab", "ab"]
    made.limits = structs.replace(LIMITS, max_fails=2, fail_timeout=5.0)
    assert [await made.connect() for _ in range(2)] == ["ab", "b"]
    made.clock.passes(5.0)
    assert await made.connect() == "ab"


async def test_a_silent_upstream_has_its_part_of_the_deadline() -> None:
    made = Backends()
    made.silent = {"a"}
    assert await made.connect() == "ab"
    assert made.pool.upstreams[0].fault == "no connection within 0.00666667 s"


async def test_the_last_failure_is_raised_if_no_upstream_accepts() -> None:
    made = Backends()
    made.down = {"a": REFUSED, "b": REFUSED, "c": FileNotFoundError(errno.ENOENT, "no such file")}
    with pytest.raises(FileNotFoundError):
        await made.connect()


async def test_the_upstream_that_failed_first_is_tried_if_every_circuit_is_open() -> None:
    made = Backends()
    made.down = dict.fromkeys("abc", REFUSED)
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await made.connect()
        made.clock.passes(1.0)
    made.down.clear()
    assert await made.connect() == "a"


async def test_a_session_that_its_backend_opened_stays_at_its_upstream() -> None:
    made, state = Backends(), SessionState(id="s")
    session = FailoverConnection(made.pool, state)
    await session.connect()
    state.backend_ids = {}
    made.down = {"a": REFUSED}
    with pytest.raises(ConnectionRefusedError):
        await session.connect()
    assert made.dialled == ["a", "a"]


async def test_a_session_is_served_at_its_upstream_while_that_has_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.backends.failover.find_local_server", lambda _endpoint: None)
    made, state = Backends(), SessionState(id="s", backend_ids={})
    session = FailoverConnection(made.pool, state)
    await session.connect()
    for _ in range(LIMITS.max_fails):
        made.pool.note_failure(made.pool.upstreams[0], "refused")
    assert made.pool.is_served(state)
    session.note_end("")
    assert not made.pool.is_served(state)


async def test_our_own_limit_of_children_counts_against_no_upstream() -> None:
    made = Backends()
    made.down = {"a": OSError(errno.EBUSY, "too many children")}
    with pytest.raises(OSError, match="too many children"):
        await made.connect()
    assert [upstream.failures for upstream in made.pool.upstreams] == [0, 0, 0]


async def test_each_change_of_a_circuit_is_one_log_line() -> None:
    made = Backends()
    made.down = {"a": REFUSED}
    with capture_logs() as logs:
        for _ in range(5):
            await made.connect()
        made.down.clear()
        made.clock.passes(10.0)
        probe = made.session()
        await probe.connect()
        probe.note_heard()
        probe.note_heard()
    assert [(line["event"], line["endpoint"]) for line in logs] == [
        ("upstream not healthy, its circuit is open", "smooth+ws://127.0.0.1:1/ws"),
        ("upstream healthy again, its circuit is closed", "smooth+ws://127.0.0.1:1/ws"),
    ]
    assert logs[0]["next"] == "smooth+ws://127.0.0.1:2/ws"


async def test_a_connection_that_ends_before_the_backend_says_anything_is_a_failure() -> None:
    made = Backends()
    session = made.session()
    await session.connect()
    session.note_end("the connection ended")
    assert (made.pool.upstreams[0].failures, made.pool.upstreams[0].connected) == (1, 0)


def test_a_client_stays_with_its_preferred_upstream_while_that_is_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    made, listening = Backends(), {"1": True, "2": True}
    monkeypatch.setattr(
        "dragoman.gateway.backends.failover.find_local_server",
        lambda endpoint: listening.get(endpoint.address.rpartition(":")[2].partition("/")[0], False),
    )
    first, second, _third = made.endpoints
    assert made.pool.choose(second) == second
    assert made.pool.choose() == first
    listening["1"] = False
    assert made.pool.choose(first) == second


async def test_an_attempt_that_failed_leaves_nothing_to_the_garbage_collector() -> None:
    async def refuse() -> Transport:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nothing listens there")

    upstreams = [(endpoint, refuse) for endpoint in Backends().endpoints]
    pool = UpstreamPool("test", upstreams, lambda: LIMITS, ManualClock().clock)
    gc.collect()
    gc.disable()
    try:
        with suppress(ConnectionRefusedError):
            await FailoverConnection(pool, SessionState(id="s")).connect()
        assert gc.collect() == 0
    finally:
        gc.enable()
