"""Replies of a pando, and their results (docs/dialects/pando.md, sections 5 to 7)."""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.pando.wire.requests import Text
from dragoman.mappings.pando.wire.topics import Session
from dragoman.mappings.pando.wire.values import ZERO, Wire


class Problem(Wire, frozen=True, kw_only=True):
    """The error of a reply."""

    code: int = 0
    message: str = ""


class Reply(Wire, frozen=True, kw_only=True):
    """The answer to the request `id`; a success without a value has neither result nor error."""

    jsonrpc: str = "2.0"
    id: str = ""
    result: Raw | UnsetType = UNSET
    error: Problem | UnsetType | None = UNSET


class Status(Wire, frozen=True, kw_only=True):
    """Result of `instance.ping`."""

    status: str = "ok"
    instance_id: str = ""
    uptime: str = ""


class Done(Wire, frozen=True, kw_only=True):
    """Result of a request that was accepted or executed."""

    ok: bool = True


class Message(Wire, frozen=True, kw_only=True):
    """A member of the result of `message.list`."""

    id: str = ""
    role: str = ""
    content: str = ""
    created_at: str = ZERO


class State(Wire, frozen=True, kw_only=True):
    """Result of `state.sync`."""

    sessions: list[Session] | None = None
    active_session_id: str | UnsetType = UNSET
    instance_id: str = ""


class SessionRow(Wire, frozen=True, kw_only=True):
    """A session as it is stored; times are Unix seconds."""

    id: str
    parent_session_id: Text = Text()
    title: str = ""
    message_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0
    updated_at: int = 0
    created_at: int = 0
    summary_message_id: Text = Text()
