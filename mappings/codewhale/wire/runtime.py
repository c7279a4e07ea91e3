"""The runtime API, which a codewhale's own bridge reads over HTTP (docs/dialects/codewhale.md, section 9): types
only.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.codewhale.wire.base import Wire

__all__ = ["ApprovalPost", "RuntimeEvent"]


class RuntimeEvent(Wire, frozen=True, kw_only=True):
    """The data of one server-sent event; ids that are not known are null, never absent."""

    schema_version: int
    seq: int
    event: str
    kind: str
    thread_id: str
    turn_id: str | None
    item_id: str | None
    timestamp: str
    created_at: str | UnsetType = UNSET
    payload: Raw
    previous_seq: int | UnsetType = UNSET


class ApprovalPost(Wire, frozen=True, kw_only=True):
    """Body of a decision about an approval."""

    decision: Literal["allow", "deny"]
    remember: bool = False
