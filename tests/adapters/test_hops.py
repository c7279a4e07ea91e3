"""The gateways that a connection has come through, counted in its headers."""

from __future__ import annotations

from dragoman.adapters.hops import count_hops, via


def test_a_gateway_adds_itself_to_those_before_it() -> None:
    assert [count_hops(headers) for headers in ({}, {"via": "1.1 proxy"}, via(0), via(15))] == [0, 0, 1, 16]
