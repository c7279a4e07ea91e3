"""A conversation of a pando for a single session: opened, named, and shared with nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from dragoman.adapters.base import CloseReason
from dragoman.gateway import registry
from dragoman.gateway.backends.dials import RouteDials
from dragoman.gateway.backends.target import UpstreamTarget
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.replay.conversation import GONE, PrivateConversation, SessionFilter
from dragoman.mappings.canonical.commands import CancelTurn, Compact
from dragoman.mappings.canonical.events import Gap, Reply
from dragoman.mappings.dialect import Frame, Missed, Oversize, Parts
from tests.gateway.backends.in_memory_pando import InMemoryPando, row
from tests.gateway.in_memory import AT_ONCE, ManualClock
from tests.gateway.replay.recording_builder import said, types
from tests.gateway.replay.test_live import Session
from tests.idle import run_turns, settle
from tests.memory_transport import MemoryTransport
from tests.services import services
from tests.transport_reader import receive

LIMITS = Limits(backoff_first=AT_ONCE, backoff_max=AT_ONCE)
ROLES = ("user", "assistant")
THEIRS = "0b0e9b0e-0000-4000-8000-000000000001"


class Alone(InMemoryPando):
    """A session with its own connection to the primary. With `refuses` nobody can connect."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        super().__init__()
        self.session, self.time, self.ledger = Session(), ManualClock(), Ledger()
        self.session.state.title = "Orders"
        self.refuses = False
        ids = count(1)
        pando = registry.dialect("pando")
        dialled = services(self.time, limits=LIMITS, ledger=self.ledger, group=group)
        dials = RouteDials(lambda: LIMITS, dialled.clock)
        target = UpstreamTarget(endpoint="pando", dialect=pando, connect=self._connect, dials=dials)
        self.way = PrivateConversation(
            self.session,
            pando,
            services(self.time, ledger=self.ledger, new_id=lambda: f"id {next(ids)}"),
            lambda conversation: Upstream("own", target, conversation, dialled),
        )

    async def _connect(self) -> Any:
        if self.refuses:
            raise ConnectionRefusedError("nobody is there")
        return await self.dial()

    async def asks(self, *commands: Any) -> None:
        self.way.send(commands)
        await (run_turns() if self.refuses else settle())

    async def opens(self) -> str:
        """Connect the primary, which opens the requested session; return its id."""
        await self.begins(row(THEIRS))
        written = (await self.answers("CreateSession", {"id": "named by it"}))["params"]
        await self.answers("message.list", [])
        return str(written["id"])

    @property
    def told(self) -> list[str]:
        return types(self.session.events)


@asynccontextmanager
async def alone() -> AsyncIterator[Alone]:
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        made = Alone(group)
        yield made
        made.way.stop()


async def test_the_first_command_opens_a_new_conversation_and_is_sent_to_it() -> None:
    async with alone() as made:
        await made.asks(said("go"))
        await made.begins(row(THEIRS))
        assert made.asked() == ["CreateSession"]
        written = (await made.answers("CreateSession", {"id": "named by it"}))["params"]
        assert written["title"] == "Orders"
        assert written["id"] not in ("", THEIRS, "own"), "nobody has it yet"
        assert await made.answers("message.list", []) == {"session_id": "named by it"}
        assert await made.answers("message.send", {"ok": True}) == {"session_id": "named by it", "content": "go"}
        await made.publishes("llm.token", session_id="named by it", token="Hi")
        await made.asks(CancelTurn(request="c"))
        assert await made.answers("session.interrupt", {"ok": True}) == {"session_id": "named by it"}
        told = [name for name in made.told if name != "HistorySnapshot"]
        assert told == ["TurnAccepted", "ModelTurnStarted", "TextDelta", "Reply"]


async def test_a_connection_opens_no_conversation_before_the_first_command() -> None:
    async with alone() as made:
        made.way.start()
        await made.begins(row(THEIRS))
        assert made.asked() == []


async def test_commands_that_wait_for_the_conversation_are_sent_in_order() -> None:
    async with alone() as made:
        await made.asks(said("go"))
        await made.asks(CancelTurn(request="c"))
        await made.opens()
        assert made.asked() == ["message.send", "session.interrupt"]


