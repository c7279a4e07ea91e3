"""The environment and the resource limits of a route's child processes (docs/design.md, section 6)."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.overload.descriptors import INHERITED_LIMIT
from dragoman.gateway.transports import Children, ChildSettings
from dragoman.gateway.transports.spec import Spawner

OURS = "DRAGOMAN_"  # variables that configure the gateway itself
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
PASSED = frozenset(
    ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", *PROXIES, *map(str.upper, PROXIES), *CERTIFICATES)
)
"""Variables that every child of `dragoman serve` gets: search paths, the language, and the settings of the network."""

OF_SHELLS = frozenset({"_", "OLDPWD", "PWD", "SHLVL"})  # each shell sets its own; no program lacks them


def child_settings(
    route: RouteOptions, environment: Mapping[str, str] = os.environ, *, inherit: bool = True
) -> ChildSettings:
    """Return how the children of a route are started.

    With `inherit` they get `environment` without the variables of the gateway, else only PASSED of it. In both cases
    they get what the route's `env` names: `NAME` as it is in `environment`, or `NAME=VALUE`.
    """
    passed = {name: value for name, value in environment.items() if not name.startswith(OURS)}
    if not inherit:
        passed = {name: value for name, value in passed.items() if name in PASSED or name in route.env}
    passed |= dict(text.split("=", 1) for text in route.env if "=" in text)
    withheld = {name for name in environment if name not in passed and not name.startswith(OURS)} - OF_SHELLS
    return ChildSettings(
        env=passed,
        withheld=tuple(sorted(withheld)),
        rlimits=_rlimits(route),
        reap_all=route.reap == "all",
    )


def route_spawner(children: Children, route: RouteOptions, *, inherit: bool) -> Spawner:
    """Return the spawner of the children of a route."""
    return Spawner(children, child_settings(route, inherit=inherit))


def _rlimits(route: RouteOptions) -> dict[int, tuple[int, int]]:
    if not hasattr(resource, "prlimit"):
        return {}  # `check` has refused the limits of a route
    limits = {resource.RLIMIT_NOFILE: (INHERITED_LIMIT, resource.RLIM_INFINITY)}  # the gateway has raised its own
    for name, value in route.rlimits.items():
        limits[getattr(resource, f"RLIMIT_{name.upper()}")] = (value, value)
    return limits
