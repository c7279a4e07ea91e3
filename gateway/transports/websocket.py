"""`ws:` and `wss:` endpoints."""

from __future__ import annotations

import errno
from urllib.parse import urlencode

from msgspec import structs

from dragoman.adapters import websocket
from dragoman.adapters.base import Listener, Transport
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, split_url
from dragoman.gateway.transports.spec import (
    Connect,
    ListenerCallbacks,
    Place,
    Spawner,
    TransportSpec,
    bind_failure,
    transport_limits,
)
from dragoman.mappings.errors import ConfigError

__all__ = ["WS", "WSS"]


async def _listen(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    host, port, path = split_url(endpoint)
    bounds, origins = transport_limits(limits), endpoint.all("origin")
    try:
        hosts = endpoint.all("host") or (("*",) if callbacks.authenticated else (host,))
        rules = websocket.Handshakes(admit=callbacks.admit, origins=origins, hosts=hosts, full=callbacks.refusal)
        return await websocket.listen(host, port, path, bounds, rules)
    except OSError as error:  # asyncio's own words name no endpoint, and an unknown host not at all
        raise bind_failure(endpoint, f"{host}:{port}", error) from error


def _dial(endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> Connect:
    async def connect() -> Transport:
        try:
            token = endpoint.secret("token")  # read for each connection, so that a renewed one needs no restart
        except ConfigError as error:
            raise OSError(errno.EACCES, str(error)) from error
        url = f"{endpoint.transport}:{endpoint.address}" + (f"?{urlencode({'token': token})}" if token else "")
        return await websocket.connect(url, transport_limits(limits))

    return connect


def _place(endpoint: Endpoint) -> Place | None:
    host, port, _ = split_url(endpoint)
    return ("tcp", host.lower(), port) if port else None


WS = TransportSpec(
    listen=_listen,
    dial=_dial,
    listen_options=frozenset({"origin", "host"}),
    dial_options=frozenset({"agent", "user", "token"}),  # what a client cannot say itself (docs/design.md, section 5)
    check=split_url,
    place=_place,
)

WSS = structs.replace(WS, listen=None)
