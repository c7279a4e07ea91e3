"""The memory of a route for sessions that are not open any more: their owners, and which ones clients deleted."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.gateway.routing.ids import canonical_id
from dragoman.mappings.bounded import remember

REMEMBERED_MAX = 10_000
"""Names that are remembered, of which each session has two or three.

So many UUIDs take 1.3 MB in both tables, and a further one 3 us (0.3 ms if its table is made anew).
"""


class PastSessions:
    """The sessions of a route that were forgotten or deleted, by the names that clients have for them."""

    def __init__(self, route: str) -> None:
        self._route = route
        self._owners: dict[str, str] = {}  # name -> owner, the oldest first
        self._deleted: dict[str, None] = {}  # names, the oldest first

    def hide(self, names: Iterable[str]) -> None:
        """Hide the sessions of these names from all clients: a client deleted them, and their backend keeps them."""
        for name in names:
            remember(self._deleted, name, None, REMEMBERED_MAX)

    def is_hidden(self, name: str) -> bool:
        """Return True if a client deleted the session of this name."""
        return any(one in self._deleted for one in self._forms(name))

    def remember_owner(self, names: Iterable[str], owner: str) -> None:
        """Remember the owner of a session that is forgotten, under all its names."""
        for name in names:
            remember(self._owners, name, owner, REMEMBERED_MAX)

    def owner_of(self, id: str) -> str:
        """Return the owner of the forgotten session with this id, "" if none is known."""
        return self._owners.get(id, "")

    def has_other_owner(self, name: str, principal: str) -> bool:
        """Return True if the session of this name was forgotten, and belongs to another principal."""
        return any(self._owners.get(one, "") not in ("", principal) for one in self._forms(name))

    def _forms(self, name: str) -> tuple[str, str]:
        """Return a name as the client has it, and as the id of a session of this route."""
        return name, canonical_id(self._route, name)
