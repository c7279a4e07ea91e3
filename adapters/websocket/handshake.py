"""The handshake of one connection: read its request, authenticate the peer, and respond.

aiohttp parses the request. All else happens in the call that parsed its last byte, without a task, unless the
authentication has to wait. Handshakes take turns: after a restart all clients may come in one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp.http import HttpProcessingError, HttpRequestParser, RawRequestMessage
from aiohttp.http_exceptions import LineTooLong
from msgspec import Struct

from dragoman.adapters.base import Accept, ConnectionCallbacks, PeerFacts, Work
from dragoman.adapters.websocket.connection import AcceptedConnection
from dragoman.adapters.websocket.http_response import HttpResponse, acceptance
from dragoman.adapters.websocket.request_check import RequestCheck, find_tokens, passed_headers
from dragoman.adapters.websocket.tls import ServerTls, end_of, subject_of

log = structlog.get_logger("dragoman.link")

RETRY_AFTER = "1"  # seconds: `connection_rate` counts by the second, and a client of a full gateway loses little
REQUEST_MAX = 512 * 1024  # bytes before the end of a handshake: two full reads, which may hold early messages, too
REQUEST_UNITS = 32 * 1024  # units of work of a whole request: 0.2 to 0.4 ms
PART_UNITS = 2048  # units of work of a part of a request
BODY_MAX = 64 * 1024  # bytes of a body that are kept: a request with one is refused
ADMISSION_DEADLINE = 60.0  # seconds for the authentication: `auth_delay` and the read of a JWKS take less
CAUSE_MAX = 200  # characters of the text about a foreign page that are reported: it repeats the page's name
MALFORMED = HttpResponse(HTTPStatus.BAD_REQUEST, "malformed HTTP request")
TOO_LONG = HttpResponse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request or one of its lines is too long")
TOO_SLOW = HttpResponse(HTTPStatus.REQUEST_TIMEOUT, "the request took too long (`handshake_deadline`)")
FAILED = HttpResponse(HTTPStatus.INTERNAL_SERVER_ERROR, "the authentication failed: try again later")


class HandshakeRules(Struct, frozen=True, kw_only=True):
    """The rules by which a listener accepts a handshake. `origins` and `hosts` are those of RequestCheck.

    `tls` makes it a listener for `wss:`.
    """

    callbacks: ConnectionCallbacks
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    tls: ServerTls | None = None


class Opened(Struct, frozen=True):
    """A connection whose handshake was accepted, with the data that came after its request."""

    connection: AcceptedConnection
    tcp: asyncio.Transport
    early: bytes
    headers: dict[str, str]
    """The headers of the request that the connection to a backend gets."""


class Handshake:
    """Reads the only request of a connection and responds to it, within a deadline. It is the connection's parser.

    `opened` is called with an accepted connection and the function that accepts its peer. It must set the connection's
    next parser.
    """

    __slots__ = (
        "_callbacks",
        "_check",
        "_connection",
        "_early",
        "_opened",
        "_parser",
        "_room",
        "_task",
        "_tcp",
        "_timer",
        "_work",
    )

    def __init__(
        self,
        connection: AcceptedConnection,
        tcp: asyncio.Transport,
        callbacks: ConnectionCallbacks,
        check: RequestCheck,
        opened: Callable[[Opened, Accept], None],
        deadline: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._connection = connection
        self._tcp = tcp
        self._callbacks = callbacks
        self._check = check
        self._opened = opened
        self._parser: HttpRequestParser | None = HttpRequestParser(
            connection, loop, BODY_MAX, auto_decompress=False, max_msg_queue_size=2
        )
        self._room = REQUEST_MAX
        self._early = b""  # bytes that were read and are not parsed yet
        self._work: Work | None = None  # while the data waits for its turn
        self._task: asyncio.Task[Any] | None = None  # while the authentication waits
        self._timer = loop.call_later(deadline, self._give_up)

    def feed_data(self, data: bytes) -> None:
        """Read a part of the request in its turn, and respond at its end."""
        self._room -= len(data)
        if self._tcp.is_closing():
            return
        if self._room < 0:
            self._callbacks.bad_request("RequestTooLarge")
            self._respond(TOO_LONG)
            return
        self._early += data
        if self._parser is None or self._work is not None:
            self._tcp.pause_reading()  # until the data is parsed, or the peer is authenticated
            return
        self._work = self._callbacks.work(self._fail)
        self._work.add_work(self._parse_in_turn(self._work, self._parser))

    def feed_eof(self) -> None:
        """End the handshake: the connection is lost."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._work is not None:
            self._work.stop()
            self._work = None

    def _parse_in_turn(self, work: Work, parser: HttpRequestParser) -> Iterator[None]:
        self._work = None  # it refers to us
        if not self._tcp.is_closing():
            self._tcp.resume_reading()
            self._parse(parser, self._early)
        work.count(PART_UNITS if self._parser is not None else REQUEST_UNITS)
        yield from ()

    def _fail(self, error: Exception) -> None:
        """Disconnect the peer: its request was not read."""
        log.error("the handshake failed, disconnecting the peer", exc_info=error)
        self._tcp.abort()

    def _parse(self, parser: HttpRequestParser, data: bytes) -> None:
        try:
            requests, _, self._early = parser.feed_data(data)
        except HttpProcessingError as error:  # its text quotes the request, which may contain a token
            self._callbacks.bad_request(type(error).__name__)
            self._respond(TOO_LONG if isinstance(error, LineTooLong) else MALFORMED)
            return
        if requests:
            self._parser = None
            self._answer(requests[0][0])

    def _answer(self, request: RawRequestMessage) -> None:
        refusal = self._check.find_refusal(request)
        if self._connection.refusal:
            retry = (("Retry-After", RETRY_AFTER),)
            refusal = HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, self._connection.refusal, retry)
        if refusal is not None:
            if refusal.status is HTTPStatus.FORBIDDEN:  # a browser hides the text from the page and its developer
                self._callbacks.bad_request(refusal.text[:CAUSE_MAX])
            self._respond(refusal, has_body=request.method != "HEAD")
            return
        tokens = find_tokens(request)
        admission = self._callbacks.admit(self._facts(tokens))
        if isinstance(admission, Awaitable):
            self._callbacks.spawn(
                self._wait(admission, request, presented=any(tokens)), f"{self._connection.peer}:login"
            )
        else:
            self._open(admission, request)

    def _facts(self, tokens: tuple[str, ...]) -> PeerFacts:
        certificate = self._tcp.get_extra_info("peercert")
        return PeerFacts(
            address=self._connection.peer,
            token=tokens[0] if len(tokens) == 1 else "",
            several_tokens=len(tokens) > 1,
            certificate=subject_of(certificate) if certificate else "",
            certificate_end=end_of(certificate) if certificate else None,
        )

    async def _wait(self, admission: Awaitable[Accept | str], request: RawRequestMessage, *, presented: bool) -> None:
        """Wait for the authentication of the peer, then respond."""
        self._timer.cancel()  # the peer has done its part
        self._task = asyncio.current_task()
        try:
            async with asyncio.timeout(ADMISSION_DEADLINE):
                admitted = await admission
        except Exception:  # the task of one peer must not end the gateway
            log.exception("authentication failed", peer=self._connection.peer)
            self._respond(FAILED)
            return
        finally:
            self._task = None
        if isinstance(admitted, str):
            self._respond(_unauthorized(admitted, presented=presented))
        elif not self._tcp.is_closing():
            self._tcp.resume_reading()
            self._open(admitted, request)

    def _open(self, accept: Accept, request: RawRequestMessage) -> None:
        self._timer.cancel()
        self._tcp.write(acceptance(request.headers["Sec-WebSocket-Key"]))
        self._opened(Opened(self._connection, self._tcp, self._early, passed_headers(request)), accept)

    def _give_up(self) -> None:
        """Refuse a peer whose request did not come in time, or that has not closed its refused connection."""
        if self._tcp.is_closing():
            self._tcp.abort()
        else:
            self._respond(TOO_SLOW)

    def _respond(self, response: HttpResponse, *, has_body: bool = True) -> None:
        """Refuse the request, and close the connection."""
        if not self._tcp.is_closing():
            self._tcp.write(response.encode(has_body=has_body))
            self._tcp.close()


def _unauthorized(text: str, *, presented: bool) -> HttpResponse:
    """Return the response to a request without an accepted token (RFC 6750, section 3)."""
    challenge = 'Bearer realm="dragoman"' + (', error="invalid_token"' if presented else "")
    return HttpResponse(HTTPStatus.UNAUTHORIZED, text, (("WWW-Authenticate", challenge),))
