"""The client side of WebSocket: connect to a server, and explain a failure in one line.

Each connection has its own ClientSession, which ends with it. Nothing is pooled, no cookie is kept and no redirect is
followed; a redirect is reported as a refusal that names the new place. A URL may carry a token in its query
(docs/dialects/smooth.md, section 1), and errors end up in logs. So tokens are masked anywhere in an error's text.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import ssl
import traceback
from collections.abc import Callable, Mapping
from functools import cache, partial
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import unquote_plus

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientError,
    ClientHandlerType,
    ClientRequest,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    DummyCookieJar,
    InvalidURL,
    ServerDisconnectedError,
    TCPConnector,
)
from aiohttp.client_proto import ResponseHandler

from dragoman.adapters.base import CloseReason, TransportLimits, connect_reason, do_nothing
from dragoman.adapters.resolver import LookupResolver
from dragoman.adapters.websocket.connection import Connection, InputParser
from dragoman.adapters.websocket.frames import OF_CLIENT
from dragoman.adapters.websocket.http_response import accept_value
from dragoman.adapters.websocket.server_reader import ServerReader
from dragoman.adapters.websocket.tls import CertificateFiles, client_context
from dragoman.adapters.websocket.transport import HARD_LIMIT, BatchWriter, WebSocketTransport

UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
RESPONSE_SIZE = 16 * 1024  # bytes of a handshake's response, as most servers allow for headers; 860 interim responses
BODY_SIZE = 1024  # bytes of a refusal's body that are read
LINE_SIZE = 200  # characters of an error's text: one log line
UNKNOWN_AUTHORITY = "; if you trust who has signed it, name that certificate with ca=FILE"
OTHER_NAME = "; write the host as the certificate names it"
CERTIFICATE_HINTS = {  # codes of OpenSSL
    **dict.fromkeys((18, 19, 20, 21), UNKNOWN_AUTHORITY),
    **dict.fromkeys((62, 64), OTHER_NAME),
}
TOKEN = re.compile(r"(?<=[?&]token=)[^&#\s]+")
TOKEN_START = 16  # characters by which a token is recognised
SECRETS = re.compile(r"(?i)(?<=token=)[^&#\s]+|(?<=://)[^/@\s]+(?=@)")


class DialledConnection(Connection):
    """A connection that we opened; aiohttp's session also waits for the end of its `handler`."""

    __slots__ = ("_handler", "data_received")

    data_received: Callable[[bytes], object]  # type: ignore[assignment]  # a method would be one more call for each token

    def __init__(self, handler: ResponseHandler) -> None:
        super().__init__()
        self._handler = handler

    def open_websocket(self, websocket: WebSocketTransport, tcp: asyncio.Transport, parser: InputParser) -> None:
        super().open_websocket(websocket, tcp, parser)
        self.data_received = parser.feed_data

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.data_received = do_nothing  # no cycle is left for the garbage collector
        self._handler.connection_lost(exc)


class _ResponseReader(ResponseHandler):
    """Read at most RESPONSE_SIZE bytes of a response: a server can send interim ones (HTTP 100) without end."""

    _room = RESPONSE_SIZE

    def data_received(self, data: bytes) -> None:
        size = len(data) if self.upgraded else self._room
        self._room = max(0, self._room - len(data))
        super().data_received(data[:size])
        if len(data) <= size or self.transport is None:
            return
        if self.upgraded:
            super().data_received(data[size:])
        else:
            self.set_exception(_NoWebSocketError(f"its response is larger than {RESPONSE_SIZE} bytes"))
            self.transport.abort()


class _Connector(TCPConnector):
    """Open a connection without a cache of names, whose response has a limited size."""

    def __init__(self) -> None:
        super().__init__(resolver=LookupResolver(), use_dns_cache=False)
        reader: type[ResponseHandler] = _ResponseReader  # so declared, as a partial of a subclass has another type
        self._factory = partial(reader, loop=self._loop)


class _Early:
    """A parser for aiohttp that keeps the bytes received after the response to the handshake."""

    data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""


class DialledTransport(WebSocketTransport):
    """A WebSocket connection that we opened, with the session and response of its handshake."""

    def __init__(self, session: ClientSession, opened: _Handshake, limits: TransportLimits) -> None:
        connection = DialledConnection(opened.protocol)
        super().__init__(opened.tcp, BatchWriter(connection, opened.tcp, OF_CLIENT), limits)
        self._session = session
        self._response = opened.response
        limit = HARD_LIMIT * limits.max_message
        parser, early = ServerReader(self, self.meter, limit, self.push, limits.max_message), _Early()
        self.use_parser(parser)
        connection.open_websocket(self, opened.tcp, parser)
        opened.protocol.set_parser(early, None)
        opened.tcp.set_protocol(connection)
        if early.data:
            parser.feed_data(early.data)
        if opened.protocol.transport is None:
            connection.connection_lost(None)

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        try:
            await super().close(reason, text)
        finally:
            self._response.close()
            await self._session.close()


