"""The sessions behind the listeners of a route."""

from __future__ import annotations

from dragoman.gateway.ingress import Ingress
from dragoman.gateway.routing.entrances import Entrances
from dragoman.mappings.canonical.events import Heartbeat
from tests.gateway.routing.counted_route import CountedRoute

LASTING = Ingress(endpoint="smooth+ws://a")
FOLDER = Ingress(endpoint="pod+dir:/pods/atlas", session="atlas", about_pods=lambda *_asked: Heartbeat())


def test_a_listener_leads_to_the_other_session_once_its_own_was_merged_into_it() -> None:
    route, entrances = CountedRoute(), Entrances()
    first, other = (route.open_session(route.connect(name)) for name in "ab")
    entrances.lead(LASTING, first)
    entrances.move(first, other)
    assert entrances.find_session(LASTING) is other
    assert not entrances.needs(first)


def test_only_a_lasting_listener_keeps_its_session() -> None:
    route, entrances = CountedRoute(), Entrances()
    lasting, passing = (route.open_session(route.connect(name)) for name in "ab")
    entrances.lead(LASTING, lasting)
    entrances.lead(FOLDER, passing)
    assert [entrances.keeps(session) for session in (lasting, passing)] == [True, False]
    assert entrances.needs(passing)


def test_a_session_that_is_over_leaves_nothing_behind() -> None:
    route, entrances = CountedRoute(), Entrances()
    session = route.open_session(route.connect("a"))
    entrances.keep(session)
    entrances.lead(LASTING, session)
    entrances.remove_session(session)
    assert not any(vars(entrances).values())
