"""Listeners: bound at all addresses of a host, and closed after the connections that they have accepted."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import cast

import pytest

from dragoman.adapters.listening import bind_host, close_server

ELSEWHERE = "203.0.113.7"  # RFC 5737: no machine has it


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the system find these addresses for each name."""

    def find(*addresses: str) -> None:
        answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
        monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: answers)

    return find


def test_a_host_is_bound_at_one_port_at_each_of_its_addresses_that_this_machine_has(found: Callable[..., None]) -> None:
    found(ELSEWHERE, "127.0.0.1", "127.0.0.2", "127.0.0.1")
    bound = bind_host("name", 0)
    places = [one.getsockname() for one in bound]
    for one in bound:
        one.close()
    assert [host for host, _ in places] == ["127.0.0.1", "127.0.0.2"]
    assert len({port for _, port in places}) == 1


def test_a_host_of_another_machine_is_an_error(found: Callable[..., None]) -> None:
    found(ELSEWHERE)
    with pytest.raises(OSError, match="assign requested address") as raised:
        bind_host("name", 0)
    assert raised.value.errno == errno.EADDRNOTAVAIL


def test_no_address_stays_bound_if_the_port_is_in_use_at_another(found: Callable[..., None]) -> None:
    found("127.0.0.1", "127.0.0.2")
    with socket.create_server(("127.0.0.2", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            bind_host("name", port)
        socket.create_server(("127.0.0.1", port)).close()


def test_a_name_that_cannot_be_one_is_an_error() -> None:
    with pytest.raises(OSError, match="is not a valid host name"):
        bind_host("a..b", 0)


# -- the end of a listener ---------------------------------------------------------------------------


class Arrival(asyncio.Protocol):
    """A connection that was accepted."""

    def __init__(self, arrivals: list[asyncio.Transport]) -> None:
        self.arrivals = arrivals

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.arrivals.append(cast(asyncio.Transport, transport))  # uvloop's is one without inheriting from it


async def test_a_connection_being_accepted_when_a_server_closes_is_served_and_later_ones_are_not() -> None:
    arrivals: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(lambda: Arrival(arrivals), "127.0.0.1", 0)
    where = server.sockets[0].getsockname()
    peers = [socket.create_connection(where) for _ in range(3)]
    await close_server(server)
    assert len(arrivals) == len(peers)
    with socket.socket() as late:
        assert late.connect_ex(where) != 0
    for arrival, peer in zip(arrivals, peers, strict=True):
        arrival.close()
        peer.close()
    await asyncio.sleep(0)
