"""The responses of a WebSocket listener, as a client's parser reads them."""

from __future__ import annotations

from http import HTTPStatus

from dragoman.adapters.websocket.http_response import HttpResponse, acceptance
from tests.adapters.websocket.peers import KEY

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
