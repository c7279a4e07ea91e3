"""Facts about sessions that outlive the router of their route: their owners, and which ones clients deleted.

A reload may give a route another router, while the sessions of the former one continue. Several routes may have one
backend. So all routers of a backend share these facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakValueDictionary

from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.routing.ids import canonical_id
from dragoman.mappings.bounded import remember

REMEMBERED_MAX = 10_000
"""Maximum number of remembered names; each session has two or three.

This many UUIDs take 1.3 MB in both tables. To add one takes 3 us (0.3 ms if its table is rebuilt).
"""


class KnownSessions:
    """The sessions of a backend that had an owner or were deleted, by the names that clients have for them."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}  # name -> owner, the oldest first
        self.deleted: dict[str, None] = {}  # names, the oldest first


class KnownBackends:
    """The KnownSessions of each backend, kept as long as a router uses them."""

    def __init__(self) -> None:
        self._sessions = WeakValueDictionary[frozenset[str], KnownSessions]()

    def sessions_of(self, upstreams: Sequence[Endpoint]) -> KnownSessions:
        """Return the KnownSessions of these upstreams.

        Routes whose upstreams share an endpoint, with any options, share it.
        """
        addresses = frozenset(f"{one.dialect}+{one.transport}:{one.address}" for one in upstreams)
        known = next((known for others, known in self._sessions.items() if others & addresses), None)
        self._sessions[addresses] = known = known or KnownSessions()
        return known


class PastSessions:
    """The KnownSessions of a backend, with the ids that one route has for the sessions."""

    def __init__(self, route: str, known: KnownSessions) -> None:
        self._route = route
        self._known = known

    def hide(self, names: Iterable[str]) -> None:
        """Hide the sessions with these names from all clients: a client deleted them, but the backend has them."""
        for name in names:
            remember(self._known.deleted, name, None, REMEMBERED_MAX)

    def is_hidden(self, name: str) -> bool:
        return any(one in self._known.deleted for one in self._forms(name))

    def note_owner(self, names: Iterable[str], owner: str) -> None:
        """Remember the owner of a session under all its names, or that it has none."""
        for name in names:
            if owner:
                remember(self._known.owners, name, owner, REMEMBERED_MAX)
            else:
                self._known.owners.pop(name, None)

    def owner_of(self, id: str) -> str:
        return self._known.owners.get(id, "")

    def has_other_owner(self, name: str, principal: str) -> bool:
        return any(self._known.owners.get(one, "") not in ("", principal) for one in self._forms(name))

    def _forms(self, name: str) -> tuple[str, str]:
        """Return a name as the client has it, and as the id of a session of this route."""
        return name, canonical_id(self._route, name)
