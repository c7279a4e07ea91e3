"""The gateways that a connection has come through, as the header `Via` of its handshake names them.

A gateway adds itself to those of the client for which it connects to a backend (RFC 9110, section 7.6.3). So two
gateways that are each other's backends find out after GATEWAYS_MAX connections that they are a loop. Other proxies in
the header do not count.
"""

from __future__ import annotations

from collections.abc import Mapping

GATEWAY = "1.1 dragoman"
GATEWAYS_MAX = 16
"""Maximum number of gateways that a connection may have come through, far more than a real chain has."""


def count_hops(headers: Mapping[str, str]) -> int:
    """Return the number of gateways that the header `Via` of a handshake names."""
    return headers.get("via", "").count(GATEWAY)


def via(hops: int) -> dict[str, str]:
    """Return the header `Via` for a connection that came through `hops` gateways before this one."""
    return {"via": ", ".join([GATEWAY] * (hops + 1))}
