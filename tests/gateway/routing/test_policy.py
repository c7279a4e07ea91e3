"""The links that may see, open and answer a session, and how many sessions a principal may have."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway.config.model import Limits, RouteOptions
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.registry import dialect
from dragoman.gateway.routing.policy import Policy, Refused, SessionQuota
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import GetSession
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Burst
from tests.gateway.in_memory import LIMITS, in_memory_gateway
from tests.gateway.routing.counted_route import CountedRoute
from tests.gateway.smooth_client_messages import CREATE, ask
from tests.idle import settle
from tests.services import services


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


def answers(link: Any) -> list[dict[str, Any]]:
    """Return what a client was sent since the last call."""
    frames = [json.loads(frame) for frame in link.outbox._frames]
    link.outbox.clear()
    return frames


def test_the_refusal_of_a_session_beyond_the_limit_names_the_limit() -> None:
    route = CountedRoute(limits={"principal_sessions": 2})
    links = [route.connect(f"c{number}") for number in range(3)]
    for link in links[:2]:
        route.open_session(link)
    route.send_open(links[2])
    (refusal,) = answers(links[2])
    assert "`principal_sessions` is 2" in json.dumps(refusal)
    assert len(route.router.sessions) == 2
    assert route.ledger.counters["refused_session_principal_sessions"] == 1


def test_the_refusal_of_a_session_is_audited() -> None:
    route = CountedRoute(limits={"principal_sessions": 1})
    route.open_session(route.connect("first"))
    with capture_logs() as lines:
        route.send_open(route.connect("second"))
    refused = [(line["link"], line["command"]) for line in lines if line.get("action") == "refusal"]
    assert refused == [("second", "OpenSession")]


@pytest.mark.parametrize(("cause", "lines"), [("busy", 1), ("not_found", 0)])
def test_a_look_at_a_session_is_audited_if_a_limit_refuses_it_and_not_if_there_is_no_session(
    monkeypatch: pytest.MonkeyPatch, cause: Cause, lines: int
) -> None:
    def refuse(*_arguments: object) -> None:
        raise Refused(Failure(cause=cause, text="no"))

    route = CountedRoute()
    monkeypatch.setattr(route.router.backend, "get_session", refuse)
    with capture_logs() as logged:
        route.router.receive(route.connect("a"), [Burst(items=[GetSession(request="r", session="s")])])
    assert [line["action"] for line in logged].count("refusal") == lines


def test_a_session_that_is_over_makes_room_for_another() -> None:
    route = CountedRoute(limits={"principal_sessions": 1})
    for _ in range(3):
        link = route.connect("c")
        route.sessions.drop(route.open_session(link))
    assert not route.sessions.quota.has_owners


def test_a_session_that_changes_its_owner_counts_only_for_the_new_one() -> None:
    given = services(limits=Limits(principal_sessions=1))
    quota = SessionQuota(lambda: given)
    state = SessionState(id="s", owner="alice")
    quota.note_owner(state)
    with pytest.raises(Refused):
        quota.check("alice")
    state.owner = "bob"
    quota.note_owner(state)
    quota.check("alice")
    with pytest.raises(Refused):
        quota.check("bob")


def test_a_changed_limit_counts_from_the_next_session_on() -> None:
    given = services(limits=Limits(principal_sessions=1))
    quota = SessionQuota(lambda: given)
    quota.note_owner(SessionState(id="s", owner="alice"))
    given = services(limits=Limits(principal_sessions=2))
    quota.check("alice")


async def test_sessions_of_a_client_that_its_backend_has_not_opened_are_bounded() -> None:
    async with in_memory_gateway(upstream="smooth", limits=structs.replace(LIMITS, opening_sessions=2)) as made:
        client = made.join("a")
        for number in range(3):
            client.sends({**CREATE, "requestId": f"c{number}"})
        await settle()
        (refusal,) = client.news()
        assert refusal["requestId"] == "c2"
        assert "`opening_sessions` is 2" in json.dumps(refusal)
        assert len(made.router._all._unopened.sessions_of(client.link)) == 2
        made.join("b").sends(CREATE)
        await settle()
        assert made.clients["b"].news() == [], "another client may still open a session"
        client.judged = made.clients["b"].judged = False


async def test_out_of_memory_a_client_still_gets_the_existing_session_of_a_pod() -> None:
    async with in_memory_gateway() as made:
        made.services.memory.used = made.services.memory.limit
        await made.opens("a")
        assert made.services.memory.refusal()


@pytest.mark.parametrize("limits", [structs.replace(LIMITS, principal_sessions=1)])
async def test_a_pod_client_beyond_the_session_limit_gets_an_error_and_is_disconnected(limits: Any) -> None:
    async with in_memory_gateway(upstream="smooth", limits=limits) as made:
        made.join("a", dialect="pod", ingress=Ingress(endpoint="one", session="new"))
        await settle()
        refused = made.join("b", dialect="pod", ingress=Ingress(endpoint="other", session="new"))
        refused.judged = False
        await settle()
        assert "`principal_sessions` is 1" in json.dumps(refused.frames())
        assert not refused.link.alive


async def test_a_codewhale_client_is_refused_with_an_error_of_its_dialect() -> None:
    async with in_memory_gateway(upstream="smooth", limits=structs.replace(LIMITS, principal_sessions=1)) as made:
        first = made.join("a")
        await first.says(CREATE, ask("ping", "p"))
        other = made.join("b", dialect="codewhale")
        await other.says({"jsonrpc": "2.0", "id": 1, "method": "thread/start", "params": {}})
        (answer,) = other.frames()
        assert "`principal_sessions` is 1" in answer["error"]["message"]