async def test_events_of_other_sessions_are_ignored_and_not_counted_as_losses() -> None:
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        before, losses = len(made.told), len(made.ledger.entries())
        await made.publishes("llm.token", session_id=THEIRS, token="theirs")
        await made.publishes("session.deleted", **row(THEIRS))
        assert (len(made.told), len(made.ledger.entries())) == (before, losses)


async def test_lists_and_heartbeats_of_the_backend_are_not_passed_on() -> None:
    """The session has its own id, title and messages, and the backend's ids are kept from it."""
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        before, losses = len(made.told), len(made.ledger.entries())
        await made.publishes("session.update", **row("named by it", "Another title"))
        await made.publishes("session.activated", **row("named by it"))
        await made.publishes("instance.heartbeat", instance_id="i-1", session_count=0, uptime="5s", started_at="")
        assert (len(made.told), len(made.ledger.entries())) == (before, losses)


async def test_events_of_no_session_are_counted() -> None:
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        await made.publishes("instance.shutdown", instance_id="i-1", reason="bye")
        assert "BackendShutdown" in [entry.kind for entry in made.ledger.entries()]
        assert "BackendShutdown" not in made.told


async def test_all_waiting_commands_are_refused_if_the_primary_opens_no_session() -> None:
    async with alone() as made:
        await made.asks(said("go", request="r"), CancelTurn(request="c"))
        await made.begins()
        await made.answers("CreateSession", problem="dbproxy: INTERNAL (CreateSession): read-only")
        replies = [event for event in made.session.events if isinstance(event, Reply)]
        assert [(reply.request, reply.failure and reply.failure.text) for reply in replies] == [
            ("r", "dbproxy: INTERNAL (CreateSession): read-only"),
            ("c", "dbproxy: INTERNAL (CreateSession): read-only"),
        ]
        await made.asks(said("again"))
        assert made.asked() == ["CreateSession"], "it is asked anew"


async def test_a_command_without_a_pando_form_is_refused() -> None:
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        await made.asks(Compact(request="c"))
        (reply,) = [event for event in made.session.events if isinstance(event, Reply)]
        assert reply.failure is not None
        assert (reply.request, reply.failure.cause) == ("c", "unsupported")


async def test_commands_that_waited_for_an_unreachable_backend_were_never_written() -> None:
    async with alone() as made:
        made.refuses = True
        go = said("go", request="r")
        await made.asks(go)
        text, unsent = made.session.losses[0]
        assert ("nobody is there" in text, unsent) == (True, [go])
        made.refuses = False
        await made.asks(said("again"))
        assert await made.opens()
        assert (await made.answers("message.send", {"ok": True}))["content"] == "again"


async def test_the_same_conversation_continues_after_a_lost_connection() -> None:
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        await made.answers("message.send", {"ok": True})
        await made.replaced(row("named by it"))
        assert [unsent for _, unsent in made.session.losses] == [[]]
        await made.answers("message.list", [])
        await made.asks(said("again"))
        assert await made.answers("message.send", {"ok": True}) == {"session_id": "named by it", "content": "again"}


@pytest.mark.parametrize("kept", [True, False])
async def test_a_conversation_missing_from_the_list_is_requested_before_it_counts_as_gone(kept: bool) -> None:
    """A list lacks sessions without messages (docs/dialects/pando.md, section 6)."""
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        await made.answers("message.send", {"ok": True})
        await made.replaced(row(THEIRS))
        await made.answers("message.list", [])
        problem = "" if kept else "session.get: sql: no rows in result set"
        asked = await made.answers("session.get", row("named by it"), problem=problem)
        assert asked == {"session_id": "named by it"}
        gaps = [event.text for event in made.session.events if isinstance(event, Gap)]
        assert [text.startswith(GONE) for text in gaps] == ([] if kept else [True])
        await made.asks(said("again"))
        assert made.asked() == (["message.send"] if kept else ["CreateSession"])


async def test_commands_wait_until_it_is_known_whether_the_conversation_exists() -> None:
    """After a reconnect, a held command could otherwise be the first that another primary receives."""
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        made.refuses = True
        made.primaries[-1].hang_up()
        await run_turns()
        made.refuses = False
        await made.asks(said("again"))
        await made.begins()
        await made.answers("message.list", [])
        assert made.asked() == ["session.get"]
        await made.answers("session.get", problem="session.get: sql: no rows in result set")
        assert made.told[-1] == "Gap"
        await made.answers("CreateSession", {"id": "another"})
        await made.answers("message.list", [])
        assert await made.answers("message.send", {"ok": True}) == {"session_id": "another", "content": "again"}
        assert not [event for event in made.session.events if isinstance(event, Reply)]


