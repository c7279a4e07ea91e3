"""A wrapped transport passes on all that its wrapper does not change."""

from __future__ import annotations

import pytest

from dragoman.adapters.wrapped import WrappedTransport
from tests.memory_transport import MemoryTransport


@pytest.mark.parametrize("name", ["peer", "meter", "resume", "peer_can_read", "discard", "close"])
def test_a_method_that_the_wrapper_does_not_change_is_that_of_the_transport(name: str) -> None:
    transport = MemoryTransport()
    assert getattr(WrappedTransport(transport), name) == getattr(transport, name)


def test_a_transport_that_is_no_websocket_has_neither_headers_nor_pings() -> None:
    wrapped = WrappedTransport(MemoryTransport())
    assert (wrapped.headers, wrapped.watch_pings) == ({}, None)
