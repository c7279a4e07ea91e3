"""The accounts of a session by its id move and end with the session."""

from __future__ import annotations

from dragoman.mappings.dialect import Loss
from tests.gateway.routing.counted_route import CountedRoute


def test_the_losses_of_a_provisional_id_count_for_the_session_that_was_opened() -> None:
    route = CountedRoute()
    link = route.connect("a")
    session = route.open_session(link)
    route.ledger.record([Loss(kind="Gap", why="a test")], session=session.state.id)
    route.router._all._accounts.rename(session, "own")
    assert [entry.session for entry in route.ledger.entries()] == ["own"]
    assert (session.state.id, list(link.sessions)) == ("own", ["own"])


def test_a_closed_memory_account_counts_for_no_owner_and_no_session() -> None:
    route = CountedRoute()
    session = route.open_session(route.connect("a"))
    route.ledger.record([Loss(kind="Gap", why="a test")], session=session.state.id)
    sessions = route.router._all
    before = sessions.quota.has_owners
    sessions._accounts.forget(session)
    assert (before, sessions.quota.has_owners) == (True, False)
    assert [entry.session for entry in route.ledger.entries()] == [""]
