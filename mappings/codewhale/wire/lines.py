"""Bare lines: what is streamed before a result, without `jsonrpc` and `id`
(docs/dialects/codewhale.md, sections 3 and 5).

Since 0.9.4 only the first three, of a turn; before, the hook mirror printed all of them. Options are null, not absent.
"""

from __future__ import annotations

from msgspec import Raw

from dragoman.mappings.codewhale.wire.frames import EventFrame
from dragoman.mappings.codewhale.wire.values import Wire


class LineBase(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base of the bare lines."""


class ResponseStart(LineBase, frozen=True, kw_only=True, tag="response_start"):
    """An answer begins."""

    response_id: str


class ResponseDelta(LineBase, frozen=True, kw_only=True, tag="response_delta"):
    """More of its text."""

    response_id: str
    delta: str


class ResponseEnd(LineBase, frozen=True, kw_only=True, tag="response_end"):
    """It is over, well or not."""

    response_id: str


class ToolHook(LineBase, frozen=True, kw_only=True, tag="tool_lifecycle"):
    """A tool is at work."""

    response_id: str
    tool_name: str
    phase: str
    payload: Raw


class JobHook(LineBase, frozen=True, kw_only=True, tag="job_lifecycle"):
    """A job is at work."""

    job_id: str
    phase: str
    progress: float | None
    detail: str | None


class ApprovalHook(LineBase, frozen=True, kw_only=True, tag="approval_lifecycle"):
    """An approval is asked for or given."""

    approval_id: str
    phase: str
    reason: str | None


class FrameHook(LineBase, frozen=True, kw_only=True, tag="generic_event_frame"):
    """An EventFrame."""

    frame: EventFrame


Line = ResponseStart | ResponseDelta | ResponseEnd | ToolHook | JobHook | ApprovalHook | FrameHook
