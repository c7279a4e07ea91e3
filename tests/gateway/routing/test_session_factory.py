"""The sessions that a route makes have its options."""

from __future__ import annotations

import pytest

from dragoman.gateway import registry
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.routing.ids import agent_id
from dragoman.gateway.routing.session_factory import SessionFactory
from dragoman.gateway.session.session import NoBackend, SessionObserver
from dragoman.mappings.canonical.commands import OpenSession
from tests.services import services


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
