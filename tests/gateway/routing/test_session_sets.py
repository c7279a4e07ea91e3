"""The sets of sessions of a route: those behind a listener, and those that are published to subscribers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.ingress import Ingress
from dragoman.gateway.link import Link
from dragoman.gateway.routing.session_sets import ListenerSessions, Publications, UnopenedSessions
from dragoman.mappings.canonical.events import Heartbeat
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.routing.counted_route import CountedRoute, touched
from tests.gateway.smooth_client_messages import CREATE
from tests.gateway.smooth_server_messages import CREATED, acknowledged
from tests.idle import settle


async def test_a_client_that_leaves_takes_only_its_own_unopened_sessions_along() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        for name in ("a", "b"):
            made.join(name).sends(CREATE)
        await settle()
        unopened = made.router._all._unopened
        of_b = unopened.sessions_of(made.clients["b"].link)
        await made.clients["a"].transport.hangs_up()
        assert list(unopened) == of_b
        assert len(of_b) == 1


async def test_a_session_that_its_backend_names_like_that_of_another_user_is_not_shown() -> None:
    async with in_memory_gateway(upstream="smooth", share="owner") as made:
        for name in ("ann", "bob"):
            made.join(name, principal=name).sends(CREATE)
            await settle()
            (asked,) = made.pod.news()
            await made.pod.says(acknowledged(asked["requestId"], **CREATED))
        (answer,) = made.clients["bob"].news()
        assert (answer["type"], answer["error"]["message"]) == ("error", "session not found")
        (session,) = made.router.sessions
        assert [link.id for link in session.presence.links] == ["ann"]


async def test_a_chosen_name_is_in_use_until_its_session_is_opened_and_then_nothing_is_left_of_it() -> None:
    async with in_memory_gateway() as made:
        unopened, link = UnopenedSessions(), made.join("a").link
        unopened.add(made.session, link)
        unopened.choose(made.session, "pando", "mine")
        assert unopened.is_chosen("pando", "mine")
        unopened.remove(made.session)
        assert not unopened.is_chosen("pando", "mine")
        assert not any(vars(unopened).values())


async def test_a_chosen_name_stays_with_the_first_session_that_got_it() -> None:
    async with in_memory_gateway() as made:
        route, unopened, link = CountedRoute(), UnopenedSessions(), made.join("a").link
        first, second = (route.open_session(route.connect(name)) for name in "ab")
        for session in (first, second):
            unopened.add(session, link)
            unopened.choose(session, "pando", "mine")
        unopened.remove(second)
        assert unopened.is_chosen("pando", "mine")
        unopened.remove(first)
        assert not unopened.is_chosen("pando", "mine")


LASTING = Ingress(endpoint="smooth+ws://a")
FOLDER = Ingress(endpoint="pod+dir:/pods/atlas", session="atlas", about_pods=lambda *_asked: Heartbeat())


def test_a_listener_leads_to_the_other_session_once_its_own_was_merged_into_it() -> None:
    route, listener_sessions = CountedRoute(), ListenerSessions()
    first, other = (route.open_session(route.connect(name)) for name in "ab")
    listener_sessions.assign(LASTING, first)
    listener_sessions.move(first, other)
    assert listener_sessions.find_session(LASTING) is other
    assert not listener_sessions.is_reachable(first)


def test_a_listener_that_gets_another_session_keeps_its_former_one_no_longer() -> None:
    route, listener_sessions = CountedRoute(), ListenerSessions()
    former, other = (route.open_session(route.connect(name)) for name in "ab")
    listener_sessions.assign(LASTING, former)
    listener_sessions.assign(LASTING, other)
    listener_sessions.remove_session(former)
    assert listener_sessions.find_session(LASTING) is other
    assert not listener_sessions.is_reachable(former)


def test_a_session_is_reachable_until_its_last_listener_gets_another() -> None:
    route, listener_sessions = CountedRoute(), ListenerSessions()
    shared, other = (route.open_session(route.connect(name)) for name in "ab")
    for ingress in (LASTING, FOLDER):
        listener_sessions.assign(ingress, shared)
    listener_sessions.assign(LASTING, other)
    assert listener_sessions.is_reachable(shared)
    listener_sessions.assign(FOLDER, other)
    assert not listener_sessions.is_reachable(shared)


def test_only_a_lasting_listener_keeps_its_session() -> None:
    route, listener_sessions = CountedRoute(), ListenerSessions()
    lasting, passing = (route.open_session(route.connect(name)) for name in "ab")
    listener_sessions.assign(LASTING, lasting)
    listener_sessions.assign(FOLDER, passing)
    assert [listener_sessions.is_lasting(session) for session in (lasting, passing)] == [True, False]
    assert listener_sessions.is_reachable(passing)


def test_a_session_that_is_over_leaves_nothing_behind() -> None:
    route, listener_sessions = CountedRoute(), ListenerSessions()
    session = route.open_session(route.connect("a"))
    listener_sessions.keep(session)
    listener_sessions.assign(LASTING, session)
    listener_sessions.remove_session(session)
    assert not any(vars(listener_sessions).values())


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
