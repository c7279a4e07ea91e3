"""Requests that are handshakes, and those that differ from one in a single place (RFC 6455, section 4.2.1)."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser, RawRequestMessage

from dragoman.adapters.websocket.request_check import RequestCheck, find_tokens, passed_headers
from tests.adapters.websocket.peers import KEY, request


def parsed(data: bytes) -> RawRequestMessage:
    loop = asyncio.get_running_loop()
    messages, _, _ = HttpRequestParser(BaseProtocol(loop), loop, 1 << 16).feed_data(data)
    return messages[0][0]


def status(data: bytes) -> int:
    """Return the status of the refusal of a request; 101 if it is allowed."""
    refusal = RequestCheck("/ws", (), ()).find_refusal(parsed(data))
    return 101 if refusal is None else refusal.status


@pytest.mark.parametrize(
    "data",
    [
        request(),
        request(line="GET /ws?session=1 HTTP/1.1"),
        request(line="GET http://127.0.0.1/ws HTTP/1.1"),
        request("Content-Length: 0"),
        request().replace(b"websocket", b"WebSocket"),
        request().replace(b"Connection: Upgrade", b"connection: keep-alive, upgrade"),
    ],
)
async def test_a_handshake_is_allowed(data: bytes) -> None:
    assert status(data) == 101


@pytest.mark.parametrize(
    "data",
    [
        request(line="POST /ws HTTP/1.1"),
        request(line="HEAD /ws HTTP/1.1"),
        request(line="GET /ws HTTP/1.0"),
        request("Content-Length: 5"),
        request("Transfer-Encoding: chunked"),
        request(f"Sec-WebSocket-Key: {KEY}"),
        request("Sec-WebSocket-Version: 8"),
        request(version="8, 13"),
        request().replace(KEY.encode(), b"YWJj"),
        request().replace(KEY.encode(), "é".encode()),
        request().replace(KEY.encode(), f"{KEY[:8]} *{KEY[8:]}".encode()),
        request().replace(b"Upgrade: websocket", b"Upgrade: h2c"),
        request().replace(b"Connection: Upgrade", b"Connection: keep-alive"),
    ],
)
async def test_a_request_that_is_no_handshake_is_told_so(data: bytes) -> None:
    assert status(data) == 426


async def test_the_host_of_an_absolute_url_overrides_the_header() -> None:
    foreign, ours = b"GET http://evil.example/ws", request(line="GET http://127.0.0.1/ws HTTP/1.1")
    assert status(ours.replace(b"GET http://127.0.0.1/ws", foreign)) == 403
    assert status(ours.replace(b"Host: 127.0.0.1", b"Host: evil.example")) == 101


@pytest.mark.parametrize("order", [1, -1])
async def test_each_of_several_origins_must_be_allowed(order: int) -> None:
    origins = ("Origin: http://localhost", "Origin: https://evil.example")
    assert status(request(origins[0], origins[0])) == 101
    assert status(request(*origins[::order])) == 403


async def test_a_path_is_named_without_its_query() -> None:
    refusal = RequestCheck("/ws", (), ()).find_refusal(parsed(request(line="GET /x?token=secret HTTP/1.1")))
    assert refusal is not None
    assert (refusal.status, refusal.text) == (404, "nothing at '/x': open a WebSocket at /ws")


async def test_tokens_are_found_in_headers_and_query_once_each() -> None:
    data = request("Authorization: Bearer a", "Authorization: Basic x", line="GET /ws?token=b&token=a HTTP/1.1")
    assert find_tokens(parsed(data)) == ("a", "b")


async def test_a_trace_context_counts_only_if_it_is_one() -> None:
    assert passed_headers(parsed(request())) == {}
    one = request("traceparent: 00-1", "tracestate: a=1", "tracestate: b=2")
    assert passed_headers(parsed(one)) == {"traceparent": "00-1", "tracestate": "a=1,b=2"}
    assert passed_headers(parsed(request("traceparent: 00-1", "traceparent: 00-2"))) == {}
    long = request("traceparent: 00-1", f"tracestate: {'a' * 8000}", f"Via: 1.1 {'c' * 8000}")
    assert passed_headers(parsed(long)) == {"traceparent": "00-1"}, "it is kept as long as the connection"


async def test_the_gateways_before_a_connection_are_passed_on_and_bounded() -> None:
    """Each gateway adds itself (RFC 9110, section 7.6.3), so a loop of gateways cannot grow without end."""
    assert passed_headers(parsed(request("Via: 1.1 dragoman", "Via: 1.1 proxy"))) == {"via": "1.1 dragoman"}
    assert status(request(f"Via: {', '.join(['1.1 dragoman'] * 15 + ['1.1 proxy'] * 9)}")) == 101
    assert status(request(f"Via: {', '.join(['1.1 dragoman'] * 16)}")) == 508
