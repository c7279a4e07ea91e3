"""Small parts of the WebSocket adapter: responses over HTTP, and the connection."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from dragoman.adapters.websocket.connection import AcceptedConnection
from dragoman.adapters.websocket.http_response import HttpResponse, acceptance
from tests.adapters.websocket.peers import KEY

# -- http response -----------------------------------------------------------------------------------


BUSY = HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, "no room: é", (("Retry-After", "1"),))


def test_a_response_has_one_line_of_text_and_closes_the_connection() -> None:
    head, _, body = BUSY.encode().decode().partition("\r\n\r\n")
    status, *headers = head.split("\r\n")
    assert (status, body) == ("HTTP/1.1 503 Service Unavailable", "no room: é\n")
    assert headers[-1] == "Retry-After: 1"
    assert {"Content-Type: text/plain; charset=utf-8", "Content-Length: 12", "Connection: close"} < set(headers)


def test_the_response_to_a_head_request_tells_the_size_of_a_body_that_it_does_not_have() -> None:
    assert BUSY.encode(has_body=False).endswith(b"Retry-After: 1\r\n\r\n")
    assert b"Content-Length: 12\r\n" in BUSY.encode(has_body=False)


def test_the_acceptance_of_the_key_in_the_example_of_rfc_6455_has_the_value_given_there() -> None:
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in acceptance(KEY)


# -- connection --------------------------------------------------------------------------------------


class Parser:
    """A parser that notes what it is given."""

    def __init__(self) -> None:
        self.fed: list[bytes | None] = []

    def feed_data(self, data: bytes) -> None:
        self.fed.append(data)

    def feed_eof(self) -> None:
        self.fed.append(None)


class WebSocket:
    """A transport that counts how often it was lost."""

    losses = 0

    def lost(self) -> None:
        self.losses += 1


async def test_a_connection_feeds_its_newest_parser_until_it_is_lost() -> None:
    lost: list[AcceptedConnection] = []
    connection = AcceptedConnection("peer", "", lost.append)
    first, second, websocket = Parser(), Parser(), WebSocket()
    tcp: Any = None  # nothing is written
    connection.start(tcp, first)
    connection.data_received(b"a")
    connection.open_websocket(websocket, tcp, second)  # type: ignore[arg-type]  # has what is called
    connection.data_received(b"b")
    connection.connection_lost(None)
    connection.data_received(b"c")
    assert (first.fed, second.fed) == ([b"a"], [b"b", None])
    assert (websocket.losses, lost) == (1, [connection])
