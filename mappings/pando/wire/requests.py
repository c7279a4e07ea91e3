"""Requests of a client (docs/dialects/pando.md, sections 5 to 7).

`db.write` has one struct for each method that has a canonical command, and one for all other methods.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.mappings.pando.wire.values import ZERO, Int64, Wire
from dragoman.mappings.reflection import union_of

EMPTY = Raw(b"{}")
"""The params of requests whose params are ignored: real clients send `{}` or null."""


class RequestBase(Wire, frozen=True, kw_only=True):
    """Base class of the requests; `jsonrpc` is not checked."""

    jsonrpc: str = "2.0"
    id: str = ""
    method: str


class OfSession(Wire, frozen=True, kw_only=True):
    """Params of the methods about one session."""

    session_id: str = ""


class InstancePing(RequestBase, frozen=True, kw_only=True):
    """Check that the instance is alive."""

    method: Literal["instance.ping"] = "instance.ping"
    params: Raw = EMPTY


class InstanceInfo(RequestBase, frozen=True, kw_only=True):
    """Request facts about the instance; no version of pando has a handler for it."""

    method: Literal["instance.info"] = "instance.info"
    params: Raw = EMPTY


class SessionList(RequestBase, frozen=True, kw_only=True):
    """List the sessions."""

    method: Literal["session.list"] = "session.list"
    params: Raw = EMPTY


class SessionGet(RequestBase, frozen=True, kw_only=True):
    """Describe one session."""

    method: Literal["session.get"] = "session.get"
    params: OfSession | None


class SessionActivate(RequestBase, frozen=True, kw_only=True):
    """Bring one session to the front."""

    method: Literal["session.activate"] = "session.activate"
    params: OfSession | None


class MessageList(RequestBase, frozen=True, kw_only=True):
    """List the messages of a session."""

    method: Literal["message.list"] = "message.list"
    params: OfSession | None


class MessageSend(RequestBase, frozen=True, kw_only=True):
    """Send the user's input."""

    method: Literal["message.send"] = "message.send"

    class Params(Wire, frozen=True, kw_only=True):
        session_id: str = ""
        content: str = ""

    params: Params | None


class SessionInterrupt(RequestBase, frozen=True, kw_only=True):
    """Stop the run of a session."""

    method: Literal["session.interrupt"] = "session.interrupt"
    params: OfSession | None


class StateSync(RequestBase, frozen=True, kw_only=True):
    """Request the whole state at once; no version of pando has a handler for it."""

    method: Literal["state.sync"] = "state.sync"

    class Params(Wire, frozen=True, kw_only=True):
        project_id: str | UnsetType = UNSET

    params: Params | None = Params()


# -- db.write ---------------------------------------------------------------------------------------


class Text(Wire, frozen=True, kw_only=True, rename={"string": "String", "valid": "Valid"}):
    """A text column of the store: its value, and whether it is not null."""

    string: str = ""
    valid: bool = False


class Meta(Wire, frozen=True, kw_only=True):
    """The origin of a `db.write`; only clients of the HEAD generation send it."""

    source_instance_id: str = ""
    request_id: str = ""
    timestamp: str = ZERO


class NewSession(Wire, frozen=True, kw_only=True):
    """Params of CreateSession."""

    id: str = ""
    parent_session_id: Text = Text()
    title: str = ""
    message_count: Int64 = 0
    prompt_tokens: Int64 = 0
    completion_tokens: Int64 = 0
    cost: float = 0


class SessionChange(Wire, frozen=True, kw_only=True):
    """Params of UpdateSession."""

    title: str = ""
    prompt_tokens: Int64 = 0
    completion_tokens: Int64 = 0
    summary_message_id: Text = Text()
    cost: float = 0
    id: str = ""


class WriteBase(Wire, frozen=True, kw_only=True):
    """Base of the params of `db.write`."""

    meta: Meta | UnsetType = UNSET
    method: str = ""


class StoredMessage(Struct, frozen=True):
    """The params of a `db.write`: a message of any size, to store."""

    method: Literal["db.write"]
    params: Raw = Raw(b"")


class CreateSession(RequestBase, frozen=True, kw_only=True):
    """Create a session by `db.write`."""

    method: Literal["db.write"] = "db.write"

    class Params(WriteBase, frozen=True, kw_only=True):
        method: Literal["CreateSession"] = "CreateSession"
        params: NewSession

    params: Params


class UpdateSession(RequestBase, frozen=True, kw_only=True):
    """Change the title and counters of a session by `db.write`."""

    method: Literal["db.write"] = "db.write"

    class Params(WriteBase, frozen=True, kw_only=True):
        method: Literal["UpdateSession"] = "UpdateSession"
        params: SessionChange

    params: Params


class DeleteSession(RequestBase, frozen=True, kw_only=True):
    """Delete a session by `db.write`; the inner params are its id."""

    method: Literal["db.write"] = "db.write"

    class Params(WriteBase, frozen=True, kw_only=True):
        method: Literal["DeleteSession"] = "DeleteSession"
        params: str

    params: Params


class Write(RequestBase, frozen=True, kw_only=True):
    """Write anything else by `db.write`."""

    method: Literal["db.write"] = "db.write"

    class Params(WriteBase, frozen=True, kw_only=True):
        params: Raw | UnsetType = UNSET

    params: Params


Request = union_of(RequestBase)
"""The union of all requests."""
