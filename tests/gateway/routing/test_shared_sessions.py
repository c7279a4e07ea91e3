"""The sessions of a backend that carries many: known by its lists, and not asked for in vain."""

from __future__ import annotations

import json

from gateway.routing.shared_sessions import HELD_MAX
from tests.gateway.routing.pando_stage import frames, pando_stage, row
from tests.gateway.smooth_words import ask
from tests.gateway.stage import settle

ONE, OTHER = "0b0e9b0e-0000-4000-8000-000000000001", "0b0e9b0e-0000-4000-8000-000000000002"


async def test_a_list_waits_for_the_backends_own_and_shows_all_of_it() -> None:
    async with pando_stage() as made:
        client = made.join("smooth")
        client.say(json.dumps(ask("list_conversations", "r1")).encode())
        await settle()
        assert frames(client) == []
        await made.begins(row(ONE, "First"), row(OTHER, "Second"))
        (answer,) = frames(client)
        assert {c["title"] for c in answer["data"]["conversations"]} == {"First", "Second"}


async def test_a_backend_that_does_not_tell_is_not_waited_for_for_long() -> None:
    async with pando_stage() as made:
        client = made.join("smooth")
        client.say(json.dumps(ask("list_conversations", "r1")).encode())
        await settle()
        made.time.passes(0.4)
        await settle()
        (answer,) = frames(client)
        assert answer["data"]["conversations"] == []


async def test_whoever_names_no_session_is_shown_the_newest() -> None:
    async with pando_stage() as made:
        made.join("pod")
        await made.begins(row(ONE, updated="2026-05-09T21:28:20Z"), row(OTHER, updated="2026-05-10T21:28:20Z"))
        assert made.asked() == ["message.list"]
        assert (await made.answers("message.list", []))["session_id"] == OTHER


async def test_a_session_that_was_never_listed_is_made_when_it_is_spoken_of() -> None:
    async with pando_stage() as made:
        made.join("smooth").say(json.dumps(ask("list_conversations", "r1")).encode())
        await made.begins()
        assert made.router.sessions == []
        await made.publishes("session.update", **row(ONE))
        assert [session.state.id for session in made.router.sessions] == [ONE]


async def test_more_than_may_wait_for_the_first_list_are_sent_away() -> None:
    async with pando_stage() as made:
        client = made.join("smooth")
        client.say(*[json.dumps(ask("list_conversations", f"r{n}")).encode() for n in range(HELD_MAX + 1)])
        await settle()
        assert client.closed is not None