class _Handshake:
    """A middleware around a session's only request: keeps the connection, or raises the reason of the failure."""

    response: ClientResponse
    protocol: ResponseHandler
    tcp: asyncio.Transport

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._key = base64.b64encode(os.urandom(16)).decode()

    @property
    def headers(self) -> dict[str, str]:
        """The headers that ask for a WebSocket (RFC 6455, section 4.1)."""
        return {**UPGRADE, "Sec-WebSocket-Key": self._key}

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        response = await handler(request)
        try:
            await self._check(response)
        except BaseException:
            response.close()
            raise
        return response

    async def _check(self, response: ClientResponse) -> None:
        if response.status != HTTPStatus.SWITCHING_PROTOCOLS:
            raise _RefusedError(await self._refusal(response), response.status)
        connection = response.connection
        if connection is None or connection.protocol is None or connection.transport is None:
            raise ServerDisconnectedError
        headers = response.headers
        if headers.get("Upgrade", "").lower() != "websocket" or "upgrade" not in headers.get("Connection", "").lower():
            raise _NoWebSocketError("its response has no `Upgrade: websocket`, or no `Connection: upgrade`")
        if headers.get("Sec-WebSocket-Accept") != accept_value(self._key):
            raise _NoWebSocketError("its `Sec-WebSocket-Accept` does not fit the request")
        self.response = response
        self.protocol = connection.protocol
        self.tcp = connection.transport

    async def _refusal(self, response: ClientResponse) -> str:
        parts = [f"HTTP {response.status} {response.reason or ''}".rstrip()]
        if "Location" in response.headers:
            parts.append(f"go to {response.headers['Location']}")
        elif response.content_type == "text/plain":  # HTML is for browsers, not for an error's text
            with contextlib.suppress(TimeoutError, ClientError):
                async with asyncio.timeout(self._deadline):
                    parts += (await response.content.read(BODY_SIZE)).decode(errors="replace").splitlines()[:1]
        return ": ".join(parts)


class _RefusedError(ClientError):
    """The server answered the handshake with something else than a WebSocket."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class _NoWebSocketError(ClientError):
    """The server accepted the handshake, but not as a WebSocket does."""


class HandshakeRefusedError(OSError):
    """The server refused the handshake with this HTTP status. The text quotes it."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


async def connect(
    url: str,
    limits: TransportLimits,
    tls: ssl.SSLContext | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> DialledTransport:
    """Connect to a `ws:` or `wss:` URL; raise OSError with the URL and the reason. The caller sets the time limit.

    Without `tls` the authorities of the system are trusted. `headers` are sent with the handshake.
    """
    if not url.startswith(("ws://", "wss://")):
        raise _failure(url, InvalidURL(url))
    handshake = _Handshake(limits.close_deadline)
    async with contextlib.AsyncExitStack() as undo:
        session = await undo.enter_async_context(
            ClientSession(
                connector=_Connector(),
                cookie_jar=DummyCookieJar(),
                timeout=ClientTimeout(),
                middlewares=(handshake,),
            )
        )
        try:
            await session.get(
                url,
                headers={**handshake.headers, **headers},
                ssl=(tls or _certificates()) if url.startswith("wss:") else True,
                read_until_eof=False,
            )
        except (ClientError, OSError, ValueError) as error:
            _clear_frames(error)
            raise _failure(url, error) from None  # the original error contains the token
        transport = DialledTransport(session, handshake, limits)
        undo.pop_all()
    return transport


@cache
def _certificates() -> ssl.SSLContext:
    """Return the TLS context with the system's authorities, which are read when the first `wss:` URL is dialled.

    The context that aiohttp makes when it is imported may have none (gateway/cli/quick_start.py).
    """
    return client_context(CertificateFiles())


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames in the traceback of an error, and of its causes.

    A library keeps the error in a variable of such a frame. This cycle would wait for the garbage collector.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _failure(url: str, error: Exception) -> OSError:
    match error:
        case OSError(errno=int(number)) if number > 0 and not isinstance(
            error, ClientSSLError | ClientConnectorDNSError
        ):
            return OSError(number, connect_reason(number), _masked(url))
        case _:
            text = f"{_masked(url)}: {_without_token(url, _masked(_cause(url, error)))[:LINE_SIZE]}"
            return HandshakeRefusedError(text, error.status) if isinstance(error, _RefusedError) else OSError(text)


def _cause(url: str, error: Exception) -> str:
    match error:
        case _RefusedError():
            text = f"refused with {error}"
        case InvalidURL():
            text = "this is not a WebSocket URL"  # the error's own text is only the URL
        case ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", str(error.certificate_error)).rstrip(".")
            hint = CERTIFICATE_HINTS.get(getattr(error.certificate_error, "verify_code", 0), "")
            text = f"the server's certificate is not accepted: {reason}{hint}"
        case ClientSSLError(os_error=ssl.SSLError(reason="WRONG_VERSION_NUMBER")):
            text = "the server does not speak TLS; is it a ws: address?"
        case ClientSSLError():
            text = f"TLS failed: {error.strerror}"
        case ClientConnectorDNSError():
            text = f"unknown host: {error.strerror}"
        case ServerDisconnectedError():
            hint = "; is it a wss: address?" if url.startswith("ws:") else ""
            text = f"the server closed the connection during the handshake{hint}"
        case ClientResponseError() | _NoWebSocketError():
            cause = error.message if isinstance(error, ClientResponseError) else error
            text = f"the server did not answer with a WebSocket: {cause}"
        case _:
            text = str(error) or type(error).__name__
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _without_token(url: str, cause: str) -> str:
    """Return the cause of a failure, cut before the URL's token.

    The cause may contain only the first part of the token.
    """
    for token in TOKEN.findall(url):
        shown, found, _ = cause.partition(unquote_plus(token)[:TOKEN_START])
        cause = f"{shown}***" if found else cause
    return cause


def _masked(text: str) -> str:
    return SECRETS.sub("***", text)
