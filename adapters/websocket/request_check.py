"""The checks of a request to a WebSocket listener, and the facts that it contains about its peer.

The check refuses any request but a handshake with one line of text that says what would be right. A web page may open a
WebSocket to 127.0.0.1, and its browser sends the page's origin. An Origin that is neither loopback nor allowed by name
is refused. A page may also reach 127.0.0.1 by a name of its own (DNS rebinding): then its browser sends that name as
Host, which is refused unless it is allowed.

A client may have to present a bearer token, in the header `Authorization` or, because browsers cannot set it, in the
query (`?token=`). A request with two different tokens has none that counts. No text contains the query.
"""

from __future__ import annotations

import base64
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp.http import HttpVersion11, RawRequestMessage

from dragoman.adapters.hops import GATEWAYS_MAX, count_hops, via
from dragoman.adapters.host_names import host_name, is_address
from dragoman.adapters.websocket.http_response import HttpResponse

VERSION = "13"  # of WebSocket: that of RFC 6455
KEY_SIZE = 16  # bytes of a handshake's key (RFC 6455, section 4.1)
OUR_PAGES = ("localhost", "127.0.0.1", "::1")  # hosts of pages that are trusted: not all that loopback has
TRACE = ("traceparent", "tracestate")
TRACE_MAX = 1024  # characters of each: the specification asks everybody to pass on 512
NO_HEADERS: dict[str, str] = {}  # one for all clients that send none


class RequestCheck:
    """Checks the requests to one listener: their path, Host, Origin, and whether they are handshakes.

    `origins` are allowed in addition to loopback; `*` allows every origin. `hosts` are the names by which clients reach
    the listener, in addition to IP addresses and `localhost`; `*` allows every name.
    """

    def __init__(self, path: str, origins: tuple[str, ...], hosts: tuple[str, ...]) -> None:
        self._path = path
        self._origins = tuple(origin.rstrip("/").lower() for origin in origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._host: str | None = None  # the last one that was allowed: clients of one listener send the same

    def find_refusal(self, request: RawRequestMessage) -> HttpResponse | None:
        """Return the response that refuses a request; None if it is a handshake that is allowed here."""
        path, headers = request.url.path, request.headers
        if path != self._path:
            return HttpResponse(HTTPStatus.NOT_FOUND, f"nothing at {path!r}: open a WebSocket at {self._path}")
        host = request.url.authority or headers.get("Host")  # an absolute URL overrides it (RFC 9112, section 3.2.2)
        if host is not None and host != self._host and not self._is_ours(host):
            hint = "?host=gateway.example (or * for all)"
            text = f"host {host!r} is not allowed: add {hint} to the listener's endpoint"
            return HttpResponse(HTTPStatus.FORBIDDEN, text)
        origin = next((one for one in headers.getall("Origin", ()) if not self._allows(one)), None)
        if origin is not None:
            hint = "?origin=https://app.example (or * for all)"
            text = f"origin {origin!r} is not allowed: add {hint} to the listener's endpoint"
            return HttpResponse(HTTPStatus.FORBIDDEN, text)
        if not _is_handshake(request):
            text = f"this is a WebSocket endpoint: open a WebSocket (version {VERSION}) at {self._path}"
            needed = (("Upgrade", "websocket"), ("Sec-WebSocket-Version", VERSION))
            return HttpResponse(HTTPStatus.UPGRADE_REQUIRED, text, needed)
        if "Via" in headers and count_hops(passed_headers(request)) >= GATEWAYS_MAX:
            text = f"this connection came through {GATEWAYS_MAX} gateways: the routes of some lead to each other"
            return HttpResponse(HTTPStatus.LOOP_DETECTED, text)
        return None

    def _is_ours(self, host: str) -> bool:
        """Return True if a client may reach the listener under this name, which no foreign web page can choose."""
        name = host_name(host)
        if self._hosts & {"*", name} or is_address(name):
            self._host = host
            return True
        return False

    def _allows(self, origin: str) -> bool:
        if "*" in self._origins or origin.rstrip("/").lower() in self._origins:
            return True
        try:
            url = urlsplit(origin)
        except ValueError:
            return False
        return url.scheme in ("http", "https") and url.hostname in OUR_PAGES


def find_tokens(request: RawRequestMessage) -> tuple[str, ...]:
    """Return the different bearer tokens of a request: those of its headers, then those of its query."""
    found = []
    for text in request.headers.getall("Authorization", ()):
        scheme, _, token = text.partition(" ")
        if scheme.lower() == "bearer":
            found.append(token.strip())
    if request.url.raw_query_string:
        found += request.url.query.getall("token", ())
    return tuple(dict.fromkeys(found))


def passed_headers(request: RawRequestMessage) -> dict[str, str]:
    """Return the headers that the connection to a backend gets: those of the W3C trace context, and `Via`.

    Two values of `traceparent` contradict each other: none counts. The headers are kept as long as the connection, and
    are not counted as memory. So long values are left out, and of `Via` only the gateways are kept.
    """
    headers = request.headers
    if "traceparent" not in headers and "via" not in headers:
        return NO_HEADERS
    names = TRACE if len(headers.getall("traceparent", ())) == 1 else ()
    passed = {name: value for name in names if 0 < len(value := ",".join(headers.getall(name, ()))) <= TRACE_MAX}
    hops = count_hops({"via": ",".join(headers.getall("via", ()))})
    return passed | via(hops - 1) if hops else passed


def _is_handshake(request: RawRequestMessage) -> bool:
    """Return True if a request asks for a WebSocket (RFC 6455, section 4.2.1), with one version and one key."""
    headers = request.headers
    return (
        request.method == "GET"
        and request.version == HttpVersion11
        and request.upgrade  # `Connection` contains `Upgrade`
        and headers.get("Upgrade", "").lower() == "websocket"
        and headers.getall("Sec-WebSocket-Version", ()) == [VERSION]
        and len(headers.getall("Sec-WebSocket-Key", ())) == 1
        and _is_key(headers["Sec-WebSocket-Key"])
        and not request.chunked
        and headers.get("Content-Length", "0") == "0"  # the bytes of a body would be read as frames
    )


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == KEY_SIZE
    except ValueError:  # not base64, or not ASCII
        return False
