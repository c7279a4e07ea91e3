"""The subscribers of a route and the sessions that are published to them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.gateway.link import Link
from dragoman.gateway.routing.publications import Publications
from dragoman.mappings.canonical.events import Heartbeat
from tests.gateway.routing.counted_route import CountedRoute


def test_a_session_is_published_from_the_time_when_its_backend_has_opened_it() -> None:
    route = CountedRoute()
    session, sessions = route.open_session(route.connect("a")), route.router._all
    publications = Publications(sessions.index, sessions.policy, holds_one=False)
    backend_ids, session.state.backend_ids = session.state.backend_ids, None
    publications.note_session(session)
    assert publications.count == 0
    session.state.backend_ids = backend_ids
    publications.note_session(session)
    assert publications.count == 1


def test_a_subscriber_that_is_gone_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    route, told = CountedRoute(), list[Any]()
    link, publications = route.connect("a"), route.router._all.publications
    monkeypatch.setattr(Link, "send", lambda _link, items: told.append(items))
    publications.add_link(link)
    publications.send(Heartbeat())
    publications.remove_link(link)
    publications.send(Heartbeat())
    assert told == [[Heartbeat()]]
