"""A pando lists its sessions once: clients also see and use those that the gateway has forgotten.

It tells of ever more sessions: the gateway holds a bounded number of those that nobody uses.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.gateway.backends import unused
from dragoman.gateway.backends.shared import LISTED
from dragoman.gateway.backends.unused import TITLE_MAX, TOO_MANY, TOO_MANY_ROWS, RememberingOpener
from dragoman.gateway.overload.fair_queue import STEP
from dragoman.gateway.routing import session_list
from dragoman.gateway.routing.session_commands import ID_IN_USE
from dragoman.gateway.routing.session_index import SessionIndex
from dragoman.gateway.routing.session_list import SessionList
from dragoman.mappings.canonical.values import Ext, SessionSummary
from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row, send
from tests.gateway.smooth_client_messages import ask
from tests.gateway.steps_of_queue import count_in_steps
from tests.idle import settle
from tests.memory_transport import MemoryTransport

ONE, OTHER, THIRD = (f"0b0e9b0e-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))


@pytest.fixture(autouse=True)
def at_most_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused, "ANNOUNCED_MAX", 2)


async def forgotten(made: InMemoryPandoGateway) -> MemoryTransport:
    """Return a client of a route that has just forgotten both sessions of its pando."""
    client = await made.lists(row(ONE, "Atlas"), row(OTHER, "Borealis"))
    for session in made.router.sessions:
        session.presence.suspend("session_ttl")  # the time itself would also end the connection: nobody keeps it alive
    assert made.router.sessions == []
    client.got.clear()
    return client


async def test_a_forgotten_session_is_still_listed() -> None:
    async with in_memory_pando_gateway() as made:
        client = await forgotten(made)
        await send(client, ask("list_conversations", "r1"))
        (reply,) = frames(client)
        assert {one["conversationId"] for one in reply["data"]["conversations"]} == {ONE, OTHER}


async def test_a_forgotten_session_is_opened_again_for_a_client_that_names_it() -> None:
    async with in_memory_pando_gateway() as made:
        client = await forgotten(made)
        await send(client, ask("get_session", "r1", sessionId=ONE))
        (session,) = made.router.sessions
        assert (session.state.id, session.state.title) == (ONE, "Atlas")
        assert made.asked() == ["message.list"], "its history is the backend's"


async def test_a_forgotten_session_that_its_backend_closes_is_not_listed_any_more() -> None:
    async with in_memory_pando_gateway() as made:
        client = await forgotten(made)
        await made.publishes("session.deleted", **row(ONE))
        await send(client, ask("list_conversations", "r1"))
        (reply,) = frames(client)
        assert [one["conversationId"] for one in reply["data"]["conversations"]] == [OTHER]


async def test_a_session_that_the_backend_lists_with_a_later_change_is_listed_first() -> None:
    async with in_memory_pando_gateway() as made:
        client = await made.lists(row(ONE, updated="2026-05-09T21:00:00Z"), row(OTHER, updated="2026-05-09T22:00:00Z"))
        await made.replaced(row(ONE, updated="2026-05-09T23:00:00Z"), row(OTHER, updated="2026-05-09T22:00:00Z"))
        await send(client, ask("list_conversations", "r1"))
        listed = [[one["conversationId"] for one in reply["data"]["conversations"]] for reply in frames(client)]
        assert listed == [[OTHER, ONE], [ONE, OTHER]]


async def test_a_pod_client_is_shown_the_newest_session_though_it_was_forgotten() -> None:
    async with in_memory_pando_gateway() as made:
        await forgotten(made)
        made.join("pod")
        await settle()
        (session,) = made.router.sessions
        assert session.state.id in (ONE, OTHER)


@pytest.mark.parametrize(("most", "lost"), [(1, 1), (2, 0)])
async def test_a_row_beyond_the_limit_is_counted_as_lost(monkeypatch: pytest.MonkeyPatch, most: int, lost: int) -> None:
    monkeypatch.setattr(session_list, "ROWS_MAX", most)
    async with in_memory_pando_gateway() as made:
        await forgotten(made)
        assert [entry.why for entry in made.ledger.entries()].count(TOO_MANY_ROWS) == lost


@pytest.mark.parametrize(("nameless", "newest", "asked"), [(0, "99", 1), (3, "96", 4), (100, "99", 100)])
def test_the_newest_session_with_a_uuid_is_found_without_the_names_of_older_ones(
    nameless: int, newest: str, asked: int
) -> None:
    """The last sessions are `nameless`: a pando has such sessions for sub-agents."""
    names: list[str] = []

    def public_ids(session: str, _ext: Ext | None) -> tuple[str, ...]:
        names.append(session)
        return (session,) if int(session) < 100 - nameless else ("other",)

    kept = [SessionSummary(session=str(number), updated_at=number) for number in range(100)]
    upstream, rows = SimpleNamespace(public_ids=public_ids), SimpleNamespace(kept_rows=lambda: kept)
    sessions = SimpleNamespace(upstream=upstream, index=SessionIndex(dict), list=rows)
    opener: Any = SimpleNamespace(_sessions=sessions, find_session=lambda name: name)
    found: Any = RememberingOpener._newest(opener)
    assert found == newest
    assert len(names) == asked


async def test_a_list_of_a_backend_makes_no_session() -> None:
    async with in_memory_pando_gateway() as made:
        client = await made.lists(row(ONE, "Atlas"), row(OTHER, "Borealis"))
        assert made.router.sessions == []
        (reply,) = frames(client)
        assert {one["conversationId"] for one in reply["data"]["conversations"]} == {ONE, OTHER}


async def test_the_row_of_a_session_that_nobody_uses_has_the_beginning_of_a_long_title() -> None:
    async with in_memory_pando_gateway() as made:
        client = await made.lists(row(ONE, "x" * (TITLE_MAX + 1)))
        (reply,) = frames(client)
        assert [one["title"] for one in reply["data"]["conversations"]] == ["x" * TITLE_MAX]


async def test_an_event_of_a_listed_session_makes_it_with_what_the_list_told() -> None:
    async with in_memory_pando_gateway() as made:
        await made.lists(row(ONE, "Atlas"))
        await made.publishes("llm.start", session_id=ONE)
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        await made.answers_each("message.list", [])
        (session,) = made.router.sessions
        assert (session.state.id, session.state.title) == (ONE, "Atlas")


async def test_a_client_cannot_choose_the_id_of_a_session_that_the_backend_has() -> None:
    async with in_memory_pando_gateway() as made:
        await made.lists(row(ONE, "Atlas"))
        caller = made.join("pando")
        write = {"method": "CreateSession", "params": {"id": ONE}}
        await send(caller, {"jsonrpc": "2.0", "id": "1", "method": "db.write", "params": write})
        (reply,) = frames(caller)
        assert reply["error"]["message"] == f"dbproxy: CONFLICT (CreateSession): {ID_IN_USE}"
        assert made.asked() == []


async def test_a_long_list_is_read_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = count_in_steps(monkeypatch, SessionList, "keep_row")
    async with in_memory_pando_gateway() as made:
        await made.lists(*(row(f"0b0e9b0e-0000-4000-8000-{number:012d}") for number in range(3 * STEP // LISTED)))
        assert sum(counts) == 3 * STEP // LISTED
        assert max(counts) <= STEP // LISTED


async def test_the_newest_sessions_of_a_long_list_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pando lists the newest session first (docs/dialects/pando.md, section 6)."""
    monkeypatch.setattr(session_list, "ROWS_MAX", 1)
    async with in_memory_pando_gateway() as made:
        client = await made.lists(row(ONE), row(OTHER))
        (reply,) = frames(client)
        assert [one["conversationId"] for one in reply["data"]["conversations"]] == [ONE]


