"""The ops port of a serving command while its options change."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from msgspec import structs

from dragoman.gateway.app import App
from dragoman.gateway.cli.running import OpsPort
from dragoman.gateway.config.model import Config, Ops, Route
from dragoman.gateway.endpoint import parse

TOKEN, OTHER = "a-token-of-the-ops-port", "another-token-of-the-port"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ops_at(port: int, token: str = TOKEN) -> Ops:
    return Ops(listen=f"http://127.0.0.1:{port}", tokens=(token,))


@asynccontextmanager
async def served(ops: Ops | None) -> AsyncIterator[OpsPort]:
    route = Route(name="test", listen=(), upstream=parse("pod+unix:/nowhere/sock"))
    async with OpsPort(App(Config(routes=(route,), ops=ops))) as port:
        yield port


async def status(port: int, token: str = TOKEN) -> int:
    """Return the status of a request; raise ClientConnectionError if nothing listens."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.request("GET", f"http://127.0.0.1:{port}/openapi.json", headers=headers) as answer:
        return answer.status


async def test_a_port_at_the_same_address_gets_new_tokens_and_keeps_its_socket() -> None:
    port = free_port()
    async with served(ops_at(port)) as ops_port:
        before = ops_port._server
        async with ops_port.replaced(ops_at(port, OTHER)):
            assert await status(port) == 200, "until the reload has succeeded"
        assert (await status(port), await status(port, OTHER)) == (401, 200)
        assert ops_port._server is before


async def test_a_port_moves_to_another_address() -> None:
    first, second = free_port(), free_port()
    async with served(ops_at(first)) as ops_port:
        async with ops_port.replaced(ops_at(second)):
            assert (await status(first), await status(second)) == (200, 200)
        assert await status(second) == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            await status(first)


async def test_a_port_is_opened_and_closed_by_a_reload() -> None:
    port = free_port()
    async with served(None) as ops_port:
        async with ops_port.replaced(ops_at(port)):
            pass
        assert await status(port) == 200
        async with ops_port.replaced(None):
            pass
        with pytest.raises(aiohttp.ClientConnectionError):
            await status(port)


async def test_a_reload_that_fails_leaves_the_port_as_it_was() -> None:
    first, second = free_port(), free_port()
    async with served(ops_at(first)) as ops_port:
        for wanted in (ops_at(second), ops_at(first, OTHER)):
            with pytest.raises(OSError, match="in use"):
                async with ops_port.replaced(wanted):
                    raise OSError(98, "in use")
        assert await status(first) == 200
        with pytest.raises(aiohttp.ClientConnectionError):
            await status(second)


async def test_a_reload_opens_a_socket_again_whose_file_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "ops.sock"
    ops = Ops(listen=f"unix:{path}")
    async with served(ops) as ops_port:
        path.unlink()
        async with ops_port.replaced(ops):
            pass
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as http,
            http.get("http://localhost/openapi.json") as answer,
        ):
            assert answer.status == 200
    assert not path.exists()


async def test_a_port_that_is_taken_refuses_the_reload() -> None:
    first = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = structs.replace(ops_at(first), listen=f"http://127.0.0.1:{taken.getsockname()[1]}")
        async with served(ops_at(first)) as ops_port:
            with pytest.raises(OSError, match="the ops port"):
                async with ops_port.replaced(wanted):
                    raise AssertionError("the block has begun")
            assert await status(first) == 200
