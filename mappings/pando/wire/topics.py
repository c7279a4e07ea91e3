"""Messages that a pando publishes: an envelope with the payload of its topic.

The source is docs/dialects/pando.md, sections 2 and 4.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.pando.wire.values import ZERO, Wire
from dragoman.mappings.reflection import union_of


class Session(Wire, frozen=True, kw_only=True):
    """The description of a session in lists and events."""

    id: str = ""
    title: str = ""
    updated_at: str = ZERO
    message_count: int = 0


class Sessions(Wire, frozen=True, kw_only=True):
    """Payload of `session.list`."""

    sessions: list[Session] | None = None


class Said(Wire, frozen=True, kw_only=True):
    """Payload of `message.append`."""

    session_id: str = ""
    message_id: str = ""
    role: str = ""
    content: str = ""


class Started(Wire, frozen=True, kw_only=True):
    """Payload of `llm.start`."""

    session_id: str = ""


class Delta(Wire, frozen=True, kw_only=True):
    """Payload of `llm.token`."""

    session_id: str = ""
    token: str = ""


class Ended(Wire, frozen=True, kw_only=True):
    """Payload of `llm.end`."""

    session_id: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


class Call(Wire, frozen=True, kw_only=True):
    """Payload of `tool.start`; `params` is JSON text."""

    session_id: str = ""
    tool_name: str = ""
    call_id: str = ""
    params: str = ""


class Result(Wire, frozen=True, kw_only=True):
    """Payload of `tool.end`."""

    session_id: str = ""
    tool_name: str = ""
    call_id: str = ""
    is_error: bool = False
    result: str = ""


class Pulse(Wire, frozen=True, kw_only=True):
    """Payload of `instance.heartbeat`."""

    instance_id: str = ""
    active_session_id: str | UnsetType = UNSET
    session_count: int = 0
    uptime: str = ""
    started_at: str = ZERO


class Shutdown(Wire, frozen=True, kw_only=True):
    """Payload of `instance.shutdown`."""

    instance_id: str = ""
    reason: str | UnsetType = UNSET


class Changed(Wire, frozen=True, kw_only=True):
    """Payload of the `db.*` topics; its member `payload` names the write method."""

    instance_id: str = ""
    path: str = ""
    topic: str = ""
    payload: Raw = Raw(b"null")
    timestamp: str = ZERO


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
    payload: Sessions = Sessions()


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
    payload: Said = Said()


class LlmStart(Envelope, frozen=True, kw_only=True):
    """A run began."""

    topic: Literal["llm.start"] = "llm.start"
    payload: Started = Started()


class LlmToken(Envelope, frozen=True, kw_only=True):
    """A piece of the answer."""

    topic: Literal["llm.token"] = "llm.token"  # the name of a topic
    payload: Delta = Delta()


class LlmEnd(Envelope, frozen=True, kw_only=True):
    """A run ended successfully."""

    topic: Literal["llm.end"] = "llm.end"
    payload: Ended = Ended()


class ToolStart(Envelope, frozen=True, kw_only=True):
    """A tool call began, or its input is complete."""

    topic: Literal["tool.start"] = "tool.start"
    payload: Call = Call()


class ToolEnd(Envelope, frozen=True, kw_only=True):
    """The result of a tool call."""

    topic: Literal["tool.end"] = "tool.end"
    payload: Result = Result()


class InstanceHeartbeat(Envelope, frozen=True, kw_only=True):
    """A periodic sign that the instance is alive."""

    topic: Literal["instance.heartbeat"] = "instance.heartbeat"
    payload: Pulse = Pulse()


class InstanceShutdown(Envelope, frozen=True, kw_only=True):
    """The instance shuts down."""

    topic: Literal["instance.shutdown"] = "instance.shutdown"
    payload: Shutdown = Shutdown()


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
    """A successful write into the store."""

    topic: ChangeTopic
    payload: Changed = Changed()


Topic = union_of(Envelope)
"""The union of all published messages."""
