"""Bare lines: messages that a server streams before a result, without `jsonrpc` and `id`.

The source is docs/dialects/codewhale.md, sections 3 and 5. Since 0.9.4 only the first three occur, within a turn.
Before that, the hook mirror printed all of them. An optional member without a value is null, not absent.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.codewhale.wire.frames import EventFrame
from dragoman.mappings.codewhale.wire.values import Wire


class LineBase(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base class of the bare lines."""


class ResponseStart(LineBase, frozen=True, kw_only=True, tag="response_start"):
    """The beginning of an answer."""

    response_id: str


class ResponseDelta(LineBase, frozen=True, kw_only=True, tag="response_delta"):
    """A piece of an answer. No known server writes a `channel` here, but reasoning must never be read as text."""

    response_id: str
    delta: str
    channel: Literal["text", "reasoning"] | UnsetType = UNSET


class ResponseEnd(LineBase, frozen=True, kw_only=True, tag="response_end"):
    """The end of an answer, after success or failure."""

    response_id: str


class ToolHook(LineBase, frozen=True, kw_only=True, tag="tool_lifecycle"):
    """A report about the progress of a tool."""

    response_id: str
    tool_name: str
    phase: str
    payload: Raw


class JobHook(LineBase, frozen=True, kw_only=True, tag="job_lifecycle"):
    """A report about the progress of a job."""

    job_id: str
    phase: str
    progress: float | None
    detail: str | None


class ApprovalHook(LineBase, frozen=True, kw_only=True, tag="approval_lifecycle"):
    """A report that an approval was requested or given."""

    approval_id: str
    phase: str
    reason: str | None


class FrameHook(LineBase, frozen=True, kw_only=True, tag="generic_event_frame"):
    """An EventFrame on a line of its own."""

    frame: EventFrame


Line = ResponseStart | ResponseDelta | ResponseEnd | ToolHook | JobHook | ApprovalHook | FrameHook
