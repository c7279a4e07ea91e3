"""The client's side: dial a server, and say in one line why it did not work.

Every connection has a ClientSession of its own, which ends with it: nothing is pooled, no cookie is kept, no redirect
is followed (it is a refusal that names the right place). A URL may carry a token in its query
(docs/dialects/smooth.md, section 1), and an error ends up in logs: what looks like one is masked, wherever in the text
it stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from http import HTTPStatus

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
    ClientWSTimeout,
    DummyCookieJar,
    InvalidURL,
    ServerDisconnectedError,
)
from aiohttp.client_proto import ResponseHandler

from dragoman.adapters.base import CloseReason, Limits
from dragoman.adapters.websocket.frames import MASKED_PING, masked_text_frames
from dragoman.adapters.websocket.transport import (
    HARD_LIMIT,
    ClientSocket,
    Corked,
    Framewise,
    WebSocketTransport,
    retrieve,
)

__all__ = ["DialledTransport", "connect"]

BODY_SIZE = 1024  # bytes of a refusal that are looked at
LINE_SIZE = 200  # characters of it that are told: one line of a log
SECRETS = re.compile(r"(?i)(?<=token=)[^&#\s]+|(?<=://)[^/@\s]+(?=@)")


class DialledTransport(WebSocketTransport):
    """A connection that we made."""

    def __init__(
        self, session: ClientSession, socket: ClientSocket, protocol: ResponseHandler, tcp: asyncio.Transport,
        limits: Limits,
    ) -> None:  # fmt: skip
        corked = Corked.possible(protocol)
        writer = Corked(protocol, tcp, masked_text_frames, MASKED_PING) if corked else Framewise(socket, MASKED_PING)
        super().__init__(socket, tcp, writer, limits)
        self._session = session
        if protocol.closed is None:
            self.lost()
        else:
            protocol.closed.add_done_callback(self._over)

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        try:
            await super().close(reason, text)
        finally:
            await self._session.close()

    def _over(self, closed: asyncio.Future[None]) -> None:
        retrieve(closed)
        self.lost()


class _Handshake:
    """What stands around a session's only request: keeps its connection, or raises why there is none."""

    protocol: ResponseHandler
    tcp: asyncio.Transport

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        response = await handler(request)
        try:
            await self._judge(response)
        except BaseException:
            response.close()
            raise
        return response

    async def _judge(self, response: ClientResponse) -> None:
        if response.status != HTTPStatus.SWITCHING_PROTOCOLS:
            raise _RefusedError(await self._refusal(response))
        connection = response.connection
        if connection is None or connection.protocol is None or connection.transport is None:
            raise ServerDisconnectedError  # aiohttp would only assert that it is there
        self.protocol = connection.protocol
        self.tcp = connection.transport

    async def _refusal(self, response: ClientResponse) -> str:
        said = [f"HTTP {response.status} {response.reason or ''}".rstrip()]
        if "Location" in response.headers:
            said.append(f"go to {response.headers['Location']}")
        elif response.content_type == "text/plain":  # a page of HTML is for browsers
            with contextlib.suppress(TimeoutError, ClientError):
                async with asyncio.timeout(self._deadline):
                    said += (await response.content.read(BODY_SIZE)).decode(errors="replace").splitlines()[:1]
        return ": ".join(said)


class _RefusedError(ClientError):
    """The server answered, and not with a WebSocket."""


async def connect(url: str, limits: Limits) -> DialledTransport:
    """Dial a `ws:` or `wss:` URL; OSError says which one and why. How long it may take is the caller's to say."""
    if not url.startswith(("ws://", "wss://")):
        raise _failure(url, InvalidURL(url))
    handshake = _Handshake(limits.close_deadline)
    async with contextlib.AsyncExitStack() as undo:
        session = await undo.enter_async_context(
            ClientSession(cookie_jar=DummyCookieJar(), timeout=ClientTimeout(), middlewares=(handshake,))
        )
        try:
            socket = await session.ws_connect(
                url,
                timeout=ClientWSTimeout(ws_close=limits.close_deadline),
                autoping=False,
                compress=0,
                decode_text=False,
                max_msg_size=HARD_LIMIT * limits.max_message,
            )
        except (ClientError, OSError, ValueError) as error:
            raise _failure(url, error) from None  # its own text and request have the token in them
        transport = DialledTransport(session, socket, handshake.protocol, handshake.tcp, limits)
        undo.pop_all()
    return transport


def _failure(url: str, error: Exception) -> OSError:
    match error:
        case OSError(errno=int(number)) if number > 0 and not isinstance(
            error, ClientSSLError | ClientConnectorDNSError
        ):
            return OSError(number, os.strerror(number), _discreet(url))
        case _:
            return OSError(f"{_discreet(url)}: {_discreet(_cause(error))}")


def _cause(error: Exception) -> str:
    match error:
        case _RefusedError():
            text = f"refused with {error}"
        case InvalidURL():
            text = "this is no URL of a WebSocket"  # its own text is the URL
        case ClientConnectorCertificateError():
            text = f"its certificate is not accepted: {error.certificate_error}"
        case ClientSSLError():
            text = f"TLS failed: {error.strerror}"
        case ClientConnectorDNSError():
            text = f"the name of its host is not known: {error.strerror}"
        case ServerDisconnectedError():
            text = "it closed the connection during the handshake"
        case ClientResponseError():
            text = f"it does not answer like a WebSocket: {error.message}"
        case _:
            text = str(error) or type(error).__name__
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())[:LINE_SIZE]


def _discreet(text: str) -> str:
    return SECRETS.sub("***", text)
