"""The connection to the backend: made on demand, again after a loss; each command is written once or answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.adapters.base import Transport
from dragoman.gateway import registry
from dragoman.gateway.backends.spare_children import SpareChildren
from dragoman.gateway.backends.target import RouteDials, UpstreamTarget
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits
from dragoman.gateway.first_frames import PATIENCE
from dragoman.mappings.canonical import Command, SessionState
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.values import Cause, Text
from dragoman.mappings.dialect import Burst
from tests.gateway.in_memory import AT_ONCE, NEVER, ManualClock
from tests.gateway.pod_messages import run
from tests.idle import settle
from tests.memory_transport import MemoryTransport
from tests.services import services

ENDPOINT = "pod+unix:/pod"
FAR = Limits(backoff_first=NEVER, backoff_max=NEVER)
NEAR = Limits(backoff_first=AT_ONCE, backoff_max=AT_ONCE)


class Dialled:
    """An upstream, the session that receives its events, and the pod that it dials."""

    def __init__(self, group: asyncio.TaskGroup, limits: Limits) -> None:
        self.group = group
        self.time = ManualClock()
        self.used_at = 0
        self.goes_on = False  # the session says that its turn may go on over another connection
        self.attempts = 0
        self.refusals = 0
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.pods: list[MemoryTransport] = []
        self.events: list[Any] = []
        self.told: list[tuple[str, list[str]]] = []
        dials = RouteDials(lambda: limits, lambda: 0)
        target = UpstreamTarget(endpoint=ENDPOINT, dialect=registry.dialect("pod"), connect=self._dial, dials=dials)
        provided = structs.replace(services(self.time, limits=limits), start_task=self._start_task)
        self.upstream = Upstream(target, self, provided)
        self.tasks: list[asyncio.Task[None]] = []

    def _start_task(self, work: Any, name: str) -> asyncio.Task[None]:
        self.tasks.append(self.group.create_task(work, name=name))
        return self.tasks[-1]

    async def _dial(self) -> Transport:
        self.attempts += 1
        await self.reachable.wait()
        if self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError(111, "nobody listens")
        self.pods.append(MemoryTransport())
        return self.pods[-1]

    # -- the session -----------------------------------------------------------------------------------

    def receive(self, bursts: list[Burst[Any]]) -> None:
        self.events += [item for burst in bursts for item in burst.items]

    @property
    def state(self) -> SessionState:
        return SessionState(id="s", updated_at=self.used_at)

    def connected(self) -> None:
        self.told.append(("connected", []))

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        self.told.append((text, [command.request for command in unsent]))
        return self.goes_on

    # -- the test --------------------------------------------------------------------------------------

    def submits(self, *texts: str) -> None:
        """Send each of these inputs, with its text as the request id."""
        for text in texts:
            self.upstream.send([SubmitInput(request=text, segments=(Text(text=text),))])

    async def says(self, text: str) -> None:
        """Send an input, and let the upstream write it."""
        self.submits(text)
        await settle()

    async def starts(self) -> None:
        """Start the upstream, and let it connect."""
        self.upstream.start()
        await settle()

    async def connect(self) -> None:
        """Start the upstream, and wait for its first connection."""
        self.upstream.start()
        await until(self, 1)

    def slows_close(self, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
        """Let the close of the first connection take until the returned event is set."""
        closing = asyncio.Event()

        async def close(*_: object) -> None:
            await closing.wait()

        monkeypatch.setattr(self.pods[0], "close", close)
        return closing

    def running(self) -> int:
        """Return how many of the tasks that were started have not ended."""
        assert self.tasks
        return sum(not task.done() for task in self.tasks)

    def failures(self) -> list[tuple[str, list[str]]]:
        """Return the losses that the session was told, and the commands that each of them left unsent."""
        return [told for told in self.told if told[0] != "connected"]

    def got(self) -> list[list[Any]]:
        """Return the frames written to each connection."""
        return [[json.loads(frame) for frame in pod.got] for pod in self.pods]


@asynccontextmanager
async def dialled(limits: Limits = FAR) -> AsyncIterator[Dialled]:
    """Return an upstream that is stopped when the block is left; its tasks have ended then."""
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        made = Dialled(group, limits)
        yield made
        made.upstream.stop()


async def until(made: Dialled, pods: int) -> None:
    """Wait until this many connections were made."""
    while len(made.pods) < pods:
        await settle()
    await settle()


async def test_each_loss_in_a_turn_begins_the_time_in_which_its_translator_is_kept() -> None:
    async with dialled(Limits(backoff_first=AT_ONCE, backoff_max=AT_ONCE, reconnect_grace=1.0)) as made:
        made.goes_on = True
        await made.connect()
        first = made.upstream._translator
        for number, pause in ((1, 0.8), (2, 0.8), (3, 1.1)):
            await made.pods[-1].says(b'{"event":"text_delta","data":{"text":"x"}}')
            made.reachable.clear()
            await made.pods[-1].hangs_up()
            made.time.passes(pause)
            made.reachable.set()
            await until(made, number + 1)
            assert (made.upstream._translator is first) == (pause < 1.0)


async def test_commands_during_the_attempt_are_written_in_order_when_it_succeeds() -> None:
    async with dialled() as made:
        made.reachable.clear()
        await made.starts()
        made.submits("a", "b")
        made.reachable.set()
        await settle()
        assert made.got() == [[run("a"), run("b")]]
        assert made.attempts == 1


async def test_commands_during_the_attempt_are_reported_as_unsent_if_it_fails() -> None:
    async with dialled() as made:
        made.reachable.clear()
        made.refusals = 1
        await made.starts()
        made.submits("a", "b")
        made.reachable.set()
        await settle()
        ((cause, unsent),) = [told for told in made.told if told[1]]
        assert unsent == ["a", "b"]
        assert cause == "the backend cannot be reached: nobody listens"
        assert made.got() == [[]], "neither is written later"


async def test_the_wait_grows_with_each_failure_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []
    limits = Limits(backoff_first=1.0, backoff_max=6.0, connect_deadline=NEVER)
    async with dialled(limits) as made:
        loop = asyncio.get_running_loop()
        made.refusals = 5
        call_at = loop.call_at

        def at_once(when: float, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
            delay = when - loop.time()
            if delay < NEVER / 2:  # not the deadline of an attempt
                delays.append(delay)
                when = loop.time()
            return call_at(when, *arguments, **options)

        monkeypatch.setattr(loop, "call_at", at_once)
        made.upstream.start()
        await until(made, 1)
        monkeypatch.undo()
    bounds = [2.0, 4.0, 6.0, 6.0, 6.0]
    assert len(delays) == len(bounds)
    assert all(bound * 0.49 < wait <= bound for wait, bound in zip(delays, bounds, strict=True)), delays


async def test_the_log_reports_a_lost_backend_once_and_not_each_attempt() -> None:
    with capture_logs() as logs:
        async with dialled(NEAR) as made:
            made.refusals = 3
            made.upstream.start()
            await until(made, 1)
            made.pods[0].hang_up()  # it let us in and said nothing
            made.refusals = 3
            await until(made, 2)
    told = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    gone = "backend not reachable, trying again"
    assert told == [gone, "backend lost, connecting again", gone]


async def test_a_wrong_first_frame_is_no_fault_of_the_next_connection() -> None:
    async with dialled(NEAR) as made:
        await made.connect()
        await made.pods[0].says(b"Welcome!")
        await made.pods[0].hangs_up()
        await until(made, 2)
        await made.time.elapses(PATIENCE)
        assert made.pods[1].closed is None


async def test_an_attempt_that_takes_too_long_fails() -> None:
    limits = Limits(connect_deadline=AT_ONCE, backoff_first=NEVER, backoff_max=NEVER)
    async with dialled(limits) as made:
        made.reachable.clear()
        await made.says("a")
        ((cause, unsent),) = made.told
        assert "no connection within" in cause
        assert unsent == ["a"]


async def test_a_command_during_the_wait_causes_an_attempt_at_once() -> None:
    async with dialled() as made:
        made.refusals = 1
        await made.starts()
        assert (made.attempts, made.pods) == (1, [])
        await made.says("a")
        assert made.attempts == 2
        assert made.got() == [[run("a")]]


async def test_a_lost_connection_is_reported_before_its_close_and_commands_wait_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with dialled(NEAR) as made:
        await made.connect()
        closing = made.slows_close(monkeypatch)
        await made.pods[0].hangs_up()
        assert made.told[-1] == ("the connection to the backend was lost", [])
        made.submits("a")
        closing.set()
        await until(made, 2)
        assert made.got() == [[], [run("a")]]


@pytest.mark.parametrize(("seconds", "is_kept"), [(1.9, True), (2.0, False)])
async def test_grace_of_an_open_turn_begins_before_the_slow_close_of_the_lost_connection(
    seconds: float, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session ends the turn by then, so the next connection must not continue it."""
    async with dialled(NEAR) as made:
        made.goes_on = True
        await made.connect()
        await made.pods[0].says(b'{"event":"text_delta","data":{"text":"x"}}')
        translator, closing = made.upstream._translator, made.slows_close(monkeypatch)
        await made.pods[0].hangs_up()
        made.time.passes(seconds)
        closing.set()
        await until(made, 2)
        assert (made.upstream._translator is translator) == is_kept


