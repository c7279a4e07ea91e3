"""Results of calls as the typed answer to a link's command (docs/translation.md, rule 3.18).

Results are read as Go reads JSON. Each function returns None for a result of another shape. The answer then stays a
Reply with a raw result.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.values import Ext, Failure, Message, SessionSummary
from dragoman.mappings.errors import PeerError
from dragoman.mappings.pando.vocabulary import CANONICAL_ROLE, keep
from dragoman.mappings.pando.wire import replies as wire
from dragoman.mappings.pando.wire.codecs import GoPruner, as_go_reads
from dragoman.mappings.pando.wire.topics import Session
from dragoman.mappings.pando.wire.values import nanoseconds, rfc3339
from dragoman.mappings.reflection import describe
from dragoman.mappings.rfc3339 import NS

T = TypeVar("T")

SESSIONS_MAX = 10_000  # rows of a list: as many as the gateway keeps of unused sessions
MESSAGES_MAX = 20_000  # rows of a history: 5 to 10 us each until clients are shown them, all in one step


def newest_rows(command: Command, result: Raw | UnsetType) -> tuple[Raw | UnsetType, int]:
    """Return the result of a list without its oldest rows if it has too many, and the number of these rows.

    Sessions are listed newest first, messages oldest first.
    """
    most = SESSIONS_MAX if isinstance(command, commands.ListSessions) else MESSAGES_MAX
    if result is UNSET or memoryview(result).nbytes <= most:
        return result, 0
    try:
        rows = msgspec.json.decode(result, type=list[Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return result, 0
    if len(rows) <= most:
        return result, 0
    kept = rows[:most] if isinstance(command, commands.ListSessions) else rows[-most:]
    return Raw(msgspec.json.encode(kept)), len(rows) - most


def _read(result: Raw | UnsetType, kind: type[T]) -> T | None:
    if result is UNSET:
        return None
    try:
        return msgspec.json.decode(result, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(GoPruner().prune(as_go_reads(bytes(result)), describe(kind)), type=kind)
    except (msgspec.ValidationError, PeerError):
        return None


TIME_MAX = 64  # characters: twice what the longest time has


def time_of(text: str) -> tuple[int, str | UnsetType]:
    """Return a time in ns, and its text if ns cannot restore it (local offset, invalid time), else UNSET.

    A text that is no time at all may be very long, and is dropped.
    """
    at = nanoseconds(text) or 0
    return at, UNSET if rfc3339(at) == text or len(text) > TIME_MAX else text


def summary(session: Session) -> SessionSummary:
    """Return pando's description of a session as a row of a list."""
    at, text = time_of(session.updated_at)
    return SessionSummary(
        session=session.id,
        title=session.title,
        updated_at=at,
        messages=session.message_count,
        ext=keep(updated_at=text),
    )


def session_opened(request: str, result: Raw | UnsetType, asked: str = "") -> events.SessionOpened | None:
    """Return the answer to session.get, CreateSession or session.activate.

    The result of session.activate has no session: it is about the session `asked`.
    """
    row = _read(result, wire.SessionRow)
    if row is not None:
        return events.SessionOpened(request=request, session=row.id, title=row.title, ext=keep(id=row.id))
    session = _read(result, Session)
    if session is not None and session.id:
        ext = keep(id=session.id, updated_at=session.updated_at, message_count=session.message_count)
        return events.SessionOpened(request=request, session=session.id, title=session.title, ext=ext)
    done = _read(result, wire.Done)
    return (
        events.SessionOpened(request=request, session=asked, ext=keep(id=asked)) if done is not None and asked else None
    )


def sessions_listed(request: str, result: Raw | UnsetType) -> events.SessionsListed | None:
    """Return the answer to session.list or state.sync, as a single page."""
    rows = _read(result, list[Session])
    ext: Ext | None = None
    if rows is None:
        state = _read(result, wire.State)
        if state is None:
            return None
        rows = state.sessions or []
        ext = keep(active_session_id=state.active_session_id, instance_id=state.instance_id)
    return events.SessionsListed(request=request, sessions=tuple(map(summary, rows)), ext=ext)


def stored_rows(result: Raw | UnsetType) -> tuple[Message, ...] | None:
    """Return all rows of message.list, oldest first; tool calls and results are rows without text.

    A pando stores whole seconds, and clients sort by milliseconds. So a row of the same second as the one before it is
    1 ms newer.
    """
    rows = () if result is not UNSET and bytes(result) == b"null" else _read(result, list[wire.Message])
    if rows is None:
        return None
    times = accumulate((nanoseconds(row.created_at) or 0 for row in rows), _behind)
    return tuple(map(_stored, rows, times))


def _behind(before: int, own: int) -> int:
    """Return the time (ns) of a row that the store gives as `own`, 0 if unknown.

    `before` is the time of the previous row.
    """
    is_same_second = own > 0 and own % NS == 0 and own <= before < own + NS
    return before + NS // 1000 if is_same_second else own


def with_text(rows: Iterable[Message]) -> tuple[Message, ...]:
    """Return the rows with text, which are the messages of a history."""
    return tuple(row for row in rows if row.text)


def _stored(message: wire.Message, at: int) -> Message:
    """Return one message of the store with the time `at` (ns); a tool's message becomes a system message."""
    text = message.created_at
    role = CANONICAL_ROLE.get(message.role)
    return Message(
        role=role or "system",
        text=message.content,
        id=message.id,
        at=at,
        ext=keep(role=UNSET if role else message.role, created_at=UNSET if rfc3339(at) == text else text),
    )


def pong(request: str, result: Raw | UnsetType, at: int) -> events.Pong | None:
    """Return the answer to instance.ping."""
    status = _read(result, wire.Status)
    if status is None:
        return None
    return events.Pong(request=request, at=at, ext=keep(instance_id=status.instance_id, uptime=status.uptime))


def typed_answer(command: Command, reply: events.Reply, now: int) -> Event | None:
    """Return the typed answer to a command, None if the reply itself is the answer. `now` is in ns."""
    request = command.request
    if reply.failure is not None:
        return None
    match command:
        case commands.OpenSession() | commands.GetSession():
            return session_opened(request, reply.result)
        case commands.ResumeSession():
            return session_opened(request, reply.result, command.session)
        case commands.ListSessions():
            return sessions_listed(request, reply.result)
        case commands.GetHistory():
            return _page_of(command, reply)
        case commands.SubmitInput():
            return events.TurnAccepted(request=request)
        case commands.CancelTurn():
            return events.Reply(request=request)
        case commands.Ping():
            return pong(request, reply.result, now)
        case _:
            return None


def _page_of(command: commands.GetHistory, reply: events.Reply) -> events.HistorySnapshot | events.Reply | None:
    """Return the requested page of a history, newest first, cut from pando's list of all messages."""
    rows = stored_rows(reply.result)
    if rows is None:
        return None
    messages = with_text(rows)
    if command.cursor:
        place = next((i for i, m in enumerate(messages) if m.id == command.cursor), None)
        if place is None:
            failure = Failure(cause="invalid", text=f"unknown cursor {command.cursor!r}")
            return events.Reply(request=command.request, failure=failure)
        messages = messages[:place]
    page = messages[-command.limit :] if command.limit else messages
    more = len(page) < len(messages)
    return events.HistorySnapshot(
        request=command.request, items=tuple(reversed(page)), next_cursor=page[0].id if more and page else None
    )
