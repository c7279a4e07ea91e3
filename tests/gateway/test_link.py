"""A link: frames of its peer are handled, waiting frames are written, and its failure or end affects no other link."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.adapters.base import CloseReason
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.intake import LARGE
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.fair_queue import EVENT, FEW, FRAME, LEAVE, PIECE, PUT, QUICK, STEP, TURN, FairQueue
from dragoman.gateway.peer import Peer
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Alarm, Burst, Dialect, Frame, Loss, Step, Translator
from dragoman.mappings.errors import PeerError
from dragoman.mappings.smooth import DIALECT
from tests.gateway.in_memory import ManualClock, in_memory_gateway
from tests.gateway.smooth_client_messages import ask
from tests.idle import settle
from tests.memory_transport import MemoryTransport
from tests.services import services


class Scripted(Translator[Any, Any]):
    """A translator that answers each frame with the step that the test wrote for it."""

    def __init__(self, **steps: Step[Any]) -> None:
        self.steps = steps
        self.final_frames: list[bytes] = []
        self.owes = False

    @property
    def has_pending_replies(self) -> bool:
        return self.owes

    def opened(self) -> Step[Any]:
        return Step(frames=[b"welcome"])

    def receive(self, frames: Sequence[Frame]) -> Step[Any]:
        step: Step[Any] = Step()
        for frame in frames:
            assert isinstance(frame, bytes)
            said = self.steps.get(frame.decode(), Step(bursts=[Burst(items=[frame])]))
            step.bursts += said.bursts
            step.frames += said.frames
            step.faults += said.faults
            step.losses += said.losses
            step.mended += said.mended
        return step

    def send(self, items: Sequence[Any]) -> Step[Any]:
        return Step(frames=list(items))

    def attach(self, state: SessionState, request: str) -> Step[Any]:
        return Step(frames=[state.id.encode()])

    def closed(self, cause: str) -> Step[Any]:
        return Step(frames=[*self.final_frames, cause.encode()])


class Served:
    """A link that is served, and what its sink received."""

    def __init__(
        self,
        limits: Limits = Limits(),  # noqa: B008  # frozen
        *,
        limited: bool = False,
        queue: FairQueue | None = None,
        dialect: Dialect = DIALECT,
        **steps: Step[Any],
    ) -> None:
        self.translator = translator = Scripted(**steps)
        self.transport = MemoryTransport()
        self.transport.eager = False
        self.ledger = Ledger()
        self.heard: list[Any] = []
        self.drains: list[int] = []
        self.on_drained: Callable[[Link], None] = lambda _link: self.drains.append(len(self.transport.got))
        self.sink: Callable[[Any], None] = self.heard.append
        self.refusals: list[str] = []
        self.time = ManualClock()
        self.link = Link(
            Peer(id="l1", dialect=dialect, limited=limited),
            self.transport,
            translator,
            services(self.time, limits=limits, ledger=self.ledger, queue=queue),
            LinkEvents(
                sink=self._sink,
                drained=lambda link: self.on_drained(link),  # noqa: PLW0108  # a test may replace it
                refused=lambda _link, text: self.refusals.append(text),
            ),
        )

    async def puts(self, frames: list[bytes]) -> None:
        """Put frames into the outbox, and let the link write them."""
        self.link.put(frames)
        await settle()

    async def stop_reading(self) -> None:
        """Let the peer read nothing more, while a write to it waits."""
        self.transport.reading.clear()
        self.link.put([b"is written"])
        await settle()

    def _sink(self, link: Link, bursts: list[Burst[Any]]) -> None:
        assert link is self.link
        for burst in bursts:
            for item in burst.items:
                self.sink(item)


@asynccontextmanager
async def served(
    *,
    soft: int = 1000,
    hard: int = 10_000,
    limits: Limits = Limits(),  # noqa: B008  # frozen
    limited: bool = False,
    queue: FairQueue | None = None,
    dialect: Dialect = DIALECT,
    **steps: Step[Any],
) -> AsyncIterator[Served]:
    """Serve a link until the block is left; its tasks have ended then and its transport is closed."""
    before = asyncio.all_tasks()
    bounds = structs.replace(limits, outbox_soft=soft, outbox_hard=hard)
    made = Served(bounds, limited=limited, queue=queue, dialect=dialect, **steps)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(made.link.run(), name="link")
        await settle()
        yield made
        made.link.end(CloseReason.DONE)
    assert made.transport.closed is not None
    assert asyncio.all_tasks() <= before, "no task left"
    assert not made.link.alive


def fault(*, can_continue: bool) -> PeerError:
    return PeerError("invalid", "not like this", can_continue=can_continue)


async def test_a_flood_of_faults_is_counted_whole_and_its_rest_is_logged_when_the_link_ends() -> None:
    async with served(bad=Step(faults=[fault(can_continue=True)])) as made:
        with capture_logs() as logs:
            made.transport.say(*[b"bad"] * 1000)
            await made.transport.hangs_up()
        assert made.ledger.counters["faults_smooth_invalid"] == 1000
        assert [entry["count"] for entry in logs if entry["event"] == "invalid frame received"] == [1, 999]


async def test_pending_frames_are_written_in_one_call() -> None:
    async with served() as made:
        made.link.send([b"1"])
        made.link.put([b"2", b"3"])
        made.link.attach(SessionState(id="4"), "")
        await settle()
        assert made.transport.got == [b"1", b"2", b"3", b"4"]
        assert made.transport.writes == 1


async def test_a_drained_outbox_is_reported_after_everything_was_written() -> None:
    async with served(soft=4) as made:
        for frame in (b"one", b"two", b"three"):
            made.link.put([frame])
        await settle()
        await made.puts([b"four"])
        assert made.drains == [3, 4]


async def test_each_drain_is_reported() -> None:
    async with served(soft=4) as made:
        more = [[b"a"], [b"b"]]
        made.on_drained = lambda link: link.put(more.pop()) if more else made.drains.append(0)
        await made.puts([b"too much"])
        assert (made.transport.got, made.drains) == ([b"too much", b"b", b"a"], [0])


async def test_a_fault_loses_its_frame_and_is_counted() -> None:
    async with served(bad=Step(frames=[b"no"], faults=[fault(can_continue=True)])) as made:
        await made.transport.says(b"bad", b"good")
        assert made.heard == [b"good"]
        assert made.transport.got == [b"no"]
        assert made.ledger.counters["faults_smooth_invalid"] == 1
        assert made.transport.is_open()


async def test_a_fault_that_ends_the_stream_closes_after_its_frames() -> None:
    step = Step(frames=[b"no"], faults=[fault(can_continue=False)], bursts=[Burst(items=["before it"])])
    async with served(bad=step) as made:
        await made.transport.says(b"bad")
        assert made.heard == ["before it"]
        assert made.transport.got == [b"no", b"invalid"]
        assert made.transport.closed is CloseReason.PROTOCOL


async def test_losses_are_recorded_in_the_ledger_under_the_dialect_of_the_link() -> None:
    async with served(lossy=Step(losses=[Loss(kind="Text", field="x", why="no place", count=3)])) as made:
        await made.transport.says(b"lossy")
    (entry,) = made.ledger.entries()
    assert (entry.source, entry.kind, entry.field, entry.count) == ("smooth", "Text", "x", 3)


async def test_pending_frames_are_written_before_the_link_ends_and_final_frames_last() -> None:
    async with served() as made:
        made.link.put([b"1", b"2"])
        made.link.end(CloseReason.GOING_AWAY, "bye")
        made.link.end(CloseReason.INTERNAL, "twice")
        await settle()
        assert made.transport.got == [b"1", b"2", b"bye"]
        assert made.transport.closed is CloseReason.GOING_AWAY


async def test_no_frame_follows_the_final_ones() -> None:
    async with served() as made:
        made.link.end(CloseReason.GOING_AWAY, "bye")
        await made.puts([b"late"])
        assert made.transport.got == [b"bye"]


async def test_a_link_that_ends_for_its_memory_frees_it_at_once_and_says_why_in_its_close() -> None:
    async with served() as made:
        memory = made.link._services.memory
        made.transport.reading.clear()
        await made.puts([b"1"])
        made.link.put([b"2" * 1000])
        memory.limit = 0
        made.transport.meter.add(1_000_000)
        assert (made.transport.discarded, memory.used) == (True, 0)
        assert made.link.outbox.size < 1000
        await made.transport.reads_on()
        assert "`memory`" in made.transport.close_text
        assert b"2" * 1000 not in made.transport.got


async def test_the_memory_of_a_link_is_counted_until_its_transport_has_closed() -> None:
    async with served() as made:
        memory = made.link._services.memory
        made.transport.meter.add(1_000_000)
        assert memory.used > 1_000_000
        await made.transport.hangs_up()
        assert memory.used == 0


async def test_an_ended_link_receives_no_frames() -> None:
    async with served() as made:
        made.link.end(CloseReason.DONE)
        await settle()
        await made.transport.says(b"late")
        assert made.heard == []


async def test_a_peer_that_stopped_writing_gets_its_pending_replies_before_its_end() -> None:
    async with served() as made:
        made.transport.half_closed, made.translator.owes = True, True
        made.transport.say(b"a question")
        await made.transport.hangs_up()
        assert made.transport.is_open()
        made.translator.owes = False
        made.link.send([b"its answer"])
        await settle()
        assert made.transport.got == [b"its answer"]
        assert not made.transport.is_open()


@pytest.mark.parametrize(("half_closed", "has_pending_replies"), [(False, True), (True, False)])
async def test_a_peer_without_pending_replies_ends_when_it_stops_writing(
    half_closed: bool, has_pending_replies: bool
) -> None:
    async with served() as made:
        made.transport.half_closed, made.translator.owes = half_closed, has_pending_replies
        await made.transport.hangs_up()
        assert not made.transport.is_open()


async def test_a_peer_that_disconnects_is_closed_and_gets_no_frames() -> None:
    async with served() as made:
        made.transport.say(b"last")
        await made.transport.hangs_up()
        assert made.heard == [b"last"]
        assert made.transport.closed is CloseReason.DONE
        await made.puts([b"to nobody"])
        assert made.transport.got == []
        assert made.link.outbox.size == 0


async def test_frames_of_a_peer_that_stopped_reading_are_still_processed() -> None:
    async with served() as made:
        made.transport.broken = True
        await made.puts([b"into the void"])
        assert made.transport.is_open()
        await made.transport.says(b"said before")
        assert made.heard == [b"said before"]
        await made.transport.hangs_up()
        assert made.transport.closed is CloseReason.DONE


async def test_a_peer_that_sends_requests_without_reading_is_disconnected() -> None:
    async with served(soft=10, hard=100) as made:
        await made.stop_reading()
        await made.puts([b"x" * 101])
        assert made.transport.is_open(), "what is broadcast to it is bounded by whoever broadcasts"
        made.link.send([b"an answer"])
        await settle()
        assert made.transport.closed is CloseReason.TOO_SLOW
        assert made.transport.close_text == "sends requests and does not read the answers (`outbox_hard`)"
        assert made.link.outbox.size == 0
        assert made.ledger.counters["links_cut_flooding"] == 1


async def test_the_wait_for_a_disconnected_peer_that_does_not_read_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.gateway.link.FLUSH_DEADLINE", 0.01)
    async with served() as made:
        made.transport.reading.clear()
        await made.puts([b"never read"])
    assert made.transport.closed is CloseReason.DONE


@pytest.mark.parametrize("limited", [True, False])
async def test_a_client_that_does_not_read_has_one_deadline_to_read_and_to_close(
    monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    monkeypatch.setattr("dragoman.gateway.link.FLUSH_DEADLINE", 0.01)
    begun, ends = asyncio.Event(), list[str]()

    async def close(_reason: CloseReason, _text: str) -> None:
        made.transport.closed = CloseReason.DONE
        begun.set()
        try:
            await made.transport.reading.wait()
            ends.append("closed")
        except asyncio.CancelledError:
            ends.append("cut off")
            raise

    async with served(limited=limited) as made:
        monkeypatch.setattr(made.transport, "close", close)
        made.transport.reading.clear()
        await made.puts([b"never read"])
        made.link.end(CloseReason.DONE)
        await begun.wait()
        if not limited:  # a child that does not read is ended in steps, which take longer
            made.transport.reading.set()
    assert ends == ["cut off" if limited else "closed"]


@pytest.mark.parametrize("error", [ZeroDivisionError, TimeoutError])
async def test_a_failure_in_the_sink_ends_only_its_link_and_is_logged(error: type[Exception]) -> None:
    async with served() as made, served() as other:

        def fails(item: Any) -> None:
            raise error(item)

        made.sink = fails
        with capture_logs() as logs:
            await made.transport.says(b"boom")
        assert made.transport.closed is CloseReason.INTERNAL
        assert [(entry["log_level"], entry["event"]) for entry in logs] == [
            ("error", "link failed, disconnecting the peer")
        ]
        await other.transport.says(b"fine")
        assert other.heard == [b"fine"]
        assert other.transport.is_open()


async def test_a_failure_at_the_start_ends_only_its_link() -> None:
    made = Served()

    def fails(link: Link) -> None:
        raise ZeroDivisionError(link.id)

    with capture_logs() as logs:
        await made.link.run(fails)
    assert made.transport.closed is CloseReason.INTERNAL
    assert [entry["event"] for entry in logs] == ["link failed, disconnecting the peer"]


async def test_a_failure_in_the_writer_ends_the_link_and_its_reader() -> None:
    async with served() as made:

        async def send(frames: Sequence[bytes]) -> None:
            raise ZeroDivisionError

        made.transport.send = send  # type: ignore[method-assign]  # a transport with a bug
        with capture_logs() as logs:
            await made.puts([b"x"])
        assert made.transport.closed is CloseReason.INTERNAL
        assert [entry["event"] for entry in logs] == ["link failed, disconnecting the peer"]


async def test_an_idle_link_has_one_task() -> None:
    before = len(asyncio.all_tasks())
    async with served() as made:
        assert len(asyncio.all_tasks()) == before + 1
        made.transport.reading.clear()
        await made.puts([b"waits"])
        assert len(asyncio.all_tasks()) == before + 2, "the second one writes"
        await made.transport.reads_on()
        assert len(asyncio.all_tasks()) == before + 1


async def test_a_link_that_is_cut_waits_for_no_write_in_progress_and_writes_no_last_frame() -> None:
    async with served() as made:
        await made.stop_reading()
        made.link.put([b"waits"])
        made.link.cut(PeerError("too_slow", "events are dropped", can_continue=False))
        await settle()
        assert made.transport.closed is CloseReason.TOO_SLOW
        assert (made.transport.got, made.refusals) == ([b"is written"], [])
        assert (made.link.outbox.size, made.link.outbox.closed) == (0, True)


async def test_a_peer_that_stopped_writing_gets_the_frames_that_wait() -> None:
    async with served() as made:
        await made.stop_reading()
        made.link.put([b"waits"])
        await made.transport.hangs_up()
        assert made.transport.is_open()
        await made.transport.reads_on()
        assert made.transport.got == [b"is written", b"waits"]
        assert made.transport.closed is CloseReason.DONE


@pytest.mark.parametrize("writes", [True, False])
async def test_a_link_that_is_cancelled_closes_its_transport_and_leaves_no_task(*, writes: bool) -> None:
    made = Served()
    before = asyncio.all_tasks()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.link.run(), name="link")
        await settle()
        if writes:
            await made.stop_reading()
            made.link.put([b"waits"])
        running.cancel()
    assert running.cancelled()
    assert made.transport.closed is CloseReason.DONE
    assert (asyncio.all_tasks() <= before, made.link.outbox.size) == (True, 0)


async def test_a_link_that_is_cancelled_while_it_ends_stays_cancelled() -> None:
    made = Served()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.link.run(), name="link")
        await settle()
        made.link.end(CloseReason.GOING_AWAY)
        running.cancel()
    assert running.cancelled()
    assert made.transport.closed is CloseReason.GOING_AWAY


async def test_a_link_that_ended_before_it_ran_reads_nothing() -> None:
    made = Served()
    made.transport.say(b"a")
    made.link.end(CloseReason.GOING_AWAY, "the gateway stops")
    await made.link.run()
    assert (made.heard, made.transport.closed) == ([], CloseReason.GOING_AWAY)
    assert made.transport.got == [b"the gateway stops"]


async def test_the_first_frames_of_a_translator_are_sent_first() -> None:
    made = Served()
    made.transport.say(b"a")
    async with asyncio.TaskGroup() as group:
        group.create_task(made.link.run(Link.greet), name="link")
        await settle()
        made.transport.hang_up()
    assert made.transport.got == [b"welcome"]


# -- alarms -----------------------------------------------------------------------------------------


class Woken(Scripted):
    """A translator with an alarm after each second; `ring` is the callback."""

    def __init__(self) -> None:
        super().__init__()
        self.rang = 0
        self.on_ring: Callable[[], None] = lambda: None

    def opened(self) -> Step[Any]:
        return Step(alarm=Alarm(1.0, self.ring))

    def ring(self) -> Step[Any]:
        self.rang += 1
        self.on_ring()
        return Step(frames=[b"beat"], alarm=Alarm(1.0, self.ring))


@asynccontextmanager
async def woken(
    translator: Woken, queue: FairQueue | None = None, hear: Callable[[Any], None] = lambda _bursts: None
) -> AsyncIterator[tuple[Link, MemoryTransport, ManualClock]]:
    transport, time = MemoryTransport(), ManualClock()
    link = Link(
        Peer(id="l1", dialect=DIALECT),
        transport,
        translator,
        services(time, queue=queue),
        LinkEvents(sink=lambda _link, bursts: hear(bursts)),
    )
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(link.run(Link.greet), name="link")
        await settle()
        yield link, transport, time
        link.end(CloseReason.DONE)


async def test_a_timer_fires_as_often_as_it_is_set() -> None:
    async with woken(Woken()) as (_, transport, time):
        await time.elapses(0.9)
        assert transport.got == []
        await time.elapses(2.2)
        assert transport.got == [b"beat"] * 3
        assert len(time.waiting) == 1, "one alarm at a time"


async def test_a_timer_fires_after_a_large_frame_that_was_read_before_it() -> None:
    steps, order = Steps(), list[str]()
    translator = Woken()
    translator.on_ring = lambda: order.append("timer")
    async with woken(translator, steps.queue, lambda _bursts: order.append("frame")) as (_, transport, time):
        await transport.says(bytes(LARGE))
        await time.elapses(1.0)
        assert order == []
        await steps.run_all(lambda: 0)
        await time.elapses(0.1)
        assert order == ["frame", "timer"]


async def test_a_timer_of_an_ended_link_does_not_fire() -> None:
    translator = Woken()
    async with woken(translator) as (link, _, time):
        link.end(CloseReason.DONE)
        await settle()
        assert time.waiting == []
    assert translator.rang == 0


async def test_a_failure_in_a_timer_ends_only_its_link_and_is_logged() -> None:
    class Failing(Woken):
        def ring(self) -> Step[Any]:
            raise ZeroDivisionError

    async with woken(Failing()) as (link, transport, time), woken(Woken()) as (_, other, others_time):
        with capture_logs() as logs:
            await time.elapses(1.0)
        assert (transport.closed, link.alive) == (CloseReason.INTERNAL, False)
        assert [(entry["log_level"], entry["event"]) for entry in logs] == [
            ("error", "link failed, disconnecting the peer")
        ]
        await others_time.elapses(1.0)
        assert other.got == [b"beat"]


async def test_a_failure_in_a_timer_ends_the_link_also_if_its_translator_fails_again() -> None:
    class Failing(Woken):
        def ring(self) -> Step[Any]:
            raise ZeroDivisionError

        def closed(self, cause: str) -> Step[Any]:
            raise KeyError

    async with woken(Failing()) as (link, transport, time):
        await time.elapses(1.0)
        assert (transport.closed, link.alive) == (CloseReason.INTERNAL, False)


async def test_a_real_dialect_works_on_a_link() -> None:
    """A real translator behaves like the doubles above: a smooth client's bad frame gets its error."""
    transport, ledger = MemoryTransport(), Ledger()
    link = Link(
        Peer(id="l1", dialect=DIALECT),
        transport,
        DIALECT.server(lambda: 0, lambda: "id"),
        services(ledger=ledger),
        LinkEvents(sink=lambda _link, _bursts: None),
    )
    transport.say(b"{")
    async with asyncio.TaskGroup() as group:
        group.create_task(link.run(), name="link")
        await settle()
        transport.hang_up()
    assert [json.loads(frame)["type"] for frame in transport.got] == ["error"]
    assert ledger.counters["faults_smooth_not_json"] == 1


