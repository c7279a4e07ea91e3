"""Sockets at all addresses of a host: one port, and no address of another machine."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import pytest

from dragoman.adapters.binding import bind_host

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
