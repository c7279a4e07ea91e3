"""The watchers of the sessions of a route."""

from __future__ import annotations

from dragoman.gateway.routing.watchers import Watchers
from dragoman.gateway.session.session import Session
from tests.gateway.in_memory import in_memory_gateway


async def test_each_watcher_is_told_of_a_change_in_order() -> None:
    told: list[tuple[str, Session]] = []
    watchers = Watchers()
    watchers.add(lambda session: told.append(("first", session)))
    watchers.add(lambda session: told.append(("second", session)))
    async with in_memory_gateway() as made:
        watchers.tell(made.session)
    assert told == [("first", made.session), ("second", made.session)]