async def test_a_turn_without_publications_ends_when_the_stored_messages_show_its_end() -> None:
    """The end needs two equal answers with a silence between them (docs/translation.md, rule 3.6)."""
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        await made.answers("message.send", {"ok": True})
        messages = [{"id": f"m{n}", "role": role, "content": "x", "created_at": ""} for n, role in enumerate(ROLES)]
        while "StatusChanged" not in made.told:
            made.time.passes(5)
            await settle()
            for method in made.asked():
                pinged = {"status": "ok", "instance_id": "i-1", "uptime": "0s"}
                await made.answers(method, messages if method == "message.list" else pinged)
        assert made.told[-3:] == ["TextDelta", "TurnResult", "StatusChanged"]


async def test_a_deleted_conversation_ends_and_the_next_input_opens_another() -> None:
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        await made.answers("message.send", {"ok": True})
        await made.publishes("session.deleted", **row("named by it"))
        assert made.session.losses == [(GONE, [])]
        assert made.told[-1] == "Gap"
        await made.asks(said("again"))
        assert made.asked() == ["CreateSession"]


async def test_a_conversation_ends_with_its_session_and_rests_until_needed() -> None:
    async with alone() as made:
        await made.asks(said("go"))
        await made.opens()
        made.way.rest()
        await settle()
        assert not made.primaries[-1].is_open()
        await made.asks(said("again"))
        assert (len(made.primaries), made.primaries[-1].is_open()) == (2, True)
        made.way.stop()
        await settle()
        assert not made.primaries[-1].is_open()


REPLY = b'{"jsonrpc":"2.0","id":"1","result":{"ok":true}}'


def token(session: str) -> bytes:
    return b'llm.token\0{"topic":"llm.token","payload":{"session_id":"%s","token":"x"}}' % session.encode()


def filtered(names: tuple[str, ...] = ("ours",)) -> tuple[MemoryTransport, SessionFilter]:
    made = MemoryTransport()
    return made, SessionFilter(made, registry.dialect("pando"), names.__contains__)


async def test_frames_of_other_sessions_are_filtered_out() -> None:
    made, filtered_transport = filtered()
    made.say(token("theirs"), token("ours"), REPLY, token("theirs"))
    assert list(await receive(filtered_transport)) == [token("ours"), REPLY]


async def test_frames_are_filtered_in_the_form_of_the_socket() -> None:
    made, filtered_transport = filtered()
    published = [Parts("pub", b"", (token(name),)) for name in ("theirs", "ours")]
    made.say(*published)
    assert list(await receive(filtered_transport)) == published[1:]


async def test_receive_waits_for_the_next_frames_if_all_were_filtered_out() -> None:
    made, filtered_transport = filtered()
    made.say(token("theirs"))
    made.say(token("ours"))
    assert list(await receive(filtered_transport)) == [token("ours")]


async def test_frames_without_a_session_and_unreadable_frames_are_passed_to_the_translator() -> None:
    made, filtered_transport = filtered()
    frames: list[Frame] = [b"nonsense", Oversize(2, 1), Missed("pub", 3), b'instance.heartbeat\0{"payload":{}}']
    made.say(*frames)
    assert list(await receive(filtered_transport)) == frames


async def test_no_frame_of_a_session_is_sent_before_the_conversation_is_open() -> None:
    made, filtered_transport = filtered(())
    made.say(token("ours"), REPLY)
    assert list(await receive(filtered_transport)) == [REPLY]


async def test_the_end_and_all_sent_frames_pass_through_to_the_transport() -> None:
    made, filtered_transport = filtered()
    made.hang_up()
    assert list(await receive(filtered_transport)) == []
    assert filtered_transport.try_send([b"1"])
    await filtered_transport.send([b"2"])
    assert made.got == [b"1", b"2"]
    made.half_closed = True
    assert filtered_transport.peer_can_read()
    await filtered_transport.close(CloseReason.GOING_AWAY, "bye")
    assert (filtered_transport.peer, made.closed) == ("memory", CloseReason.GOING_AWAY)
