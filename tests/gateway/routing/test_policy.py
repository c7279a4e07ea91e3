"""The links that may see, open and answer a session, for each option of a route."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.registry import dialect
from dragoman.gateway.routing.policy import Policy
from dragoman.mappings.canonical import SessionState


def state(owner: str) -> SessionState:
    return SessionState(id="s", owner=owner, backend_ids={})


@pytest.mark.parametrize(
    ("options", "upstream", "sees", "opens"),
    [
        ({}, "pod", True, False),
        ({"share": "owner"}, "pod", False, False),
        ({"share": "owner", "open": "attach"}, "pod", True, True),
        ({"share": "owner", "open": "attach"}, "smooth", False, False),  # its clients open conversations of their own
        ({"open": "attach"}, "pod", True, True),
    ],
)
def test_a_link_that_is_not_the_owner_may_do_only_what_the_route_allows(
    options: dict[str, Any], upstream: str, sees: bool, opens: bool
) -> None:
    policy = Policy(RouteOptions(**options), dialect(upstream))
    assert (policy.sees("eve", state("ann")), policy.opens("eve", state("ann"))) == (sees, opens)
    assert policy.sees_all is sees, "nobody has more reason to see it"


@pytest.mark.parametrize(("share", "is_published"), [("all", True), ("owner", False)])
def test_an_owned_session_is_published_only_if_it_is_shared(share: Literal["all", "owner"], is_published: bool) -> None:
    policy = Policy(RouteOptions(share=share), dialect("smooth"))
    assert policy.publishes(state("ann")) is is_published
    assert policy.publishes(state(""))


@pytest.mark.parametrize(("upstream", "is_one"), [("pod", True), ("smooth", False)])
def test_a_session_that_no_backend_has_opened_is_published_only_if_its_backend_is_one_session(
    upstream: str, is_one: bool
) -> None:
    assert Policy(RouteOptions(), dialect(upstream)).publishes(SessionState(id="s")) is is_one


@pytest.mark.parametrize("owner", ["ann", ""])
def test_an_owner_may_do_everything_and_anybody_may_with_an_unowned_session(owner: str) -> None:
    policy = Policy(RouteOptions(share="owner"), dialect("pod"))
    assert policy.sees("ann", state(owner))
    assert policy.opens("ann", state(owner))
