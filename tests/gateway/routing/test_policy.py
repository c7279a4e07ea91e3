"""Who sees, opens and answers a session, for each option of a route."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.routing.policy import Policy
from dragoman.mappings.canonical import SessionState


def state(owner: str) -> SessionState:
    return SessionState(id="s", owner=owner)


@pytest.mark.parametrize(
    ("options", "holds_one", "sees", "opens"),
    [
        ({}, True, True, False),
        ({"share": "owner"}, True, False, False),
        ({"share": "owner", "open": "attach"}, True, True, True),
        ({"share": "owner", "open": "attach"}, False, False, False),  # its clients open conversations of their own
        ({"open": "attach"}, True, True, True),
    ],
)
def test_what_somebody_else_may_do(options: dict[str, Any], holds_one: bool, sees: bool, opens: bool) -> None:
    policy = Policy(RouteOptions(**options), holds_one=holds_one)
    assert (policy.sees("eve", state("ann")), policy.opens("eve", state("ann"))) == (sees, opens)
    assert policy.answers("eve", state("ann")) is sees


@pytest.mark.parametrize(
    ("options", "owned"),
    [({}, True), ({"share": "owner"}, False), ({"share": "owner", "publish": "all"}, True)],
)
def test_what_has_an_owner_is_published_where_it_is_everybodys_or_the_route_says_so(
    options: dict[str, Any], owned: bool
) -> None:
    policy = Policy(RouteOptions(**options), holds_one=False)
    assert policy.publishes(state("ann")) is owned
    assert policy.publishes(state(""))


@pytest.mark.parametrize("owner", ["ann", ""])
def test_an_owner_may_do_everything_and_so_may_anybody_with_what_is_nobodys(owner: str) -> None:
    policy = Policy(RouteOptions(share="owner"), holds_one=True)
    assert policy.sees("ann", state(owner))
    assert policy.opens("ann", state(owner))
    assert policy.answers("ann", state(owner))


def test_a_session_belongs_to_the_first_who_claims_it() -> None:
    policy, mine = Policy(RouteOptions(), holds_one=True), state("")
    policy.claim("ann", mine)
    policy.claim("eve", mine)
    assert mine.owner == "ann"