async def test_commands_that_wait_for_a_connection_are_bounded() -> None:
    async with dialled(Limits(unsent_commands=3)) as made:
        made.reachable.clear()
        made.submits(*"abcde")
        why = "too many commands wait for a connection to the backend (`unsent_commands`)"
        assert made.told == [(why, ["d"]), (why, ["e"])]
        made.reachable.set()
        await settle()
        assert made.got() == [[run(text) for text in "abc"]]


async def test_a_stopped_upstream_closes_its_connection_and_its_task_ends() -> None:
    async with dialled() as made:
        await made.connect()
        made.upstream.stop()
        await settle()
        assert made.pods[0].closed is not None
        assert made.running() == 0
        made.upstream.start()
        await made.says("late")
        assert made.attempts == 1


async def test_a_stopped_upstream_does_not_wait_for_its_next_attempt() -> None:
    async with dialled() as made:
        made.refusals = 1
        await made.starts()
        made.upstream.stop()
        await settle()
        assert made.running() == 0


async def test_an_upstream_stopped_while_it_connects_closes_the_new_connection() -> None:
    async with dialled() as made:
        made.reachable.clear()
        await made.starts()
        made.upstream.stop()
        made.reachable.set()
        await settle()
        assert made.pods[0].closed is not None
        assert made.running() == 0