def lives(made: InMemoryPandoGateway) -> list[str]:
    return [session.state.id for session in made.router.sessions]


async def test_the_first_session_is_forgotten_if_there_are_too_many() -> None:
    async with in_memory_pando_gateway() as made:
        client = await made.lists()
        for name in (ONE, OTHER, THIRD):
            await made.publishes("session.update", **row(name))
        assert lives(made) == [OTHER, THIRD]
        client.got.clear()
        await send(client, ask("list_conversations", "r1"))
        (reply,) = frames(client)
        assert {one["conversationId"] for one in reply["data"]["conversations"]} == {ONE, OTHER, THIRD}


async def test_a_session_with_a_client_is_not_forgotten() -> None:
    async with in_memory_pando_gateway() as made:
        client = await made.lists()
        await made.publishes("session.update", **row(ONE))
        await send(client, ask("get_session", "r1", sessionId=ONE))
        for name in (OTHER, THIRD):
            await made.publishes("session.update", **row(name))
        assert lives(made) == [ONE, OTHER, THIRD]


async def test_subscribers_are_told_that_the_open_turn_of_a_forgotten_session_failed() -> None:
    async with in_memory_pando_gateway() as made:
        told = made.join("pando", publishes=True)
        await made.lists()
        await made.publishes("session.update", **row(ONE))
        await made.publishes("llm.start", session_id=ONE)
        await made.answers_each("message.list", [])
        for name in (OTHER, THIRD):
            await made.publishes("session.update", **row(name))
        of_one = [frame for frame in frames(told) if frame["payload"].get("session_id") == ONE]
        assert [frame["topic"] for frame in of_one] == ["llm.start", "message.append", "llm.end"]
        assert of_one[1]["payload"]["content"] == TOO_MANY.text


async def test_a_session_that_is_over_is_no_longer_counted() -> None:
    async with in_memory_pando_gateway() as made:
        await made.lists()
        for name in (ONE, OTHER):
            await made.publishes("session.update", **row(name))
        await made.publishes("session.deleted", **row(OTHER))
        await made.publishes("session.update", **row(THIRD))
        assert lives(made) == [ONE, THIRD]


async def test_events_that_the_end_releases_make_no_session() -> None:
    async with in_memory_pando_gateway() as made:
        await made.lists()
        await made.publishes("session.update", **row(ONE))
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        for name in (OTHER, THIRD):
            await made.publishes("session.update", **row(name))
        assert (lives(made), made.asked()) == ([OTHER, THIRD], ["message.list"]), "who began the run of the first one"
        await made.router.stop()
        assert lives(made) == [OTHER, THIRD]
