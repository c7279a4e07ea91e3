"""The attempts of a route to connect: few at once, few that fail, and few log lines."""

from __future__ import annotations

import asyncio
import errno

import pytest

from dragoman.adapters.base import Transport
from dragoman.adapters.websocket.client import HandshakeRefusedError
from dragoman.gateway.backends.dials import FAILING_MAX, RouteDials
from dragoman.gateway.config.model import Limits
from tests.gateway.in_memory import InMemoryGateway, in_memory_gateway
from tests.gateway.pod_messages import run
from tests.idle import run_turns, settle
from tests.memory_transport import MemoryTransport

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
