"""Messages that a pando publishes: an envelope with the payload of its topic.

The source is docs/dialects/pando.md, sections 2 and 4.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.pando.wire.values import ZERO, Int64, Wire
from dragoman.mappings.reflection import union_of


class Session(Wire, frozen=True, kw_only=True):
    """The description of a session in lists and events."""

    id: str = ""
    title: str = ""
    updated_at: str = ZERO
    message_count: Int64 = 0


# -- envelopes --------------------------------------------------------------------------------------


class Envelope(Wire, frozen=True, kw_only=True, rename="camel"):
    """Base of the published messages. `timestamp` is in UTC."""

    instance_id: str = ""
    project_id: str = ""
    session_id: str | UnsetType = UNSET
    topic: str
    timestamp: str = ZERO


class SessionList(Envelope, frozen=True, kw_only=True):
    """The list of all sessions."""

    topic: Literal["session.list"] = "session.list"

    class Payload(Wire, frozen=True, kw_only=True):
        sessions: list[Session] | None = None

    payload: Payload = Payload()


class SessionUpdate(Envelope, frozen=True, kw_only=True):
    """A session was created or saved, or its run ended."""

    topic: Literal["session.update"] = "session.update"
    payload: Session = Session()


class SessionActivated(Envelope, frozen=True, kw_only=True):
    """A client brought a session to the front."""

    topic: Literal["session.activated"] = "session.activated"
    payload: Session = Session()


class SessionDeleted(Envelope, frozen=True, kw_only=True):
    """A session was deleted; the payload has its last values."""

    topic: Literal["session.deleted"] = "session.deleted"
    payload: Session = Session()


class MessageAppend(Envelope, frozen=True, kw_only=True):
    """A new message of a session."""

    topic: Literal["message.append"] = "message.append"

    class Payload(Wire, frozen=True, kw_only=True):
        session_id: str = ""
        message_id: str = ""
        role: str = ""
        content: str = ""

    payload: Payload = Payload()


class LlmStart(Envelope, frozen=True, kw_only=True):
    """A run began."""

    topic: Literal["llm.start"] = "llm.start"

    class Payload(Wire, frozen=True, kw_only=True):
        session_id: str = ""

    payload: Payload = Payload()


class LlmToken(Envelope, frozen=True, kw_only=True):
    """A piece of the answer."""

    topic: Literal["llm.token"] = "llm.token"  # the name of a topic

    class Payload(Wire, frozen=True, kw_only=True):
        session_id: str = ""
        token: str = ""

    payload: Payload = Payload()


class LlmEnd(Envelope, frozen=True, kw_only=True):
    """A run ended successfully."""

    topic: Literal["llm.end"] = "llm.end"

    class Payload(Wire, frozen=True, kw_only=True):
        session_id: str = ""
        tokens_in: Int64 = 0
        tokens_out: Int64 = 0

    payload: Payload = Payload()


class ToolStart(Envelope, frozen=True, kw_only=True):
    """A tool call began, or its input is complete: `params` is JSON text."""

    topic: Literal["tool.start"] = "tool.start"

    class Payload(Wire, frozen=True, kw_only=True):
        session_id: str = ""
        tool_name: str = ""
        call_id: str = ""
        params: str = ""

    payload: Payload = Payload()


class ToolEnd(Envelope, frozen=True, kw_only=True):
    """The result of a tool call."""

    topic: Literal["tool.end"] = "tool.end"

    class Payload(Wire, frozen=True, kw_only=True):
        session_id: str = ""
        tool_name: str = ""
        call_id: str = ""
        is_error: bool = False
        result: str = ""

    payload: Payload = Payload()


class InstanceHeartbeat(Envelope, frozen=True, kw_only=True):
    """A periodic sign that the instance is alive."""

    topic: Literal["instance.heartbeat"] = "instance.heartbeat"

    class Payload(Wire, frozen=True, kw_only=True):
        instance_id: str = ""
        active_session_id: str | UnsetType = UNSET
        session_count: Int64 = 0
        uptime: str = ""
        started_at: str = ZERO

    payload: Payload = Payload()


class InstanceShutdown(Envelope, frozen=True, kw_only=True):
    """The instance shuts down."""

    topic: Literal["instance.shutdown"] = "instance.shutdown"

    class Payload(Wire, frozen=True, kw_only=True):
        instance_id: str = ""
        reason: str | UnsetType = UNSET

    payload: Payload = Payload()


ChangeTopic = Literal[
    "db.session.created",
    "db.session.updated",
    "db.session.deleted",
    "db.message.created",
    "db.message.updated",
    "db.message.deleted",
    "db.file.created",
    "db.file.deleted",
    "db.project.created",
    "db.project.updated",
    "db.project.deleted",
    "db.skill.created",
    "db.skill.updated",
]


class StoreChange(Envelope, frozen=True, kw_only=True):
    """A successful write into the store; the member `payload` of its payload names the write method."""

    topic: ChangeTopic

    class Payload(Wire, frozen=True, kw_only=True):
        instance_id: str = ""
        path: str = ""
        topic: str = ""
        payload: Raw = Raw(b"null")
        timestamp: str = ZERO

    payload: Payload = Payload()


Topic = union_of(Envelope)
"""The union of all published messages."""
