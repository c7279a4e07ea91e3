"""Small parts of the routing: ids of sessions, how sessions are made, and which are busy, forgotten or deleted."""

from __future__ import annotations

import asyncio
from uuid import NAMESPACE_URL, uuid4, uuid5

import pytest

from dragoman.gateway import registry
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.routing.ids import agent_id, canonical_id, session_id
from dragoman.gateway.routing.past_sessions import REMEMBERED_MAX, KnownBackends, KnownSessions, PastSessions
from dragoman.gateway.routing.session_sets import BusySessions
from dragoman.gateway.routing.sessions import SessionFactory
from dragoman.gateway.session.session import NoBackend, SessionObserver
from dragoman.mappings.canonical.commands import OpenSession
from tests.gateway.in_memory import in_memory_gateway
from tests.idle import settle
from tests.services import services

# -- ids ---------------------------------------------------------------------------------------------


KNOWN = "0198c3a1-7b52-7c40-9d1e-5f0a6b7c8d9e"


@pytest.mark.parametrize("name", [KNOWN, f"thread-{KNOWN}", KNOWN.upper()])
def test_a_uuid_is_its_own_canonical_id(name: str) -> None:
    assert canonical_id("r", name) == KNOWN


def test_any_other_name_has_an_id_of_its_own_in_each_route() -> None:
    """The id is the same after a restart (docs/translation.md, rule 3.1)."""
    assert canonical_id("r", "a") == session_id("r", "a") == str(uuid5(NAMESPACE_URL, "dragoman:r:a"))
    assert len({canonical_id("r", "a"), canonical_id("q", "a"), canonical_id("r", "b"), agent_id("r")}) == 4


# -- session factory ---------------------------------------------------------------------------------


def factory(upstream: str = "pod+unix:/pod", listen: str = "smooth+ws://127.0.0.1:1/ws") -> SessionFactory:
    route = Route(name="test", listen=(parse(listen),), upstream=parse(upstream))
    return SessionFactory(route, services(), registry.upstream(route.upstream), SessionObserver())


def test_the_upstream_completes_the_command_of_a_client() -> None:
    made = factory("codewhale+unix:/codewhale?cwd=/src&model=whale-1")
    command = made.complete(OpenSession(model="other"))
    assert (command.model, command.cwd, command.agent) == ("other", "/src", agent_id("test"))


@pytest.mark.parametrize(
    ("listen", "name"),
    [("pod+name:atlas", "atlas"), ("pod+unix:/pods/iris/sock", "iris"), ("smooth+ws://127.0.0.1:1/ws", "")],
)
def test_pod_clients_know_a_session_by_the_folder_of_their_socket(listen: str, name: str) -> None:
    session = factory(listen=listen).make("s", lambda _session: NoBackend())
    assert session.state.backend.name == name


# -- busy --------------------------------------------------------------------------------------------


async def test_shutdown_waits_for_no_session_if_none_is_busy() -> None:
    await BusySessions().finish()


async def test_a_session_that_is_busy_again_is_not_waited_for_a_second_time() -> None:
    async with in_memory_gateway() as made, asyncio.TaskGroup() as group:
        busy = BusySessions()
        busy.note(made.session, True)
        waiting = group.create_task(busy.finish(), name="finish")
        await settle()
        busy.note(made.session, False)
        busy.note(made.session, True)
        await settle()
        assert waiting.done()


async def test_each_finish_waits_for_the_sessions_that_are_busy_when_it_begins() -> None:
    async with in_memory_gateway() as made, asyncio.TaskGroup() as group:
        busy = BusySessions()
        for number in range(2):  # a route that retires waits, and then a gateway that stops
            busy.note(made.session, True)
            waiting = group.create_task(busy.finish(), name=f"finish {number}")
            await settle()
            assert not waiting.done()
            busy.note(made.session, False)
            await settle()
            assert waiting.done()


# -- past sessions -----------------------------------------------------------------------------------


def test_a_deleted_session_is_hidden_under_each_form_of_its_name() -> None:
    past, name = PastSessions("test", KnownSessions()), str(uuid4())
    past.hide([name])
    assert past.is_hidden(name)
    assert past.is_hidden(f"thread-{name}")
    assert not past.is_hidden(str(uuid4()))


def test_a_forgotten_session_has_another_owner_for_everybody_but_its_owner() -> None:
    past, name = PastSessions("test", KnownSessions()), str(uuid4())
    past.note_owner([name], "ann")
    assert past.owner_of(name) == "ann"
    assert past.has_other_owner(f"thread-{name}", "eve")
    assert not past.has_other_owner(name, "ann")


def test_the_oldest_names_are_forgotten_first() -> None:
    past = PastSessions("test", KnownSessions())
    past.hide(f"s{number}" for number in range(REMEMBERED_MAX + 1))
    assert not past.is_hidden("s0")
    assert past.is_hidden("s1")


def test_all_routes_to_a_backend_know_the_owners_of_its_sessions_until_they_have_none() -> None:
    known, name = KnownSessions(), str(uuid4())
    one, other = PastSessions("one", known), PastSessions("other", known)
    one.note_owner([name], "ann")
    assert other.has_other_owner(name, "eve")
    other.note_owner([name], "")
    assert not one.has_other_owner(name, "eve")


def test_routes_with_a_common_upstream_share_what_is_known_as_long_as_one_of_them_uses_it() -> None:
    backends = KnownBackends()
    both, one, other = ([parse(f"pod+unix:/{name}") for name in names] for names in ("ab", "a", "c"))
    known = backends.sessions_of(both)
    assert backends.sessions_of(one) is known
    assert backends.sessions_of(other) is not known
    known.owners["s"] = "ann"
    del known
    assert backends.sessions_of(one).owners == {}
