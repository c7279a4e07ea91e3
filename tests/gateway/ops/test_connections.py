"""The connections to the ops port, which strangers may open and keep."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from dragoman.gateway.ops import admin, connections
from tests.gateway.ops.running import OpsClient, operated
from tests.pairs.gateway import DEADLINE


@asynccontextmanager
async def strangers(port: OpsClient, number: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Open connections that send the beginning of a request, and nothing more."""
    place = urlsplit(port.url)
    opened = [await asyncio.open_connection(place.hostname, place.port) for _ in range(number)]
    for _, writer in opened:
        writer.write(b"GET /livez HTT")
    try:
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait for the end of a connection; it is reset if the server had not read all of it."""
    with contextlib.suppress(ConnectionResetError):
        return await reader.read() == b""
    return True


async def test_connections_without_a_request_keep_no_probe_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    async with operated() as port, strangers(port, 12) as readers:
        assert (await port.ask("/livez"))[0] == 200
        async with asyncio.timeout(DEADLINE):
            assert await is_closed(readers[0]), "the oldest was closed"


async def test_few_connections_stay_open_while_descriptors_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SHORT_MAX", 4)
    monkeypatch.setattr(connections, "descriptor_shortage", lambda: "too many open files")
    async with operated() as port, strangers(port, 12) as readers, asyncio.timeout(DEADLINE):
        for reader in readers[:8]:
            assert await is_closed(reader)
        assert (await port.ask("/livez"))[0] == 200


async def test_a_connection_without_a_whole_request_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_MAX", 0.01)
    async with operated() as port, strangers(port, 1) as readers, asyncio.timeout(DEADLINE):
        assert await is_closed(readers[0])


async def test_a_request_without_its_body_is_refused_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "BODY_DEADLINE", 0.01)
    async with operated() as port:
        place = urlsplit(port.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(b"PUT /log-level HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        async with asyncio.timeout(DEADLINE):
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()
