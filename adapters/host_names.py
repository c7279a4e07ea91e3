"""Names of hosts: the one under which a client reaches an HTTP server, and the address in the name of a peer.

A web page may reach 127.0.0.1 by a name of its own (DNS rebinding). No foreign page can choose an IP address or
`localhost`, so these two are allowed everywhere.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit


def host_name(header: str) -> str:
    """Return the name in a Host header, without its port; the header itself if it is malformed."""
    try:
        return (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return header


def is_host_name(text: str) -> bool:
    """Return True if a text is only a name that a Host header can have, without a scheme, a port or a path."""
    return bool(text) and host_name(text) == text.lower()


def is_address(name: str) -> bool:
    """Return True for an IP address and for `localhost`."""
    try:
        ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


def is_loopback(name: str) -> bool:
    """Return True for a loopback address and for `localhost`, which only this machine can reach."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def address_of(peer: str) -> str:
    """Return the address in the name of a transport's peer: a host, the network of an IPv6 host, or a user."""
    if peer.startswith("["):
        host = peer[1:].partition("]")[0]
        return str(IPv6Address(int(IPv6Address(host)) >> 64 << 64))  # one host may have all addresses of a /64
    host, _, port = peer.rpartition(":")
    if port.isdecimal():
        return host
    return peer.split(" ")[0]  # `uid=1000 pid=123`
