"""The options of an endpoint, and the settings of a child."""

from __future__ import annotations

import resource

import pytest

from dragoman.gateway.config.model import Limits, Resource, RouteOptions
from dragoman.gateway.endpoint import parse
from dragoman.gateway.transports.spec import TransportSpec, transport_limits
from dragoman.gateway.transports.stdio import child_settings
from tests.gateway.listener_callbacks import callbacks

# -- spec --------------------------------------------------------------------------------------------


ENDPOINT = parse("pod+dir:/pods")


async def test_an_endpoint_that_only_the_app_serves_has_no_listener_of_its_own() -> None:
    spec = TransportSpec()
    assert spec.listen is not None
    with pytest.raises(NotImplementedError, match="the app itself listens"):
        await spec.listen(ENDPOINT, Limits(), callbacks())


def test_by_default_a_transport_checks_nothing_and_occupies_no_address() -> None:
    spec = TransportSpec()
    spec.check(ENDPOINT)
    spec.check_place(ENDPOINT)
    assert (spec.places(ENDPOINT), spec.dial) == ((), None)


def test_a_transport_has_the_limits_of_the_gateway() -> None:
    limits = transport_limits(Limits(max_message=5, message_parts=7, heartbeat=3.0))
    assert (limits.max_message, limits.max_parts, limits.heartbeat) == (5, 7, 3.0)


# -- child settings ----------------------------------------------------------------------------------


ENVIRONMENT = {
    "PATH": "/bin",
    "HOME": "/home/user",
    "https_proxy": "http://proxy:3128",
    "SSL_CERT_FILE": "/ca.pem",
    "API_KEY": "secret",
    "OTHER": "x",
    "DRAGOMAN_CONFIG": "config.toml",
    "PWD": "/",
}


def test_a_child_of_a_bridge_gets_everything_but_the_variables_of_the_gateway() -> None:
    settings = child_settings(RouteOptions(), ENVIRONMENT)
    assert settings.env == {name: value for name, value in ENVIRONMENT.items() if name != "DRAGOMAN_CONFIG"}
    assert settings.withheld == ()


def test_a_child_of_a_configuration_gets_only_what_it_needs_to_run() -> None:
    settings = child_settings(RouteOptions(), ENVIRONMENT, inherit=False)
    assert settings.env.keys() == {"PATH", "HOME", "https_proxy", "SSL_CERT_FILE"}
    assert settings.withheld == ("API_KEY", "OTHER")


def test_a_route_names_further_variables_or_sets_them() -> None:
    route = RouteOptions(env=("API_KEY", "MODE=a=b", "MISSING"))
    settings = child_settings(route, ENVIRONMENT, inherit=False)
    assert settings.env["API_KEY"] == "secret"
    assert settings.env["MODE"] == "a=b"
    assert "MISSING" not in settings.env
    assert settings.withheld == ("OTHER",)


def test_the_limits_of_a_route_are_those_of_setrlimit() -> None:
    limits: dict[Resource, int] = {"nofile": 64, "as": 1 << 30}
    settings = child_settings(RouteOptions(rlimits=limits, reap="all"), ENVIRONMENT)
    assert settings.rlimits == {resource.RLIMIT_NOFILE: (64, 64), resource.RLIMIT_AS: (1 << 30, 1 << 30)}
    assert settings.reap_all
