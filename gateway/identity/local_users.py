"""Users of this machine, whom the kernel names (SO_PEERCRED). A process cannot choose what it is named."""

from __future__ import annotations

from collections.abc import Collection

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.identity.principal import Principal, Refusal


class LocalUsers:
    """The users and groups that may connect; without any, everybody who can open the socket may.

    A process has one group here: the effective group of the process that connected, and no supplementary one.
    """

    def __init__(self, uids: Collection[int] = (), gids: Collection[int] = ()) -> None:
        self._uids = frozenset(uids)
        self._gids = frozenset(gids)

    def identify(self, facts: PeerFacts) -> Principal | Refusal:
        if facts.uid is None:
            return Refusal(text="this system does not tell which user connects to a Unix socket")
        if (self._uids or self._gids) and facts.uid not in self._uids and facts.gid not in self._gids:
            return Refusal(text="your user may not use this socket")
        return Principal(name=f"uid:{facts.uid}", groups=frozenset({f"gid:{facts.gid}"}))
