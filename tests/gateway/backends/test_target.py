"""The log lines and counts of connections to one backend, also if it speaks another dialect."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from dragoman.adapters.base import Transport
from dragoman.adapters.websocket.client import HandshakeRefusedError
from dragoman.gateway import registry
from dragoman.gateway.backends.failover import FailoverConnection
from dragoman.gateway.backends.target import FAILING_MAX, UNHEARD, ConnectionReport, RouteDials, UpstreamTarget
from dragoman.gateway.config.model import Limits
from dragoman.gateway.first_frames import FirstFrames
from dragoman.mappings.canonical import SessionState
from tests.gateway.in_memory import InMemoryGateway, in_memory_gateway
from tests.gateway.pod_messages import run
from tests.idle import run_turns, settle
from tests.memory_transport import MemoryTransport

NOW = 5


class Failover:
    """A connection to one of several upstreams. It records the calls that it gets."""

    def __init__(self) -> None:
        self.endpoint = "pod+unix:/second"
        self.told: list[str] = []

    def note_heard(self) -> None:
        self.told.append("heard")

    def note_end(self, fault: str) -> None:
        self.told.append(fault)


async def dial() -> Transport:
    pytest.fail("a report connects to nothing")


class Reported:
    """The report of a session `s`, and everybody who is told by it."""

    def __init__(self) -> None:
        self.failover = Failover()
        self.dials = RouteDials(lambda: Limits(failed_dial_burst=1), lambda: 0)
        self.target = UpstreamTarget(
            endpoint="pod+unix:/first",
            dialect=registry.dialect("pod"),
            connect=dial,
            dials=self.dials,
            failover=cast("FailoverConnection", self.failover),
        )
        self.report = ConnectionReport(SessionState(id="s"), self.target, lambda: NOW)

    def first(self, frame: bytes) -> FirstFrames:
        first = FirstFrames(self.target.dialect, dict, cast("Any", lambda _delay, _call: None), lambda _first: None)
        first.take([frame])
        return first


@pytest.fixture
def made() -> Reported:
    return Reported()


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as logs:
        yield logs


def test_only_the_first_of_several_failed_attempts_is_logged(made: Reported, logged: list[Any]) -> None:
    for _ in range(3):
        made.report.note_unreachable("nobody listens")
    assert [(line["event"], line["cause"], line["session"]) for line in logged] == [
        ("backend not reachable, trying again", "nobody listens", "s")
    ]
    assert (made.target.status.lost, made.target.status.fault_at) == (3, NOW)


def test_a_failure_after_a_success_is_logged_again_with_the_upstream_that_was_dialled(
    made: Reported, logged: list[Any]
) -> None:
    made.report.note_unreachable("nobody listens")
    made.report.note_reached()
    made.report.note_unreachable("nobody listens")
    assert [line["endpoint"] for line in logged] == ["pod+unix:/first", "pod+unix:/second"]


@pytest.mark.parametrize(
    ("heard", "by_peer", "fault", "dropped"), [(True, True, "", 1), (True, False, "", 0), (False, False, "", 0)]
)
def test_the_end_of_a_connection_is_no_failure_if_it_was_heard_or_ended_by_us(
    made: Reported, heard: bool, by_peer: bool, fault: str, dropped: int
) -> None:
    made.report.note_start()
    if heard:
        made.report.note_heard()
    made.report.note_end(heard=heard, by_peer=by_peer)
    status = made.target.status
    assert (status.connected, status.heard, status.dropped) == (0, 0, dropped)
    assert made.failover.told == [*(["heard"] if heard else []), fault]


async def test_a_connection_without_a_word_is_a_failure_of_its_upstream_and_of_the_attempts(made: Reported) -> None:
    made.report.note_start()
    made.report.note_end(heard=False, by_peer=True)
    assert made.failover.told == [UNHEARD]
    with pytest.raises(OSError, match=UNHEARD):
        await made.dials.connect("pod+unix:/first", dial, 1.0)


def test_a_connection_that_nobody_needs_any_more_ends_at_its_upstream_without_a_failure(made: Reported) -> None:
    made.report.note_unused()
    assert made.failover.told == [""]


def test_a_backend_of_another_dialect_is_logged_once_until_it_sends_something_else(
    made: Reported, logged: list[Any]
) -> None:
    for frame in (b"hello", b"hello", b"other"):
        made.report.note_start()
        made.report.note_wrong_dialect(made.first(frame))
        made.report.note_lost("the backend speaks something else", "", is_wrong=True)
    assert [line["event"] for line in logged] == [
        "backend connected",
        *["backend of another dialect, trying again"] * 2,
    ]
    assert "its first frame is other" in logged[-1]["cause"]


def test_a_lost_backend_is_logged_with_its_reason(made: Reported, logged: list[Any]) -> None:
    made.report.note_lost("the connection to the backend was lost", "exit status 1", is_wrong=False)
    assert (logged[0]["event"], logged[0]["cause"]) == ("backend lost, connecting again", "exit status 1")
    assert made.target.status.fault == "the connection to the backend was lost: exit status 1"


SECOND = 1_000_000_000


class Backend:
    """A backend that accepts a connection once `opened` is set, or fails with `fault`."""

    def __init__(self, limits: Limits) -> None:
        self.now = 0
        self.limits = limits
        self.dials = RouteDials(lambda: self.limits, lambda: self.now)
        self.opened = asyncio.Event()
        self.fault: OSError | None = None
        self.attempts = 0

    async def dial(self, endpoint: str = "pod+unix:/a") -> Transport:
        return await self.dials.connect(endpoint, self._accept, None)

    async def _accept(self) -> Transport:
        self.attempts += 1
        if self.fault is not None:
            raise self.fault
        await self.opened.wait()
        return MemoryTransport()

    async def fail(self, times: int) -> str:
        """Dial so many times, and return the text of the last failure."""
        text = ""
        for _ in range(times):
            try:
                await self.dial()
            except OSError as error:
                text = str(error)
        return text


async def test_attempts_above_dials_wait_for_one_that_ends() -> None:
    made = Backend(Limits(dials=2))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(made.dial()) for _ in range(5)]
        await settle()
        assert made.attempts == 2
        made.opened.set()
    assert (made.attempts, len(tasks)) == (5, 5)


async def test_an_attempt_waits_no_longer_than_connect_deadline_for_others() -> None:
    made = Backend(Limits(dials=1, connect_deadline=0.001))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(made.dial())
        await settle()
        with pytest.raises(TimeoutError):
            await made.dial()
        made.opened.set()
    assert (made.attempts, first.done()) == (1, True)


async def test_after_the_burst_attempts_fail_without_a_dial_and_name_the_limit() -> None:
    made = Backend(Limits(failed_dial_burst=3))
    made.fault = ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
    text = await made.fail(10)
    assert made.attempts == 3
    assert "nobody listens; too many connections failed (`failed_dial_rate`)" in text


async def test_a_backend_is_dialled_again_once_its_rate_limit_allows_it() -> None:
    made = Backend(Limits(failed_dial_burst=3, failed_dial_rate=10.0))
    made.fault = ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
    await made.fail(4)
    made.fault, made.now = None, SECOND // 10
    made.opened.set()
    for _ in range(20):
        await made.dial()
    assert made.attempts == 3 + 20


@pytest.mark.parametrize(
    ("reloaded", "running"),
    [
        (Limits(dials=3), 1 + 3),  # the attempt under way keeps its place under the former limit
        (Limits(dials=1, connect_deadline=7.0), 1),
    ],
)
async def test_only_a_reload_of_dials_changes_how_many_attempts_run_at_once(reloaded: Limits, running: int) -> None:
    made = Backend(Limits(dials=1))
    async with asyncio.TaskGroup() as group:
        group.create_task(made.dial())
        await settle()
        made.limits = reloaded
        for _ in range(5):
            group.create_task(made.dial())
        await settle()
        assert made.attempts == running
        made.opened.set()
    assert made.attempts == 6


@pytest.mark.parametrize(
    ("reloaded", "attempts"),
    [
        (Limits(failed_dial_burst=5), 3 + 5),
        (Limits(failed_dial_burst=3, connect_deadline=7.0), 3),
    ],
)
async def test_only_a_reload_of_their_limits_forgets_failures(reloaded: Limits, attempts: int) -> None:
    made = Backend(Limits(failed_dial_burst=3))
    made.fault = ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
    await made.fail(10)
    made.limits = reloaded
    await made.fail(10)
    assert made.attempts == attempts


async def test_failures_of_one_pod_do_not_keep_clients_from_another() -> None:
    made = Backend(Limits(failed_dial_burst=3))
    made.fault = ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
    await made.fail(4)
    made.fault = None
    made.opened.set()
    await made.dial("pod+unix:/b")
    assert made.attempts == 3 + 1


async def test_endpoints_that_failed_long_ago_are_forgotten() -> None:
    made = Backend(Limits(failed_dial_rate=10.0))
    for number in range(3 * FAILING_MAX):
        made.dials.note_failure(f"pod+unix:/{number}", "nobody listens")
        made.now += SECOND
    assert len(made.dials._failures) <= FAILING_MAX


@pytest.mark.parametrize(
    "fault",
    [
        OSError(errno.EBUSY, "16 children are running"),
        PermissionError(errno.EACCES, "no token"),
        HandshakeRefusedError("401", 401),
        HandshakeRefusedError("403", 403),
    ],
)
async def test_a_refusal_that_is_not_the_fault_of_the_backend_takes_no_token(fault: OSError) -> None:
    made = Backend(Limits(failed_dial_burst=3))
    made.fault = fault
    await made.fail(10)
    assert made.attempts == 10


# -- sessions that nobody uses ---------------------------------------------------------------------


async def dials(made: InMemoryGateway) -> int:
    """Return how often the backend is dialled in a while."""
    before = made.dialled
    await run_turns()
    return made.dialled - before


@pytest.mark.parametrize("backend", ["smooth", "codewhale"])
async def test_an_unreachable_backend_is_not_dialled_for_a_session_without_clients(backend: str) -> None:
    async with in_memory_gateway(upstream=backend) as made:
        made.away = True
        client = made.join("client", dialect="pod")
        await made.settle()
        client.sends(run("hi"))
        assert await dials(made) > 1
        client.transport.hang_up()
        await made.settle()
        assert await dials(made) == 0
        made.join("next", dialect="pod").sends(run("hi"))
        assert await dials(made) > 1
