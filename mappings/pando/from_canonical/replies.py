"""Descriptions of sessions for pando clients: rows, lists and histories (docs/translation.md, rule 3.1)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from dragoman.mappings.canonical import SessionState, commands, events
from dragoman.mappings.canonical.values import Ext, Message, SessionSummary
from dragoman.mappings.dialect import Instance
from dragoman.mappings.pando.vocabulary import given
from dragoman.mappings.pando.wire import replies as wire
from dragoman.mappings.pando.wire import requests
from dragoman.mappings.pando.wire.topics import Session
from dragoman.mappings.pando.wire.values import duration, rfc3339
from dragoman.mappings.rfc3339 import NS


def public_ids(session_id: str, ids: Ext | None = None) -> tuple[str, ...]:
    """Return the id by which clients know a session: the backend's, else one that a client chose, else ours."""
    return ((ids and given(ids, "id", str, "")) or session_id,)


def row(summary: SessionSummary) -> Session:
    """Return a row of a list as pando's description of a session."""
    return Session(
        id=public_ids(summary.session, summary.ext)[0],
        title=summary.title,
        updated_at=given(summary.ext, "updated_at", str, rfc3339(summary.updated_at)),
        message_count=summary.messages,
    )


def described(state: SessionState) -> Session:
    """Return pando's description of a session from its state."""
    messages = state.messages()
    # The primary's count includes messages that contain only tool calls.
    known = state.listed.messages if state.listed is not None else 0
    return Session(
        id=public_ids(state.id, state.ids)[0],
        title=state.title or next((message.text for message in messages if message.role == "user"), ""),
        updated_at=rfc3339(state.updated_at or state.opened_at),
        message_count=max(len(messages), known),
    )


def opened(event: events.SessionOpened, asked: object, at: int) -> Any:
    """Return the result for a request that opened a session; its form depends on the request `asked`."""
    if isinstance(asked, commands.ResumeSession):
        return wire.Done()
    if isinstance(asked, commands.OpenSession):
        return replace(row_of(asked, at, at), id=public_ids(event.session, event.ext)[0])
    return Session(
        id=public_ids(event.session, event.ext)[0],
        title=event.title,
        updated_at=given(event.ext, "updated_at", str, rfc3339(0)),
        message_count=given(event.ext, "message_count", int, 0),
    )


def row_of(
    asked: commands.OpenSession | commands.RenameSession, opened_at: int, updated_at: int, count: int | None = None
) -> wire.SessionRow:
    """Return the stored row after a `db.write`: counters as the writer sent them, times in Unix seconds."""
    times = {"created_at": opened_at // NS, "updated_at": updated_at // NS}
    if isinstance(asked, commands.OpenSession):
        new = given(asked.ext, "row", requests.NewSession, requests.NewSession())
        row = wire.SessionRow(
            id=asked.session,
            parent_session_id=new.parent_session_id,
            title=asked.title,
            message_count=new.message_count if count is None else count,
            prompt_tokens=new.prompt_tokens,
            completion_tokens=new.completion_tokens,
            cost=new.cost,
        )
    else:
        change = given(asked.ext, "row", requests.SessionChange, requests.SessionChange())
        row = wire.SessionRow(
            id=asked.session,
            title=asked.title,
            message_count=count or 0,
            prompt_tokens=change.prompt_tokens,
            completion_tokens=change.completion_tokens,
            cost=change.cost,
            summary_message_id=change.summary_message_id,
        )
    return replace(row, **times)


def listed(event: events.SessionsListed, asked: object, instance: Instance) -> Any:
    """Return the result of session.list or state.sync, whichever was `asked`."""
    rows = [row(summary) for summary in event.sessions]
    if given(getattr(asked, "ext", None), "sync", bool, False) or given(event.ext, "instance_id", str, ""):
        active: str | UnsetType = given(event.ext, "active_session_id", str, "") or UNSET
        known = given(event.ext, "instance_id", str, instance.id)
        return wire.State(sessions=rows, active_session_id=active, instance_id=known)
    return rows


def history(event: events.HistorySnapshot) -> list[wire.Message]:
    """Return the result of message.list from a history, without reasoning and tool calls.

    The result is always oldest first. The event is newest first if it is a page.
    """
    return [_stored(item) for item in reversed(event.items) if isinstance(item, Message)]


def _stored(message: Message) -> wire.Message:
    return wire.Message(
        id=message.id,
        role=given(message.ext, "role", str, message.role),
        content=message.text,
        created_at=given(message.ext, "created_at", str, rfc3339(message.at)),
    )


def status(event: events.Pong, instance: Instance, now: int) -> wire.Status:
    """Return the result of instance.ping."""
    uptime = duration(now - instance.started_at) if instance.started_at else "0s"
    return wire.Status(
        instance_id=given(event.ext, "instance_id", str, instance.id), uptime=given(event.ext, "uptime", str, uptime)
    )
