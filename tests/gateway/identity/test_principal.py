"""The principal of links without authentication."""

from __future__ import annotations

from dragoman.gateway.identity.principal import LOCAL, Principal
from dragoman.gateway.peer import Peer
from dragoman.mappings.pod import DIALECT


def test_a_peer_without_authentication_is_local() -> None:
    assert Peer(id="l1", dialect=DIALECT).principal is LOCAL
    assert Principal(name="local") == LOCAL
