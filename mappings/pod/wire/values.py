"""Parts of pod methods and events (docs/dialects/pod.md, sections 4 to 6).

The tag is in `kind`. Integers have the limits of real peers' parsers. A field that a pod omits when it has no value has
the default UNSET: null is accepted, but never written. Fields with any other default are always written.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from dragoman.mappings.canonical.values import snake_case

U64_MAX = (1 << 64) - 1

U16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
U32 = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
U64 = Annotated[int, Meta(ge=0)]
"""An unsigned 64-bit integer: only in structs that inherit from Counts."""
I64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

CompletionKind = Literal["file", "knowledge", "workflow"]


class Wire(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base class of everything on a pod's wire."""


class Counts(Wire, frozen=True, kw_only=True):
    """Base class of contents with unsigned 64-bit integers: msgspec cannot check their upper bound."""

    def __post_init__(self) -> None:
        for value in structs.astuple(self):
            if isinstance(value, int) and value > U64_MAX:
                raise ValueError("integer out of the u64 range")  # msgspec turns it into a ValidationError


# -- segments ---------------------------------------------------------------------------------------


class SegmentBase(Wire, frozen=True, kw_only=True, tag_field="kind", tag=snake_case):
    """Base class of the segments of a user's input."""


class Text(SegmentBase, frozen=True, kw_only=True):
    """Typed text."""

    content: str


class Paste(SegmentBase, frozen=True, kw_only=True):
    """Pasted text with the client's own counts."""

    id: U32
    chars: U32
    lines: U32
    content: str


class FileRef(SegmentBase, frozen=True, kw_only=True):
    """A file that the pod resolves."""

    path: str


class KnowledgeRef(SegmentBase, frozen=True, kw_only=True):
    """A knowledge entry."""

    slug: str


class WorkflowInvoke(SegmentBase, frozen=True, kw_only=True):
    """A workflow."""

    slug: str


class Unknown(SegmentBase, frozen=True, kw_only=True):
    """A segment of any other kind, without its fields."""


Segment = Text | Paste | FileRef | KnowledgeRef | WorkflowInvoke | Unknown


# -- reports of a child pod (`pod_event`) -----------------------------------------------------------


class ScopeRule(Wire, frozen=True, kw_only=True):
    """A path that a pod may read or write."""

    target: str
    permission: Literal["read", "write"]
    recursive: bool = True


class ReportBase(Wire, frozen=True, kw_only=True, tag_field="kind", tag=snake_case):
    """Base class of the reports of a child pod; a closed set."""


class TurnEnded(ReportBase, frozen=True, kw_only=True):
    """A child finished a run."""

    pod_name: str


class Errored(ReportBase, frozen=True, kw_only=True):
    """A child's run failed."""

    pod_name: str
    message: str


class ShutDown(ReportBase, frozen=True, kw_only=True):
    """A child has shut down."""

    pod_name: str


class ScopeSubDelegated(ReportBase, frozen=True, kw_only=True):
    """A child gave a part of its scope to a child of its own."""

    parent_pod: str
    sub_pod: str
    sub_socket: str
    scope: list[ScopeRule]


ChildReport = TurnEnded | Errored | ShutDown | ScopeSubDelegated
