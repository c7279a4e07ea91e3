"""The environment and limits of a route's children (docs/design.md, section 6)."""

from __future__ import annotations

import resource

from dragoman.gateway.config.model import Resource, RouteOptions
from dragoman.gateway.transports.child_settings import child_settings

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
