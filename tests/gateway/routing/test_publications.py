"""Sessions are published to the clients that subscribe to all of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.link import Link
from dragoman.gateway.routing.publications import Publications
from dragoman.mappings.canonical.events import Heartbeat
from tests.gateway.routing.counted_route import CountedRoute, touched


def test_a_session_is_published_from_the_time_when_its_backend_has_opened_it() -> None:
    route = CountedRoute()
    session, sessions = route.open_session(route.connect("a")), route.sessions
    publications = Publications(sessions.index, sessions.policy)
    backend_ids, session.state.backend_ids = session.state.backend_ids, None
    publications.note_session(session)
    assert publications.count == 0
    session.state.backend_ids = backend_ids
    publications.note_session(session)
    assert publications.count == 1


def test_a_new_subscriber_costs_nothing_for_sessions_that_are_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    route = CountedRoute(share="owner")
    route.open_and_leave(100)
    link, publications = route.connect("a"), route.sessions.publications
    for number, session in enumerate(route.router.sessions):
        session.state.owner = "" if number < 3 else "ann"
        publications.note_session(session)
    with touched(monkeypatch) as seen:
        publications.add_link(link)
    assert (publications.count, len(seen)) == (3, 3)


def test_a_reload_changes_which_sessions_are_published() -> None:
    route = CountedRoute(share="owner")
    session, subscriber = route.open_session(route.connect("a")), route.connect("b")
    session.state.owner = "ann"
    sessions = route.sessions
    sessions.announce(session)
    sessions.publications.add_link(subscriber)
    found = [(sessions.publications.count, subscriber.id in session.delivery.attachments)]
    for share in ("all", "owner"):
        route.router.change_route(structs.replace(route.router.route, share=share), route.services)
        found.append((sessions.publications.count, subscriber.id in session.delivery.attachments))
    assert found == [(0, False), (1, True), (0, False)]


def test_a_disconnected_subscriber_gets_no_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    route, told = CountedRoute(), list[Any]()
    link, publications = route.connect("a"), route.sessions.publications
    monkeypatch.setattr(Link, "send", lambda _link, items: told.append(items))
    publications.add_link(link)
    publications.send(Heartbeat())
    publications.remove_link(link)
    publications.send(Heartbeat())
    assert told == [[Heartbeat()]]