# -- what needs no waiting ---------------------------------------------------------------------------


async def test_frames_to_an_idle_link_are_written_without_waking_its_writer() -> None:
    async with served() as made:
        made.transport.eager = True
        made.link.put([b"a", b"b"])
        assert made.transport.got[-2:] == [b"a", b"b"]
        assert made.link.outbox.empty


async def test_no_frame_overtakes_pending_frames() -> None:
    async with served() as made:
        made.link.put([b"first"])
        made.transport.eager = True
        made.link.put([b"second"])
        assert b"second" not in made.transport.got
        await settle()
        assert made.transport.got[-2:] == [b"first", b"second"]


async def test_no_frame_is_written_directly_to_a_link_that_is_being_closed() -> None:
    async with served() as made:
        made.transport.eager = True
        made.link.end(CloseReason.DONE)
        await settle()
        before = list(made.transport.got)
        made.link.put([b"late"])
        assert made.transport.got == before


# -- the work of one step of the event loop ----------------------------------------------------------


FLOOD = 4 * STEP // EVENT  # frames: four steps for a link alone


class Steps:
    """A queue whose steps are run by the test."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()
        self.queue = FairQueue(self.soon.append)

    async def run_one(self) -> None:
        self.soon.popleft()()
        await settle()

    async def run_all(self, count: Callable[[], int]) -> list[int]:
        """Run all steps; return how much `count` grew in each, with what it is now as the first."""
        counts = [count()]
        while self.soon:
            await self.run_one()
            counts.append(count())
        return [after - before for before, after in pairwise([0, *counts])]


async def test_a_flood_is_processed_in_several_steps_and_in_its_order() -> None:
    steps = Steps()
    flood = [b"%d" % number for number in range(FLOOD)]
    async with served(queue=steps.queue) as made:
        await made.transport.says(*flood)
        heard = await steps.run_all(lambda: len(made.heard))
        assert made.heard == flood
        assert len(heard) >= 4
        assert max(heard[1:]) <= STEP // EVENT + 1


@pytest.mark.parametrize("name", registry.OURS)
async def test_a_step_processes_fewer_frames_of_a_client_whose_requests_take_longer(name: str) -> None:
    steps = Steps()
    dialect = registry.dialect(name)
    async with served(queue=steps.queue, limited=True, dialect=dialect) as made:
        await made.transport.says(*(b"%d" % number for number in range(3 * STEP // FRAME)))
        heard = await steps.run_all(lambda: len(made.heard))
        most = max(heard[1:])
        frame = FRAME * dialect.cost.work
        assert 0.8 * STEP / frame < most <= STEP // frame + 1


@pytest.mark.parametrize("name", registry.OURS)
def test_a_ping_of_any_dialect_is_a_short_turn(name: str) -> None:
    assert FRAME * registry.dialect(name).cost.work + PUT + 1024 <= QUICK


@pytest.mark.parametrize("costly", [{"mended": 1}, {"losses": [Loss(kind="Reply", why="answers no call of ours")]}])
async def test_a_backend_whose_frames_take_longer_than_tokens_is_read_in_more_steps(costly: dict[str, Any]) -> None:
    steps = Steps()
    bad = Step[Any](bursts=[Burst(items=[b"bad"])], **costly)
    async with served(queue=steps.queue, bad=bad) as made:
        await made.transport.says(*([b"bad"] * FLOOD))
        heard = await steps.run_all(lambda: len(made.heard))
        assert len(made.heard) == FLOOD
        assert max(heard[1:]) <= STEP // FRAME + PIECE
        assert len(heard) > FLOOD // (STEP // FRAME + PIECE)


async def test_a_large_frame_of_a_backend_is_read_in_one_step_and_acted_on_in_a_later_one() -> None:
    steps, large, read, acted = Steps(), bytes(LARGE), list[int](), list[int]()
    async with served(queue=steps.queue) as made:
        receive, intake = made.translator.receive, made.link.intake
        step = 0

        def counted(frames: Sequence[Frame]) -> Step[Any]:
            read.extend(step for frame in frames if frame is large)
            return receive(frames)

        def note(item: Any) -> None:
            made.heard.append(item)
            acted.extend([step] if item is large else [])

        intake._receive = intake._receive_now = counted
        made.sink = note
        said = [b"first", large, b"between", large, large, b"last"]
        await made.transport.says(*said)
        while steps.soon:
            step += 1
            await steps.run_one()
        assert made.heard == said
        assert len(read) == 3
        assert all(at < later for at, later in zip(read, acted, strict=True))


async def test_a_link_acts_on_a_large_frame_before_others_read_theirs() -> None:
    """No meter counts what a translator has read, which takes up to four times the memory of the frame."""
    image = {"url": "data:image/png;base64," + "A" * (2 * LARGE)}
    async with in_memory_gateway() as made:
        clients = [made.join(f"client {number}") for number in range(5)]
        await settle()
        for client in clients:
            client.sends(ask("send_message", "r", message="Look!", images=[image]))
        most = 0
        while not all(client.frames() for client in clients):
            most = max(most, sum(client.link.intake.ahead is not None for client in clients))
            await asyncio.sleep(0)
        assert most == 1


async def test_a_large_frame_that_was_read_is_dropped_with_its_link() -> None:
    steps = Steps()
    async with served(queue=steps.queue) as made:
        await made.transport.says(bytes(LARGE))
        made.link.end(CloseReason.DONE)
        await steps.run_all(lambda: 0)
        assert made.heard == []
        assert [entry.kind for entry in made.ledger.entries()] == ["frame"]


async def test_costly_frames_of_a_backend_are_handled_in_pieces_as_small_as_the_last_ones_cost() -> None:
    steps = Steps()
    async with served(queue=steps.queue) as made:

        def ask(item: Any) -> None:
            made.heard.append(item)
            steps.queue.spend(TURN if item == b"question" else 0)

        made.sink = ask
        for _ in range(3):
            await made.transport.says(*([b"question"] * 64))
        heard = await steps.run_all(lambda: len(made.heard))
        assert heard[0] <= 64, "what they cost is not known before"
        assert max(heard[1:]) <= FEW
        for _ in range((PIECE // FEW).bit_length()):  # the size doubles with each read of cheap frames
            await made.transport.says(*([b"token"] * 2 * PIECE))
            await steps.run_all(lambda: 0)
        assert made.heard[-1] == b"token"
        assert made.link.intake.turns.piece == PIECE


async def test_the_first_frames_of_a_backend_are_looked_at_in_the_steps_that_handle_them() -> None:
    steps, looked = Steps(), list[int]()

    def understands(frames: Sequence[Frame]) -> bool:
        looked.append(len(frames))
        return False

    async with served(queue=steps.queue, bad=Step(bursts=[Burst(items=[b"bad"])], mended=1)) as made:
        made.link.intake._understands = understands
        await made.transport.says(*([b"bad"] * FLOOD))
        handled = len(made.heard)
        assert sum(looked) == handled < FLOOD
        assert max(looked) <= PIECE
        while steps.soon:
            await steps.run_one()
        assert sum(looked) == FLOOD


async def test_a_command_behind_one_that_fills_a_step_is_processed_in_a_later_step() -> None:
    steps = Steps()
    async with served(queue=steps.queue, limited=True) as made:

        def answer_at_length(item: Any) -> None:
            made.heard.append(item)
            steps.queue.budget.left -= 2 * STEP

        made.sink = answer_at_length
        commands = [b"%d" % number for number in range(20)]
        await made.transport.says(*commands)
        heard = await steps.run_all(lambda: len(made.heard))
        assert heard == [1] * 20
        assert made.heard == commands


async def test_a_ping_of_a_cheap_client_is_processed_before_the_costly_commands_of_many_new_clients() -> None:
    steps = Steps()
    async with AsyncExitStack() as stack:
        innocent = await stack.enter_async_context(served(queue=steps.queue, limited=True))
        await innocent.transport.says(b"ping")
        for _ in range(20):
            made = await stack.enter_async_context(served(queue=steps.queue, limited=True))

            def answer_at_length(_item: Any) -> None:
                steps.queue.budget.left -= 2 * STEP

            made.sink = answer_at_length
            made.transport.say(b"history", b"history")
        await innocent.transport.says(b"ping")
        await steps.run_one()
        assert innocent.heard == [b"ping"] * 2


async def test_links_of_peers_that_leave_at_once_end_in_several_steps() -> None:
    steps, count = Steps(), 4 * STEP // LEAVE
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(served(queue=steps.queue)) for _ in range(count)]
        for one in made:
            one.transport.hang_up()
        await settle()
        ended = await steps.run_all(lambda: count - sum(one.link.alive for one in made))
        assert sum(ended) == count
        assert max(ended) <= STEP // LEAVE


async def test_a_peer_that_left_is_disconnected_although_its_turn_has_not_come() -> None:
    steps = Steps()
    async with served(queue=steps.queue) as made:
        steps.queue.budget.left = 0
        await made.transport.hangs_up()
        assert made.link.alive


async def test_a_lone_frame_of_a_backend_does_not_wait_while_a_step_is_full() -> None:
    steps = Steps()
    async with served(queue=steps.queue) as made:
        steps.queue.budget.left = 0
        await made.transport.says(b"token")
        assert made.heard == [b"token"]
        steps.queue.budget.left = -STEP
        await made.transport.says(b"one token too many")
        assert made.heard == [b"token"]


async def test_a_lone_frame_of_a_client_waits_while_a_step_is_full() -> None:
    steps = Steps()
    async with served(queue=steps.queue, limited=True) as made:
        steps.queue.budget.left = 0
        await made.transport.says(b"input")
        assert made.heard == []
        await steps.run_one()
        assert made.heard == [b"input"]


async def test_frames_that_wait_when_their_link_ends_are_counted_and_not_processed() -> None:
    steps = Steps()
    async with served(queue=steps.queue) as made:
        await made.transport.says(*[b"flood"] * FLOOD)
        heard = len(made.heard)
        made.link.end(CloseReason.DONE)
        while steps.soon:
            await steps.run_one()
    assert len(made.heard) == heard
    (entry,) = made.ledger.entries()
    assert (entry.kind, entry.count) == ("frame", FLOOD - heard)


async def test_frames_that_wait_in_a_queue_closed_to_clients_are_counted_when_their_link_ends() -> None:
    steps = Steps()
    async with served(queue=steps.queue, limited=True) as made:
        await made.transport.says(*[b"flood"] * FLOOD)
        steps.queue.close_to_clients()
        heard = len(made.heard)
        made.link.end(CloseReason.DONE)
        await settle()
    assert [(entry.kind, entry.count) for entry in made.ledger.entries()] == [("frame", FLOOD - heard)]


async def test_frames_behind_one_that_ends_the_stream_are_counted_and_not_processed() -> None:
    steps = Steps()
    bad: Step[Any] = Step(faults=[fault(can_continue=False)])
    async with served(queue=steps.queue, bad=bad) as made:
        await made.transport.says(b"bad", *[b"flood"] * FLOOD)
        while steps.soon:
            await steps.run_one()
    (entry,) = made.ledger.entries()
    assert len(made.heard) <= STEP // EVENT, "frames of the same step were read together with it"
    assert len(made.heard) + entry.count == FLOOD


async def test_requests_of_a_disconnected_peer_are_not_executed() -> None:
    step = Step(frames=[b"x" * 200], bursts=[Burst(items=["asked"])])
    async with served(soft=10, hard=100, ask=step) as made:
        await made.stop_reading()
        await made.transport.says(b"ask")
        assert made.transport.is_open(), "one answer may be longer than the limit"
        await made.transport.says(b"ask")
        assert made.heard == ["asked"]
        assert made.ledger.counters["links_cut_flooding"] == 1


async def test_a_client_that_reads_slowly_gets_all_answers_to_requests_that_it_sends_at_once() -> None:
    step = Step(frames=[b"x" * 200], bursts=[Burst(items=["asked"])])
    async with served(soft=50, hard=3000, limited=True, ask=step) as made:
        await made.stop_reading()
        for _ in range(10):
            made.transport.say(b"ask")
        await settle()
        assert made.heard == ["asked"], "the others wait until the answer is read"
        await made.transport.reads_on()
        assert made.heard == ["asked"] * 10
        assert made.transport.got.count(b"x" * 200) == 10
        assert made.transport.is_open()


async def test_commands_of_a_client_that_waits_to_be_shown_its_session_are_handled_after_it() -> None:
    async with served(limited=True) as made:
        made.link.outbox.hold_commands()
        await made.transport.says(b"one", b"two")
        assert made.heard == []
        made.link.outbox.release_commands()
        await settle()
        assert made.heard == [b"one", b"two"]


async def test_commands_of_a_client_that_does_not_read_wait_also_after_they_were_held() -> None:
    async with served(limited=True, soft=10, hard=1000, big=Step(frames=[b"x" * 21])) as made:
        made.transport.reading.clear()
        await made.transport.says(b"big")
        await made.transport.says(b"big")
        made.link.outbox.hold_commands()
        made.transport.say(b"one")
        made.link.outbox.release_commands()
        await settle()
        assert made.heard == []
        await made.transport.reads_on()
        assert made.heard == [b"one"]


async def test_requests_held_back_from_a_client_that_does_not_read_are_counted_at_its_end() -> None:
    step = Step(frames=[b"x" * 200], bursts=[Burst(items=["asked"])])
    async with served(soft=50, hard=300, limited=True, ask=step) as made:
        await made.stop_reading()
        await made.transport.says(b"ask")
        await made.transport.says(*[b"ask"] * 4)
        made.link.end(CloseReason.DONE)
        await made.transport.reads_on()
    (entry,) = made.ledger.entries()
    assert (entry.kind, entry.count) == ("frame", 4)


async def test_a_failure_of_a_frame_that_waited_ends_its_link_alone() -> None:
    steps = Steps()
    async with served(queue=steps.queue) as made, served(queue=steps.queue) as other:

        def fails(item: Any) -> None:
            if item == b"boom":
                raise ZeroDivisionError

        made.sink = fails
        with capture_logs() as logs:
            made.transport.say(*[b"flood"] * FLOOD, b"boom")
            await other.transport.says(*[b"flood"] * FLOOD)
            while steps.soon:
                await steps.run_one()
        assert made.transport.closed is CloseReason.INTERNAL
        assert [entry["event"] for entry in logs] == ["link failed, disconnecting the peer"]
        assert len(other.heard) == FLOOD


async def test_a_client_above_its_message_rate_gets_an_error_and_is_disconnected() -> None:
    limits = Limits(message_rate=10.0, message_burst=100)
    async with served(limits=limits, limited=True) as made:
        await made.transport.says(*[b"x"] * 100)
        assert made.transport.is_open()
        made.time.passes(1.0)
        await made.transport.says(*[b"x"] * 10)
        assert made.transport.is_open()
        await made.transport.says(b"x")
        assert made.transport.closed is CloseReason.FULL
        assert made.refusals == ["too many messages in a short time (`message_rate`)"]
        assert made.transport.close_text == made.refusals[0]
        assert made.ledger.counters["links_cut_too_many_messages"] == 1


async def test_a_frame_that_was_written_is_freed() -> None:
    freed: list[str] = []

    class Noted(bytes):
        def __del__(self) -> None:
            freed.append(self.decode())

    async with served() as made:
        await made.puts([Noted(b"a long history")])
        made.transport.got.clear()
        assert freed == ["a long history"]


async def test_pings_of_a_client_count_as_messages() -> None:
    watching: list[Callable[[int], None]] = []
    made = Served(Limits(message_rate=10.0, message_burst=100), limited=True)
    made.transport.watch_pings = watching.append  # type: ignore[attr-defined]  # only a WebSocket has pings
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(made.link.run(), name="link")
        await settle()
        (count,) = watching
        made.transport.say(*[b"x"] * 50)
        count(50)
        await settle()
        assert made.transport.is_open()
        count(1)
        await settle()
        assert made.transport.closed is CloseReason.FULL
    assert made.refusals == ["too many messages in a short time (`message_rate`)"]


async def test_a_client_above_its_fault_rate_gets_an_error_and_is_disconnected() -> None:
    limits = Limits(fault_rate=10.0, fault_burst=100)
    async with served(limits=limits, limited=True, bad=Step(faults=[fault(can_continue=True)])) as made:
        await made.transport.says(*[b"bad"] * 100)
        assert made.transport.is_open()
        await made.transport.says(b"bad")
        assert made.transport.closed is CloseReason.FULL
        assert made.refusals == ["too many bad messages in a short time (`fault_rate`)"]


async def test_a_backend_has_no_rate() -> None:
    limits = Limits(message_rate=1.0, message_burst=1, fault_rate=1.0, fault_burst=1)
    async with served(limits=limits, bad=Step(faults=[fault(can_continue=True)])) as made:
        await made.transport.says(*[b"x", b"bad"] * 100)
        assert (made.transport.is_open(), made.refusals) == (True, [])


async def test_a_peer_that_reads_gets_the_reason_before_it_is_disconnected() -> None:
    async with served() as made:
        made.link.cut(PeerError("too_slow", "events are dropped", can_continue=False))
        await settle()
        assert made.refusals == ["events are dropped"]
        assert made.transport.closed is CloseReason.TOO_SLOW
