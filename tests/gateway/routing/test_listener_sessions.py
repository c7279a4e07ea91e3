"""The sessions behind the listeners of a route."""

from __future__ import annotations

from dragoman.gateway.ingress import Ingress
from dragoman.gateway.routing.listener_sessions import ListenerSessions
from dragoman.mappings.canonical.events import Heartbeat
from tests.gateway.routing.counted_route import CountedRoute

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
