"""The services of a route are those of the gateway, with the limits of the route."""

from __future__ import annotations

from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import parse
from tests.services import services

ROUTE = Route(name="a", listen=(), upstream=parse("pod+unix:/x"), limits={"session_ttl": 600.0})


def test_a_route_changes_its_own_limits_alone() -> None:
    common = services()
    own = common.for_route(ROUTE)
    assert own.limits.session_ttl == 600.0
    assert own.limits.log_max == common.limits.log_max
    assert own.ledger is common.ledger
