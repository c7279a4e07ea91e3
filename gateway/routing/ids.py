"""Compute the ids of sessions from names, so that every client sees the same ids, also after a restart
(docs/translation.md, rule 3.1).
"""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID

from dragoman.mappings.named_uuid import named_uuid


def session_id(route: str, endpoint: str) -> str:
    """Return an id derived from a route and a name: that of the only session at `endpoint`, or of a pod."""
    return named_uuid(NAMESPACE_URL, f"dragoman:{route}:{endpoint}")


def canonical_id(route: str, name: str) -> str:
    """Return the canonical id for a backend's session `name`: its UUID, bare or after `thread-`, else a derived one."""
    try:
        return str(UUID(name.removeprefix("thread-")))
    except ValueError:
        return session_id(route, name)


def agent_id(route: str) -> str:
    """Return the agent id of a route's sessions, used if its upstream names no agent (docs/design.md, section 5)."""
    return named_uuid(NAMESPACE_URL, f"dragoman:{route}")
