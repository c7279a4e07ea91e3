"""The principal of a client. A listener's Authenticator makes it of what the listener knows of the peer.

token:alice   a bearer token of the configuration      uid:1000   the user of a process at a Unix socket
local         anybody, at a listener without authentication
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from dragoman.adapters.base import PeerFacts

__all__ = ["LOCAL", "Authenticator", "Principal", "Refusal"]


class Principal(Struct, frozen=True, kw_only=True):
    """The user at the other end of a link. `groups` are the names by which roles may mean several users at once."""

    name: str
    groups: frozenset[str] = frozenset()


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason why a peer is not accepted, in words for the peer. It contains no secret."""

    text: str


class Authenticator(Protocol):
    """Names the peers of a listener."""

    def identify(self, facts: PeerFacts) -> Principal | Refusal:
        """Return the principal of a peer, or why it is refused."""


LOCAL = Principal(name="local")
"""The principal of every client without authentication."""
