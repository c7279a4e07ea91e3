"""Delivery: all clients see the same, and a client that does not read costs bounded memory and delays no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.adapters.base import CloseReason
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.link import Link, LinkEvents, Peer
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.fair_queue import QUANTUM, STEP, WorkOfLinks
from dragoman.gateway.overload.fair_queue import TURN as TURN_WORK
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.log import Log
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.gateway.session.weight import of_events
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.events import (
    MessageAppended,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    TurnAccepted,
    TurnEnded,
    TurnResult,
)
from dragoman.mappings.canonical.values import End, Message, Origin
from tests.idle import run_turns, settle
from tests.memory_transport import MemoryTransport
from tests.services import services

SESSION = "5f0c4b1e-0000-4000-8000-000000000001"
TURN = "5f0c4b1e-0000-4000-8000-00000000000a"


class Stage:
    """The delivery of a session, with links in memory; tests play turns in normal form by hand."""

    def __init__(
        self, group: asyncio.TaskGroup, *, soft: int, log_bytes: int, coalesce: bool, source: str = "pod"
    ) -> None:
        self.group = group
        self.state = SessionState(id=SESSION)
        self.ledger = Ledger()
        limits = Limits(outbox_soft=soft, outbox_hard=1 << 24, log_bytes=log_bytes, catch_up=64)
        self.services = services(limits=limits, ledger=self.ledger)
        self.log = Log(self.state, limits)
        self.delivery = Delivery(self.state, self.log, self.services, coalesce=coalesce, source=source)
        self.origin = Origin()
        self.links: list[Link] = []
        self.work = WorkOfLinks(self.services.queue)
        self.seen: list[str] = []
        """The slices that were rendered, and the links that were heard."""

    def join(self, name: str) -> tuple[Link, MemoryTransport]:
        transport, dialect = MemoryTransport(), registry.dialect("smooth")
        link = Link(
            Peer(id=name, dialect=dialect),
            transport,
            dialect.server(lambda: 0, lambda: "id"),
            self.services,
            LinkEvents(sink=lambda link, _bursts: self.seen.append(link.id), drained=self._drained),
        )
        self.links.append(link)
        self.group.create_task(link.run(), name=name)
        self.delivery.attach(link, "")
        return link, transport

    def _drained(self, link: Link) -> None:
        self.work.add_work(link.id, self._slices(link), lambda error: pytest.fail(str(error)))

    def _slices(self, link: Link) -> Iterator[None]:
        for _ in self.delivery.catch_up(link):
            self.seen.append(f"slice of {link.id}")
            yield

    def play(self, *events: Event, opened: bool = False, ended: bool = False, turn: str = TURN) -> None:
        batch = self.log.append(list(events), turn, self.origin, 10**9, *of_events(events))
        finished = self.delivery.deliver(batch, opened=opened, ended=ended)
        self.delivery.tell_finished([(attachment, batch) for attachment in finished])

    def begin(self, link: str = "", request: str = "", turn: str = TURN) -> None:
        self.origin = Origin(link=link, request=request)
        message = Message(role="user", text="hi", id=SESSION)
        self.play(
            TurnAccepted(request=request),
            MessageAppended(message=message),
            StatusChanged(status="running"),
            opened=True,
            turn=turn,
        )

    def end(self, text: str, turn: str = TURN, end: End = "completed") -> None:
        self.play(
            TextDone(text=text),
            TurnResult(end=end),
            StatusChanged(status="idle"),
            TurnEnded(end=end, text=text, message=SESSION),
            ended=True,
            turn=turn,
        )


@asynccontextmanager
async def stage(
    *, soft: int = 1 << 20, log_bytes: int = 1 << 25, coalesce: bool = True, source: str = "pod"
) -> AsyncIterator[Stage]:
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        made = Stage(group, soft=soft, log_bytes=log_bytes, coalesce=coalesce, source=source)
        yield made
        for link in made.links:
            link.end(CloseReason.DONE)


def shown(transport: MemoryTransport) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in transport.got]


def text(transport: MemoryTransport, request: str) -> str:
    return "".join(f["token"] for f in shown(transport) if f["type"] == "stream_token" and f["requestId"] == request)


async def test_the_link_that_began_a_turn_sees_its_own_request_id_and_the_others_the_turns() -> None:
    async with stage() as made:
        _, mine = made.join("mine")
        _, other = made.join("other")
        made.begin("mine", "r1")
        made.play(TextDelta(text="a"))
        made.end("a")
        await settle()
        assert [f["type"] for f in shown(mine)] == ["immediate_response", "stream_token", "eventual_response"]
        assert {f["requestId"] for f in shown(mine)} == {"r1"}
        assert [f["type"] for f in shown(other)] == ["stream_token", "eventual_response"]
        assert {f["requestId"] for f in shown(other)} == {TURN}


async def test_the_begin_and_the_end_of_a_turn_count_as_work_of_the_step() -> None:
    async with stage() as made:
        budget = made.services.queue.budget
        before = budget.left
        made.begin()
        begun = budget.left
        made.play(TextDelta(text="a"))
        streamed = budget.left
        made.end("a")
        assert (before - begun, begun - streamed, streamed - budget.left) == (TURN_WORK, 0, TURN_WORK)


async def test_a_stalled_client_holds_bounded_frames_and_disturbs_nobody() -> None:
    async with stage(soft=10_000) as made:
        slow, stalled = made.join("slow")
        _, fast = made.join("fast")
        stalled.reading.clear()
        made.begin()
        expected = ""
        for number in range(5_000):
            made.play(TextDelta(text=f"{number} "))
            expected += f"{number} "
            if number % 50 == 0:
                await settle()
                assert slow.outbox.size < 40_000
        made.end(expected)
        await settle()
        assert text(fast, TURN) == expected
        assert len([f for f in shown(fast) if f["type"] == "stream_token"]) == 5_000
        stalled.reading.set()
        while not any(f["type"] == "eventual_response" for f in shown(stalled)):
            await settle()
        assert text(stalled, TURN) == expected
        assert shown(stalled)[-1]["type"] == "eventual_response"
        attachment = made.delivery.attachments["slow"]
        assert attachment.offered == attachment.rendered + attachment.merged == made.state.seq
        assert attachment.merged > 1_000
        assert attachment.behind is None, "it has caught up and shares the rendering again"


async def test_a_client_that_was_behind_at_the_start_of_its_turn_gets_it_under_its_request_id() -> None:
    async with stage(soft=1_000) as made:
        _, stalled = made.join("slow")
        stalled.reading.clear()
        made.begin()
        for _ in range(100):
            made.play(TextDelta(text="x"))
            await settle()
        made.end("x" * 100)
        second = "5f0c4b1e-0000-4000-8000-00000000000b"
        made.begin("slow", "r2", turn=second)
        made.play(TextDelta(text="mine"), turn=second)
        made.end("mine", turn=second)
        stalled.reading.set()
        while len([f for f in shown(stalled) if f["type"] == "eventual_response"]) < 2:
            await settle()
        assert text(stalled, TURN) == "x" * 100
        assert text(stalled, "r2") == "mine"
        assert [f["type"] for f in shown(stalled) if f["requestId"] == "r2"] == [
            "immediate_response",
            "stream_token",
            "eventual_response",
        ]


async def test_a_client_that_falls_behind_the_log_is_disconnected() -> None:
    async with stage(soft=1_000, log_bytes=200) as made:
        _, stalled = made.join("slow")
        _, fast = made.join("fast")
        stalled.reading.clear()
        made.begin()
        for number in range(1_000):
            made.play(TextDelta(text=f"{number} "))
            if number % 20 == 0:
                await settle()
        stalled.reading.set()
        while stalled.closed is None:
            await settle()
        assert stalled.closed.name == "TOO_SLOW"
        made.end("".join(f"{n} " for n in range(1_000)))
        await settle()
        assert shown(fast)[-1]["type"] == "eventual_response"


async def test_a_client_that_reads_one_frame_at_a_time_gets_the_whole_text_of_200000_tokens() -> None:
    async with stage(soft=1_000) as made:
        _, slow = made.join("slow")
        slow.reading.clear()
        made.begin()
        for number in range(2_000):
            made.play(*(TextDelta(text=f"{number} ") for _ in range(100)))
            if number % 100 == 0:
                slow.reading.set()
                await asyncio.sleep(0)
                slow.reading.clear()
        whole = "".join(f"{number} " * 100 for number in range(2_000))
        made.end(whole)
        slow.reading.set()
        await settle()
        assert text(slow, TURN) == whole
        assert slow.closed is None


async def test_with_overflow_disconnect_a_slow_client_is_disconnected_at_once() -> None:
    async with stage(soft=1_000, coalesce=False) as made:
        _, stalled = made.join("slow")
        stalled.reading.clear()
        made.begin()
        for _ in range(200):
            made.play(TextDelta(text="x"))
            await settle()
        while stalled.closed is None:
            await settle()
        assert stalled.closed.name == "TOO_SLOW"


async def test_a_client_that_joins_during_a_turn_sees_its_beginning_and_then_the_rest() -> None:
    async with stage() as made:
        form = NormalForm(made.state, lambda: TURN)
        for run in form.feed([TextDelta(text="so far ")], 1):
            made.play(*run.events, turn=run.turn)
        _, late = made.join("late")
        for run in form.feed([TextDelta(text="and on")], 2):
            made.play(*run.events, turn=run.turn)
        for run in form.feed([TurnResult(end="completed"), StatusChanged(status="idle")], 3):
            made.play(*run.events, turn=run.turn, ended=run.ended)
        await settle()
        assert text(late, TURN) == "so far and on"
        assert shown(late)[-1]["data"]["data"]["response"]["responseParts"] == ["so far and on"]


async def test_a_slow_client_gets_the_turn_end_after_many_events_hidden_from_it() -> None:
    async with stage(soft=1_000) as made:
        slow, stalled = made.join("slow")
        stalled.reading.clear()
        made.begin()
        while not slow.outbox.full:
            made.play(TextDelta(text="x"))
            await settle()
        for _ in range(500):  # several slices of the log that smooth has no frame for
            made.play(ToolCallArguments(call="c", name="grep", json="1"))
        made.end("x")
        stalled.reading.set()
        await settle()
        assert shown(stalled)[-1]["type"] == "eventual_response"
        assert made.delivery.attachments["slow"].behind is None


async def test_an_innocent_client_is_served_between_two_slices_of_a_client_that_catches_up() -> None:
    async with stage(soft=1_000) as made:
        slow, stalled = made.join("slow")
        _, innocent = made.join("innocent")
        stalled.reading.clear()
        made.begin()
        while not slow.outbox.full:
            made.play(TextDelta(text="x"))
            await settle()
        for _ in range(20_000):
            made.play(ToolCallArguments(call="c", name="grep", json="1"))
            made.play(ToolCallArguments(call="d", name="grep", json="1"))
        stalled.reading.set()
        while made.seen.count("slice of slow") < 3:
            await run_turns(1)
        innocent.say(b'{"action":"ping","requestId":"p"}')
        await settle()
        heard = made.seen.index("innocent")
        assert heard <= 3 + 2 * STEP // QUANTUM
        assert len(made.seen) > heard + 100
        assert made.delivery.attachments["slow"].behind is None


async def test_a_client_that_was_behind_at_the_end_of_its_turn_sees_later_turns_under_their_ids() -> None:
    async with stage(soft=1_000) as made:
        slow, stalled = made.join("slow")
        stalled.reading.clear()
        made.begin("slow", "r1")
        while not slow.outbox.full:
            made.play(TextDelta(text="x"))
            await settle()
        made.end("x")
        second = "5f0c4b1e-0000-4000-8000-00000000000b"
        made.begin(turn=second)
        made.play(TextDelta(text="not mine"), turn=second)
        stalled.reading.set()
        await settle()
        made.play(TextDelta(text=", live"), turn=second)
        made.end("not mine, live", turn=second)
        await settle()
        assert text(stalled, second) == "not mine, live"
        assert "not mine" not in text(stalled, "r1")
        assert [f["requestId"] for f in shown(stalled) if f["type"] == "eventual_response"] == ["r1", second]


async def test_a_client_that_is_behind_gets_the_202_of_an_input_accepted_during_a_turn() -> None:
    async with stage(soft=1_000) as made:
        slow, stalled = made.join("slow")
        stalled.reading.clear()
        made.play(TextDelta(text="early"))
        while not slow.outbox.full:
            made.play(TextDelta(text="x"))
            await settle()
        made.play(TextDelta(text="before"))
        made.begin("slow", "r1")
        made.play(TextDelta(text="after"))
        made.end("all")
        stalled.reading.set()
        await settle()
        assert [f["type"] for f in shown(stalled) if f["requestId"] == "r1"] == [
            "immediate_response",
            "stream_token",
            "eventual_response",
        ]
        assert text(stalled, TURN).endswith("before")


@pytest.mark.parametrize(("source", "counted"), [("pod", {"TurnEnded": 2}), ("smooth", {})])
async def test_fields_that_are_lost_in_rendering_are_counted_once_per_rendering(
    source: str, counted: dict[str, int]
) -> None:
    """Every lossy translation counts (docs/design.md, section 6); a message loses nothing in its own dialect."""
    async with stage(source=source) as made:
        for name in ("one", "other"):  # who see the same, and so share a rendering
            made.join(name)
        for turn in ("t1", "t2"):
            made.begin(turn=turn)
            made.play(TextDelta(text="a"), turn=turn)
            made.end("a", turn=turn, end="cancelled")
        await settle()
        assert {entry.kind: entry.count for entry in made.ledger.partial()} == counted
        assert {(entry.source, entry.target) for entry in made.ledger.partial()} <= {("pod", "smooth")}


async def test_losses_of_a_client_that_is_behind_are_counted_when_it_catches_up() -> None:
    async with stage(soft=1) as made:
        slow, stalled = made.join("slow")
        stalled.reading.clear()
        made.begin()
        made.play(TextDelta(text="a" * 1000))
        await settle()
        made.play(TextDelta(text="b" * 1000))
        made.end("a", end="cancelled")
        assert made.ledger.partial() == []
        stalled.reading.set()
        while slow.outbox.full or made.delivery.attachments["slow"].behind is not None:
            await settle()
        assert [(entry.kind, entry.count) for entry in made.ledger.partial()] == [("TurnEnded", 1)]
