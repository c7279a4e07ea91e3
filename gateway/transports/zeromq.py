"""The endpoints of pando: `tcp:` with host and ports, and `dir:` with a project from which the ports follow
(docs/dialects/pando.md, section 1). Between two gateways `tcp:` can be encrypted (gateway/transports/curve.py).
"""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.adapters import zeromq
from dragoman.adapters.base import Listener, Transport, do_nothing
from dragoman.adapters.zeromq.publication import Publication
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import WRONG_PORT, Endpoint, Place, tcp_places
from dragoman.gateway.overload.descriptors import first_reserved
from dragoman.gateway.transports.curve import CLIENT_OPTIONS, SERVER_OPTIONS, client_keys, server_keys
from dragoman.gateway.transports.pando_project import (
    Project,
    ProjectListener,
    check_directory,
    derive_ports,
    find_ports,
)
from dragoman.gateway.transports.spec import (
    Connect,
    ListenerCallbacks,
    Spawner,
    TransportSpec,
    bind_failure,
    transport_limits,
)
from dragoman.mappings.errors import ConfigError

HOST = "127.0.0.1"  # a pando listens only here (docs/dialects/pando.md, section 1)
KEPT_LIMITS = ("max_message", "message_parts", "callers", "subscribers", "subscriptions")
EXAMPLE = "write host and port, for example pando+tcp://127.0.0.1:48254"


def _address(endpoint: Endpoint) -> tuple[str, int, int | None]:
    """Return host, publication port and call port (None: the next one); raise ConfigError with an example."""
    try:
        url = urlsplit(f"tcp:{endpoint.address}")
        host, port = url.hostname, url.port
        calls = int(endpoint.option("rpc")) if endpoint.option("rpc") else None
    except ValueError as error:
        raise ConfigError(f"{endpoint.masked}: {WRONG_PORT}") from error
    if not host or port is None or url.path not in ("", "/"):
        raise ConfigError(f"{endpoint.masked}: {EXAMPLE}")
    if calls is not None and not 0 <= calls <= 65535:
        raise ConfigError(f"{endpoint.masked}: rpc must be a port from 0 to 65535")
    if calls is None and port == 65535:
        raise ConfigError(f"{endpoint.masked}: no port follows 65535 for the calls; write it as rpc=PORT")
    return host, port, calls


async def _listen_at(
    host: str,
    port: int,
    calls: int | None,
    limits: Limits,
    callbacks: ListenerCallbacks,
    curve: zeromq.CurveServer | None = None,
) -> Listener:
    def accept(transport: Transport) -> None:
        if isinstance(transport, Publication):
            callbacks.publish(transport)
        else:
            callbacks.accept(transport)

    return await zeromq.listen(
        host,
        port,
        calls,
        transport_limits(limits),
        zeromq.PrimaryEvents(
            accept=accept, lost=callbacks.lost, subscribed=callbacks.subscribed, topics=callbacks.instance.topics
        ),
        zeromq.ZeroMQLimits(
            callers=limits.callers,
            subscribers=limits.subscribers,
            subscriptions=limits.subscriptions,
            descriptors=first_reserved(),
        ),
        curve,
    )


async def _listen(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    host, port, calls = _address(endpoint)
    curve = server_keys(endpoint, lambda why: callbacks.not_authenticated(endpoint.masked, why))
    try:
        return await _listen_at(host, port, calls, limits, callbacks, curve)
    except OSError as error:
        raise bind_failure(endpoint.masked, error.filename or f"{host}:{port}", error) from error


async def _listen_project(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    project = Project.claim(endpoint.address, callbacks.instance.id, callbacks.instance.started_at)
    try:
        listener = await _listen_at(HOST, project.publish_port, project.call_port, limits, callbacks)
    except BaseException:
        project.release()
        raise
    return ProjectListener(project, listener)


async def _connect_at(
    host: str, publications: int, calls: int, limits: Limits, curve: zeromq.CurveClient | None = None
) -> Transport:
    addresses = (zeromq.tcp_address(host, publications), zeromq.tcp_address(host, calls))
    return await zeromq.connect(*addresses, transport_limits(limits), curve=curve)


def _dial(endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> Connect:
    host, port, calls = _address(endpoint)

    async def connect() -> Transport:
        try:
            curve = client_keys(endpoint)  # read for each connection, so that a new key needs no restart
        except ConfigError as error:
            raise OSError(errno.EACCES, str(error)) from error
        return await _connect_at(host, port, port + 1 if calls is None else calls, limits, curve)

    return connect


def _dial_project(endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> Connect:
    async def connect() -> Transport:
        # In a thread: any user may fill the registry with large records.
        *others, (publications, calls) = await asyncio.to_thread(find_ports, endpoint.address)
        for ports in others:
            with suppress(OSError):  # the ports of a primary that is gone
                return await _connect_at(HOST, *ports, limits)
        try:
            return await _connect_at(HOST, publications, calls, limits)
        except OSError as error:
            where = f"no primary answers at {HOST}, ports {publications} and {calls}"
            raise OSError(error.errno, f"no pando is running for {endpoint.address}: {where}") from error

    return connect


def _check_upstream(endpoint: Endpoint) -> None:
    """Raise ConfigError for an upstream that cannot be dialled."""
    _host, *ports = _address(endpoint)
    if 0 in ports:
        raise ConfigError(f"{endpoint.masked}: port 0 is for listeners alone; write the ports of the backend")
    client_keys(endpoint)


def _places(endpoint: Endpoint) -> tuple[Place, ...]:
    host, port, calls = _address(endpoint)
    if calls is None:
        calls = port + 1 if port else 0  # with port 0 the system chooses both
    return tcp_places(host, port, calls)


def _places_of_project(endpoint: Endpoint) -> tuple[Place, ...]:
    return tcp_places(HOST, *derive_ports(endpoint.address))


def _check_project(endpoint: Endpoint) -> None:
    if not Path(endpoint.address).is_absolute():
        raise ConfigError(f"{endpoint.masked}: write the project's absolute path, as given to its pando")


TCP = TransportSpec(
    listen=_listen,
    dial=_dial,
    listen_options=SERVER_OPTIONS | {"rpc"},
    dial_options=CLIENT_OPTIONS | {"rpc"},
    check=_address,
    check_place=lambda endpoint: server_keys(endpoint, do_nothing),
    check_upstream=_check_upstream,
    places=_places,
    free="//127.0.0.1:0",
    kept_limits=KEPT_LIMITS,
)

PROJECT = TransportSpec(
    listen=_listen_project,
    dial=_dial_project,
    check=_check_project,
    check_place=lambda endpoint: check_directory(endpoint.address),
    places=_places_of_project,
    kept_limits=KEPT_LIMITS,
)
