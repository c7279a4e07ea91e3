"""`ws:` and `wss:` endpoints."""

from __future__ import annotations

import errno
import re
import ssl
import time
from http import HTTPStatus
from urllib.parse import urlencode

import structlog
from msgspec import structs

from dragoman.adapters import websocket
from dragoman.adapters.base import Listener, Transport
from dragoman.adapters.host_names import is_host_name
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, Place, naming, split_url, tcp_places
from dragoman.gateway.observability.trace_context import OUTGOING
from dragoman.gateway.process.systemd import INHERITED
from dragoman.gateway.transports.spec import (
    FORWARDED,
    Connect,
    ListenerCallbacks,
    Spawner,
    TransportSpec,
    bind_failure,
    transport_limits,
)
from dragoman.mappings.errors import ConfigError

ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@\s]+/?", re.IGNORECASE)
"""The pages that a listener accepts: an origin as a browser sends it (RFC 6454), or all."""

log = structlog.get_logger("dragoman.tls")


async def _listen(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    host, port, path = split_url(endpoint)
    try:
        hosts = endpoint.all("host") or (("*",) if callbacks.authenticated else (host,))
        tls = _server_tls(endpoint)
        rules = websocket.HandshakeRules(callbacks=callbacks, origins=endpoint.all("origin"), hosts=hosts, tls=tls)
        name = endpoint.option("fd")
        with naming(endpoint):
            inherited = INHERITED.take_port(name, host, port) if name else None
        return await websocket.listen(host, port, path, transport_limits(limits), rules, inherited)
    except OSError as error:  # asyncio's own words name no endpoint, and an unknown host not at all
        raise bind_failure(endpoint.masked, f"{host}:{port}", error) from error


def _dial(endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> Connect:
    async def connect() -> Transport:
        try:
            # Secrets and certificates are read for each connection, so that renewed ones need no restart.
            forwarded, own, tls = FORWARDED.get(), endpoint.secret("token"), _client_tls(endpoint)
        except ConfigError as error:
            raise OSError(errno.EACCES, str(error)) from error
        token = forwarded or own
        url = f"{endpoint.transport}:{endpoint.address}" + (f"?{urlencode({'token': token})}" if token else "")
        try:
            return await websocket.connect(url, transport_limits(limits), tls, OUTGOING.get())
        except websocket.HandshakeRefusedError as error:
            if not forwarded or error.status != HTTPStatus.UNAUTHORIZED:
                raise
            # The text of the backend may be about the client's token, and others read the error: only the log has it.
            log.debug("the backend refused the token", endpoint=endpoint.masked, cause=str(error))
            text = "the backend does not accept the token of the session's owner (HTTP 401)"
            raise PermissionError(errno.EACCES, f"{endpoint.masked}: {text}") from None

    return connect


def _check(endpoint: Endpoint) -> None:
    """Raise ConfigError for an address without a host, and for pages and names that no request could have."""
    split_url(endpoint)
    for origin in endpoint.all("origin"):
        if ORIGIN.fullmatch(origin) is None:
            text = f"origin={origin}: write the scheme and host of the pages, for example https://app.example, or *"
            raise ConfigError(f"{endpoint.masked}: {text}")
    for host in endpoint.all("host"):
        if not is_host_name(host):
            raise ConfigError(f"{endpoint.masked}: host={host}: write only a name, for example gateway.example, or *")


def _server_tls(endpoint: Endpoint) -> websocket.ServerTls | None:
    """Return the TLS of a listener, None for `ws:`; raise ConfigError that names the file that cannot be used."""
    if endpoint.transport == "ws":
        return None
    if not (endpoint.option("cert") and endpoint.option("key")):
        raise ConfigError(f"{endpoint.masked}: a TLS listener needs `?cert=FILE&key=FILE`")

    def report(event: str, cause: str) -> None:
        log.warning(event, endpoint=endpoint.masked, cause=cause)

    with naming(endpoint):
        return websocket.ServerTls(_files(endpoint, "client_ca"), report)


def _find_date_fault(endpoint: Endpoint) -> str:
    dates = websocket.read_dates(_files(endpoint, "client_ca"))
    why = dates.find_fault(time.time()) if dates is not None else ""
    return f"{endpoint.masked}: {why}" if why else ""


def _client_tls(endpoint: Endpoint) -> ssl.SSLContext | None:
    """Return the TLS of a connection with files of its own, None for the system's defaults; raise ConfigError."""
    files = _files(endpoint, "ca")
    if files == websocket.CertificateFiles():
        return None
    with naming(endpoint):
        return websocket.client_context(files)


def _files(endpoint: Endpoint, authorities: str) -> websocket.CertificateFiles:
    certificate, key = endpoint.option("cert"), endpoint.option("key")
    return websocket.CertificateFiles(certificate=certificate, key=key, authorities=endpoint.option(authorities))


def _check_upstream(endpoint: Endpoint) -> None:
    """Raise ConfigError for an upstream that cannot be dialled."""
    _host, port, _path = split_url(endpoint)
    if not port:
        raise ConfigError(f"{endpoint.masked}: port 0 is for listeners alone; write the port of the backend")
    _client_tls(endpoint)


def _places(endpoint: Endpoint) -> tuple[Place, ...]:
    host, port, _ = split_url(endpoint)
    return tcp_places(host, port)


WS = TransportSpec(
    listen=_listen,
    dial=_dial,
    listen_options=frozenset({"origin", "host", "fd"}),
    dial_options=frozenset({"agent", "user", "token"}),  # what a client cannot say itself (docs/design.md, section 5)
    check=_check,
    places=_places,
    free="//127.0.0.1:0/ws",
    check_upstream=_check_upstream,
    kept_limits=("max_message", "heartbeat", "handshake_deadline"),
    counts_connections=True,
)

WSS = structs.replace(
    WS,
    listen_options=WS.listen_options | {"cert", "key", "client_ca"},
    dial_options=WS.dial_options | {"cert", "key", "ca"},
    check_place=_server_tls,
    find_hazard=_find_date_fault,
    free="",  # a certificate is the user's choice
)
