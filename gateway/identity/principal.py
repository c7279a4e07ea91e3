"""The principal of a client. The authenticator of a listener makes it of what the listener knows of the peer.

token:alice   a bearer token of the configuration      uid:1000   the user of a process at a Unix socket
jwt:alice     the subject of a JSON Web Token          cert:CN=alice   the subject of a client certificate
local         anybody, at a listener without authentication
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from dragoman.adapters.base import PeerFacts


class Principal(Struct, frozen=True, kw_only=True):
    """The user at the other end of a link. `groups` are the names by which roles may mean several users at once."""

    name: str
    groups: frozenset[str] = frozenset()
    expires: float | None = None
    """Seconds since 1970 at which the credential ends, and with it the link."""
    token: str = ""
    """The bearer token that the client presented, if its route passes it on. It is a secret: it is never logged."""
    credential: bytes = b""
    """The digest of what names this client: a token of the configuration, or the [auth.jwt] that checked its token.

    It is empty if something else names the client.
    """

    def __repr__(self) -> str:
        return f"Principal({self.name!r})"


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason why a peer is not accepted, in words for the peer. It contains no secret.

    `refresh` may find what is missing; if it returns True, the peer is to be identified again.
    """

    text: str
    refresh: Callable[[], Awaitable[bool]] | None = None


Authenticator = Callable[[PeerFacts], Principal | Refusal]
"""Returns the principal of a peer of a listener, or why the peer is refused."""


LOCAL = Principal(name="local")
"""The principal of every client without authentication."""
