"""`stdio:` endpoints: a command line starts a child process; an empty address is our own stdin and stdout.

A child gets the environment of its route and no shell. If it exits, the next use starts it again, a limited number of
times within a time window. A restart is a Gap, which the child's dialect reports (docs/design.md, section 6).
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shlex
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from dragoman.adapters import stdio
from dragoman.adapters.base import Listener, PeerFacts, Transport
from dragoman.adapters.stdio import ChildTransport
from dragoman.gateway.config.model import Limits, RouteOptions
from dragoman.gateway.endpoint import Endpoint, Place
from dragoman.gateway.overload.descriptors import INHERITED_LIMIT
from dragoman.gateway.transports import Children, ChildSettings
from dragoman.gateway.transports.spec import (
    Connect,
    ListenerCallbacks,
    Spawner,
    TransportSpec,
    transport_limits,
)
from dragoman.mappings.errors import ConfigError

OF_GATEWAY = "DRAGOMAN_"  # variables that configure the gateway itself
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
PASSED = frozenset(
    ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", *PROXIES, *map(str.upper, PROXIES), *CERTIFICATES)
)
"""Variables that every child of `dragoman serve` gets: search paths, the language, and the settings of the network."""

OF_SHELLS = frozenset({"_", "OLDPWD", "PWD", "SHLVL"})  # each shell sets its own; no program lacks them
EXAMPLE = "for example codewhale+stdio:codewhale app-server --stdio"
OURS = ("stdio",)
WHO_STARTED_US = PeerFacts(uid=os.getuid(), gid=os.getgid())


def child_settings(
    route: RouteOptions, environment: Mapping[str, str] = os.environ, *, inherit: bool = True
) -> ChildSettings:
    """Return how the children of a route are started.

    With `inherit` they get `environment` without the variables of the gateway, else only PASSED of it. In both cases
    they get what the route's `env` names: `NAME` as it is in `environment`, or `NAME=VALUE`.
    """
    passed = {name: value for name, value in environment.items() if not name.startswith(OF_GATEWAY)}
    if not inherit:
        passed = {name: value for name, value in passed.items() if name in PASSED or name in route.env}
    passed |= dict(text.split("=", 1) for text in route.env if "=" in text)
    withheld = {name for name in environment if name not in passed and not name.startswith(OF_GATEWAY)} - OF_SHELLS
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


def child_starter(
    argv: list[str], cwd: str | None, limits: Limits, spawner: Spawner, clock: Callable[[], float]
) -> Connect:
    """Return a function that starts a session's child, at most `restarts` times again within `restart_window` seconds.

    A child that the gateway itself has ended in order does not count. The function raises OSError with the reason;
    EBUSY or EAGAIN if a later try may succeed.
    """
    started: deque[float] = deque()  # times of the starts within the window
    last: ChildTransport | None = None

    async def start() -> Transport:
        nonlocal last
        now, window = clock(), limits.restart_window
        while started and now - started[0] >= window:
            started.popleft()
        if started and last is not None and last.is_released:
            started.pop()
        last = None
        if len(started) > limits.restarts:
            wait = started[0] + window - now
            text = f"the child ended {len(started)} times within {window:g} s (`restarts`)"
            raise OSError(errno.EAGAIN, f"{text}; it is restarted in {wait:.0f} s")
        last = await spawner.spawn(argv, transport_limits(limits), cwd)
        started.append(now)
        return last

    return start


async def _listen(_endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    return await stdio.listen(transport_limits(limits), callbacks.accept_as(WHO_STARTED_US))


def _dial(endpoint: Endpoint, limits: Limits, spawner: Spawner) -> Connect:
    clock = asyncio.get_running_loop().time
    return child_starter(_argv(endpoint), endpoint.option("cwd") or None, limits, spawner, clock)


def _argv(endpoint: Endpoint) -> list[str]:
    try:
        return shlex.split(endpoint.address)
    except ValueError as error:
        raise ConfigError(f"{endpoint.masked}: {error}; quote arguments as for a shell") from error


def _check_command(endpoint: Endpoint) -> None:
    if not _argv(endpoint):
        raise ConfigError(f"{endpoint.masked}: write the command that starts the backend, {EXAMPLE}")
    cwd = endpoint.option("cwd")
    if cwd and not (Path(cwd).is_absolute() and Path(cwd).is_dir()):
        raise ConfigError(f"{endpoint.masked}: cwd={cwd} is not the absolute path of a folder")


def _check_ours(endpoint: Endpoint) -> None:
    if endpoint.address:
        name = f"{endpoint.dialect}+{endpoint.transport}:"
        raise ConfigError(
            f"{endpoint.masked}: a stdio listener uses dragoman's own stdin and stdout; write only {name}"
        )


def _places(endpoint: Endpoint) -> tuple[Place, ...]:
    return () if endpoint.address else (OURS,)


STDIO = TransportSpec(
    listen=_listen,
    dial=_dial,
    dial_options=frozenset({"cwd", "model"}),
    check_upstream=_check_command,
    check_place=_check_ours,
    places=_places,
)
