"""The one place that knows which dialects there are and which transport each goes with.

Third parties add dialects through the entry-point group `dragoman.dialects`: each entry is a Dialect record. Theirs can
be translated; which transports they go with cannot be said outside of this file yet.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import urlencode

from adapters import unix, websocket
from adapters.base import Accept, Listener, Transport
from adapters.base import Limits as AdapterLimits
from gateway.config import Limits
from gateway.endpoint import Endpoint, split_url
from gateway.pod_folder import PodFolder
from gateway.pod_runtime import check_name, runtime_directory
from gateway.pods import Pods
from mappings.dialect import Dialect
from mappings.errors import ConfigError
from mappings.pod import DIALECT as POD
from mappings.smooth import DIALECT as SMOOTH

__all__ = [
    "OWNER_ONLY",
    "check_listen",
    "check_place",
    "check_session",
    "check_upstream",
    "connector",
    "dialect",
    "dialects",
    "listen",
    "place",
    "pods",
]

LISTEN: dict[str, tuple[str, ...]] = {"smooth": ("ws",), "pod": ("unix", "dir", "name")}
"""Dialect -> transports that we listen on."""

DIAL: dict[str, tuple[str, ...]] = {"smooth": ("ws", "wss"), "pod": ("unix", "dir", "name")}
"""Dialect -> transports that we dial."""

LISTEN_OPTIONS = {"ws": frozenset({"origin"}), "unix": frozenset({"session"}), "name": frozenset({"session"})}
"""Transport -> options of an endpoint that we listen on."""

DIAL_OPTIONS = {"ws": frozenset({"agent", "user", "token"}), "wss": frozenset({"agent", "user", "token"})}
"""Transport -> options of an endpoint that we dial: what a client cannot say itself (design.md, section 5)."""


OWNER_ONLY = frozenset({"unix", "dir", "name"})
"""Transports that only the user who runs the gateway can reach: their sockets have mode 0600."""


@cache
def dialects() -> dict[str, Dialect]:
    """All dialects by name, ours first."""
    known = {SMOOTH.name: SMOOTH, POD.name: POD}
    for entry in entry_points(group="dragoman.dialects"):
        known.setdefault(entry.name, entry.load())
    return known


def dialect(name: str) -> Dialect:
    """The dialect of that name; ConfigError lists those there are."""
    try:
        return dialects()[name]
    except KeyError:
        raise ConfigError(f"unknown dialect {name!r}: there are {', '.join(dialects())}") from None


def check_listen(endpoint: Endpoint) -> None:
    """Refuse an endpoint that we cannot listen on, with a ConfigError that says what to write."""
    _check(endpoint, LISTEN, LISTEN_OPTIONS, "listen on")


def check_place(endpoint: Endpoint) -> None:
    """Refuse a checked endpoint where nothing can listen on this machine, as far as one can tell without trying."""
    if endpoint.transport == "unix":
        unix.check_bindable(endpoint.address)


def place(endpoint: Endpoint) -> tuple[str, str]:
    """What a checked endpoint of sockets and folders takes on this machine, as two names of one thing are equal."""
    if endpoint.transport == "name":
        return "unix", str(PodFolder(runtime_directory(), endpoint.address).socket.resolve())
    return endpoint.transport, str(Path(endpoint.address).resolve())


def check_upstream(endpoint: Endpoint) -> None:
    """Refuse an endpoint that we cannot dial, with a ConfigError that says what to write."""
    _check(endpoint, DIAL, DIAL_OPTIONS, "connect to")
    if endpoint.transport == "unix":
        unix.check_path(endpoint.address)


def check_session(endpoint: Endpoint, upstream: Endpoint) -> None:
    """Refuse a listener that names a session of a backend which holds one, with a ConfigError."""
    if endpoint.option("session") and dialect(upstream.dialect).one_session and upstream.transport != "dir":
        raise ConfigError(f"{endpoint.masked}: leave out `session`: {upstream.masked} is one session")


def _check(
    endpoint: Endpoint, table: dict[str, tuple[str, ...]], options: dict[str, frozenset[str]], verb: str
) -> None:
    known = dialect(endpoint.dialect)
    if endpoint.generation and endpoint.generation not in known.generations:
        raise ConfigError(f"{endpoint.masked}: {known.name} has the generations {', '.join(known.generations)}")
    if endpoint.transport not in table.get(endpoint.dialect, ()):
        forms = ", ".join(f"{name}+{transport}:..." for name, transports in table.items() for transport in transports)
        raise ConfigError(f"{endpoint.masked}: dragoman cannot {verb} this; it can {verb} {forms}")
    if endpoint.transport in ("ws", "wss"):
        split_url(endpoint)
    if endpoint.transport == "name":
        check_name(endpoint.address)
    known_options = options.get(endpoint.transport, frozenset())
    for key, _value in endpoint.options:
        if key not in known_options:
            takes = ", ".join(sorted(known_options)) or "none"
            raise ConfigError(f"{endpoint.masked}: unknown option {key!r}; options of {endpoint.transport}: {takes}")


async def listen(endpoint: Endpoint, limits: Limits, accept: Accept) -> Listener:
    """Listen on a checked endpoint; OSError says what is in the way."""
    if endpoint.transport == "ws":
        host, port, path = split_url(endpoint)
        try:
            return await websocket.listen(host, port, path, _limits(limits), accept, endpoint.all("origin"))
        except socket.gaierror as error:  # names no host by itself
            raise OSError(error.errno, f"{endpoint}: {error.strerror}") from error
    if endpoint.transport == "name":
        folder = PodFolder(runtime_directory(), endpoint.address)
        await folder.open(lambda path: unix.listen(path, _limits(limits), accept))
        return folder
    return await unix.listen(endpoint.address, _limits(limits), accept)


def connector(endpoint: Endpoint, limits: Limits) -> Callable[[], Awaitable[Transport]]:
    """What connects to a checked endpoint."""
    if endpoint.transport in ("ws", "wss"):
        token = endpoint.option("token")
        url = f"{endpoint.transport}:{endpoint.address}" + (f"?{urlencode({'token': token})}" if token else "")
        return lambda: websocket.connect(url, _limits(limits))
    path = endpoint.address
    if endpoint.transport == "name":
        path = str(PodFolder(runtime_directory(), endpoint.address).socket)
    return lambda: unix.connect(path, _limits(limits))


def pods(endpoint: Endpoint) -> Pods | None:
    """The pods of a checked upstream that is a directory of them; None for any other."""
    return Pods(endpoint, unix.alive) if endpoint.transport == "dir" else None


def _limits(limits: Limits) -> AdapterLimits:
    return AdapterLimits(max_message=limits.max_message, heartbeat=limits.heartbeat)
