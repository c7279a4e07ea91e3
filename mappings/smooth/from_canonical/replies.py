"""Sessions as smooth clients see them: ids, descriptions, history and lists (docs/translation.md, rule 3.1).

The ids are computed from the canonical session id, so every client sees the same ids, also after a reconnect. Strict
clients refuse an id that is not a UUID, so any other id is replaced by a UUID computed from it.
"""

from __future__ import annotations

from functools import lru_cache
from uuid import NAMESPACE_OID, UUID

from msgspec import UNSET

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.values import Ext, Message, is_chat_message
from dragoman.mappings.named_uuid import named_uuid
from dragoman.mappings.smooth.vocabulary import carried, given
from dragoman.mappings.smooth.wire import replies as wire
from dragoman.mappings.smooth.wire.values import NS_PER_MS, rfc3339

STATUSES: dict[str, wire.SessionStatus] = {"active": "active", "idle": "idle", "ended": "ended"}

IDS_KEPT = 256  # sessions whose ids are not computed again: an opening asks four times
TITLE_KEPT = 8  # characters of the id in the title of a session without a name


def as_uuid(text: str) -> UUID:
    """Return `text` as a UUID; if it is not a UUID, return one that is computed from the text."""
    try:
        return UUID(text)
    except ValueError:
        return UUID(named_uuid(NAMESPACE_OID, text))


def derived(turn: str, name: str) -> str:
    """Return the UUIDv5 of a part of a turn; `name` names the part."""
    return named_uuid(as_uuid(turn), name)


def public_ids(session_id: str, ids: Ext | None = None) -> tuple[str, ...]:
    """Return the ids by which clients know a session: sessionId and conversationId.

    They are a smooth backend's own ids, if it gave any.
    """
    session, conversation = _computed_ids(session_id)
    if ids is None:
        return session, conversation
    return given(ids, "sessionId", str, "") or session, given(ids, "conversationId", str, "") or conversation


@lru_cache(maxsize=IDS_KEPT)
def _computed_ids(session_id: str) -> tuple[str, str]:
    own = as_uuid(session_id)
    return named_uuid(own, "session"), str(own)


def opened(event: events.SessionOpened, asked: object) -> wire.Session:
    """Return the session descriptor. For get_session it has a status: the backend's own, or whether a turn runs."""
    own = as_uuid(event.session)
    try:
        agent = str(UUID(event.agent))
    except ValueError:
        agent = named_uuid(own, "agentId")
    session_id, conversation_id = public_ids(event.session, event.ext)
    return wire.Session(
        session_id=session_id,
        conversation_id=conversation_id,
        agent_id=agent,
        agent_name=given(event.ext, "agentName", str, "") or wire.AGENT_NAME,
        user_participant_id=given(event.ext, "userParticipantId", str, "") or named_uuid(own, "user"),
        agent_participant_id=given(event.ext, "agentParticipantId", str, "") or named_uuid(own, "agent"),
        thread_id=given(event.ext, "threadId", str, "") or None if isinstance(asked, commands.GetSession) else None,
        status=_status(event) if isinstance(asked, commands.GetSession) else None,
    )


def _status(event: events.SessionOpened) -> wire.SessionStatus | None:
    if carried(event.ext, "sessionId") is not None:  # a smooth backend; only server R sends a status
        return STATUSES.get(given(event.ext, "status", str, ""))
    return "active" if event.status == "running" else "idle"


def history(event: events.HistorySnapshot) -> wire.Page:
    """Return one page of the history, with the messages of user and assistant only, newest first.

    Each message is at least 1 ms newer than the one behind it, as real clients sort a page by its milliseconds. The
    store of a pando has whole seconds: an answer has the time of its question (docs/dialects/smooth.md, section 5).
    """
    records: list[wire.Record] = []
    at = -NS_PER_MS
    for item in reversed(event.items):
        if is_chat_message(item):
            at = max(item.at, at + NS_PER_MS)
            records.append(_record(item, at))
    return wire.Page(
        messages=records[::-1],
        next_cursor=event.next_cursor,
        has_more=event.next_cursor is not None,
    )


def record_id(message: Message) -> str:
    """Return the id that clients are shown of a message."""
    return str(as_uuid(message.id or f"{message.turn}:{message.role}:{message.at}:{message.text}"))


def _record(message: Message, at: int) -> wire.Record:
    return wire.Record(
        id=record_id(message),
        direction="inbound" if message.role == "user" else "outbound",
        content=wire.Content(
            text=message.text, structured_response=carried(message.ext, "structuredResponse") or UNSET
        ),
        sender=carried(message.ext, "from") or UNSET,
        to=carried(message.ext, "to") or UNSET,
        created_at=rfc3339(at),
    )


def listed(event: events.SessionsListed) -> wire.Conversations:
    """Return the list of conversations without the empty ones."""
    rows = [
        wire.Conversation(
            conversation_id=public_ids(row.session, row.ext)[1],
            title=row.title or f"Session {row.session[:TITLE_KEPT]}",
            updated_at=rfc3339(row.updated_at),
            message_count=row.messages,
        )
        for row in event.sessions
        if row.messages > 0
    ]
    return wire.Conversations(conversations=rows, next_cursor=event.next_cursor, has_more=event.next_cursor is not None)


def acknowledged(asked: object) -> dict[str, object]:
    """Return `data` of the 200 response to a command without a result of its own; clients use only `approved`."""
    match asked:
        case commands.AnswerApproval():
            return {"sessionId": asked.session, "approved": asked.approved}
        case commands.AnswerInteraction():
            return {"sessionId": asked.session, "interactionId": asked.question}
        case commands.RenameSession():
            return {"conversationId": asked.session, "title": asked.title}
        case _:
            return {}