async def test_a_resting_upstream_has_no_connection_until_it_is_needed_again() -> None:
    async with dialled() as made:
        await made.connect()
        made.upstream.suspend()
        await settle()
        assert made.pods[0].closed is not None
        assert made.running() == 0
        await made.starts()
        await made.says("a")
        assert made.got() == [[], [run("a")]]


async def test_an_upstream_needed_while_it_goes_to_rest_connects_again() -> None:
    async with dialled(NEAR) as made:
        await made.connect()
        made.upstream.suspend()
        made.upstream.start()
        await until(made, 2)
        assert made.attempts == 2
        assert made.running() == 1


async def test_a_command_at_the_moment_of_the_close_waits_for_the_next_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry.dialect("pod").client, "may_be_closed", lambda _self: True)
    async with dialled(NEAR) as made:
        await made.connect()
        made.upstream.suspend()
        made.submits("a")
        await until(made, 2)
        assert made.got() == [[], [run("a")]]
        assert made.failures() == [], "no command failed"


async def test_a_connection_that_other_sessions_need_does_not_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process that owns the threads of a codewhale 0.10.2 (docs/dialects/codewhale.md, section 12)."""
    needed: list[Upstream] = []
    monkeypatch.setattr(SpareChildren, "is_needed", lambda _self, connection: connection in needed)
    async with dialled() as made:
        await made.connect()
        needed.append(made.upstream)
        assert made.upstream.suspend()
        await settle()
        assert made.pods[0].is_open()
        needed.clear()
        assert not made.upstream.suspend()
        await settle()
        assert not made.pods[0].is_open()


async def test_a_failure_at_the_start_of_a_connection_ends_only_that_connection() -> None:
    async with dialled(NEAR) as made:
        connected, calls = made.connected, count()

        def once() -> None:
            if next(calls) == 0:
                raise ZeroDivisionError
            connected()

        made.connected = once  # type: ignore[method-assign]  # a session with a bug
        made.upstream.start()
        await until(made, 2)
        assert made.pods[0].closed is not None
        assert made.told[-1] == ("connected", [])


async def test_after_too_many_connections_without_a_word_commands_fail_without_a_dial() -> None:
    async with dialled(Limits(backoff_first=NEVER, backoff_max=NEVER, failed_dial_burst=2)) as made:
        for pods in (1, 2):
            made.submits("a")
            await until(made, pods)
            await made.pods[-1].hangs_up()
        await made.says("b")
        assert len(made.pods) == 2
        cause, unsent = made.told[-1]
        assert unsent == ["b"]
        assert "the connection ended before the backend sent anything" in cause
        assert "`failed_dial_rate`" in cause


async def test_the_state_of_a_connection_is_that_of_its_session_now() -> None:
    async with dialled() as made:  # the state of a live backend behind a replay is made anew each time
        made.used_at = 5
        assert made.upstream.state.updated_at == 5
