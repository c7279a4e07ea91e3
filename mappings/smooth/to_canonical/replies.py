"""The `data` of a 200 response as the typed answer to a link's command (docs/translation.md, rule 3.18).

Unknown keys are ignored (docs/dialects/smooth.md, section 5: R's real page differs from its schema). Each function
returns None for a payload of another shape. The answer then stays a Reply with raw data.
"""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.values import Ext, ImageAttachment, Message, SessionSummary, Text
from dragoman.mappings.dialect import Loss
from dragoman.mappings.extras import read_raw
from dragoman.mappings.losses import NULL
from dragoman.mappings.smooth.vocabulary import keep
from dragoman.mappings.smooth.wire import replies as wire
from dragoman.mappings.smooth.wire.values import nanoseconds


def session_opened(request: str, result: Raw | UnsetType) -> events.SessionOpened | None:
    """Return the answer to create_conversation_session or get_session.

    The `status` that server R sends is not used: it says whether the session is alive, not whether a turn runs.
    """
    payload = read_raw(result, wire.Session)
    if payload is None or not payload.session_id or not payload.conversation_id:
        return None
    ids = keep(
        sessionId=payload.session_id,
        conversationId=payload.conversation_id,
        agentName=payload.agent_name or UNSET,
        userParticipantId=payload.user_participant_id or UNSET,
        agentParticipantId=payload.agent_participant_id or UNSET,
        threadId=UNSET if payload.thread_id is None else payload.thread_id,
        status=UNSET if payload.status is None else payload.status,
    )
    return events.SessionOpened(request=request, session=payload.conversation_id, agent=payload.agent_id or "", ext=ids)


def history_page(request: str, result: Raw | UnsetType, losses: list[Loss]) -> events.HistorySnapshot | None:
    """Return the answer to get_conversation_messages, and add its invalid parts to `losses`."""
    page = read_raw(result, wire.Page)
    if page is None:
        return None
    invalid = Counter[str]()
    items = tuple(_message(record, invalid) for record in page.messages)
    losses += [
        Loss(kind="HistorySnapshot", field=f"items.{name}", why="invalid", count=count)
        for name, count in invalid.items()
    ]
    return events.HistorySnapshot(
        request=request,
        items=items,
        next_cursor=None if page.next_cursor is UNSET else page.next_cursor,
    )


def _message(record: wire.Record, invalid: Counter[str]) -> Message:
    text = record.content.text
    if text is None:
        text = "".join(item.text for item in record.content.items or ())
    images = [ImageAttachment(url=item.url) for item in record.content.items or () if item.type == "image" and item.url]
    return Message(
        id=record.id,
        role="user" if record.direction == "inbound" else "assistant",
        text=text,
        segments=(*([Text(text=text)] if text else ()), *images) if images else (),
        at=nanoseconds(record.created_at),
        ext=_details(record, invalid),
    )


def _details(record: wire.Record, invalid: Counter[str]) -> Ext | None:
    """Return the parts of a stored message without a canonical counterpart; invalid ones are left out and counted."""
    content, sender, to = record.content.structured_response, record.sender, record.to
    if content is sender is to is UNSET:  # as all known servers send it
        return None
    parts = {
        "structuredResponse": (content, read_raw(content, dict[str, object])),
        "from": (sender, read_raw(sender, wire.Participant)),
        "to": (to, read_raw(to, wire.Participant)),
    }
    invalid.update(name for name, (given, part) in parts.items() if part is None and given not in (UNSET, NULL))
    return keep(**{name: UNSET if part is None else part for name, (_, part) in parts.items()})


def sessions_listed(request: str, result: Raw | UnsetType) -> events.SessionsListed | None:
    """Return the answer to list_conversations."""
    payload = read_raw(result, wire.Conversations)
    if payload is None:
        return None
    rows = tuple(
        SessionSummary(
            session=row.conversation_id,
            title=row.title,
            updated_at=nanoseconds(row.updated_at),
            messages=row.message_count,
        )
        for row in payload.conversations
    )
    cursor = None if payload.next_cursor is UNSET else payload.next_cursor
    return events.SessionsListed(request=request, sessions=rows, next_cursor=cursor)


def typed_answer(command: Command, reply: events.Reply, losses: list[Loss]) -> Event | None:
    """Return the typed answer to a command, None if the reply itself is the answer; add to `losses` what it loses."""
    request = command.request
    match command:
        case commands.OpenSession() | commands.ResumeSession() | commands.GetSession():
            return session_opened(request, reply.result)
        case commands.GetHistory():
            return history_page(request, reply.result, losses)
        case commands.ListSessions():
            return sessions_listed(request, reply.result)
        case _:
            return None
