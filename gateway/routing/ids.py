"""Compute the ids of sessions from names, so that every client sees the same ids, also after a restart
(docs/translation.md, rule 3.1).
"""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID

from dragoman.mappings.named_uuid import named_uuid


def session_id(route: str, endpoint: str) -> str:
    """Return the id of the one session behind `endpoint`, or of another thing that has a name in a route."""
    return named_uuid(NAMESPACE_URL, f"dragoman:{route}:{endpoint}")


def canonical_id(route: str, name: str) -> str:
    """Return the canonical id of a backend's `name`: a UUID is taken as it is, bare or after `thread-`."""
    try:
        return str(UUID(name.removeprefix("thread-")))
    except ValueError:
        return session_id(route, name)


def agent_id(route: str) -> str:
    """Return the agent of a route's sessions, used if its upstream names none (docs/design.md, section 5)."""
    return named_uuid(NAMESPACE_URL, f"dragoman:{route}")
