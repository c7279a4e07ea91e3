"""Results as the typed answer to a link's command (docs/translation.md, rule 3.18).

Each function returns None for a result of another shape. The answer then stays a Reply with a raw result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.values import (
    ImageAttachment,
    Item,
    Message,
    Reasoning,
    Role,
    SessionSummary,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.mappings.codewhale.ids import session_id
from dragoman.mappings.codewhale.vocabulary import ECHOED, NEW, keep
from dragoman.mappings.codewhale.wire import results as wire
from dragoman.mappings.codewhale.wire.codecs import typed
from dragoman.mappings.codewhale.wire.results import AppResponse, Capabilities, Interrupted, ThreadResponse
from dragoman.mappings.codewhale.wire.values import HistoryItem, Thread, ThreadGoal
from dragoman.mappings.extras import raw, read_raw
from dragoman.mappings.rfc3339 import NS, parse

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


def _known(result: Raw | UnsetType) -> Any:
    return None if result is UNSET else typed(result)


def capabilities(result: Raw | UnsetType) -> Capabilities | None:
    """Return the result of `capabilities`; None if it has another form."""
    known = _known(result)
    return known if isinstance(known, Capabilities) else None


def has_interrupted(result: Raw | UnsetType) -> bool:
    """Return True if an interrupt has stopped a turn."""
    known = _known(result)
    return isinstance(known, Interrupted) and known.interrupted


def session_opened(request: str, result: Raw | UnsetType) -> events.SessionOpened | None:
    """Return the answer to a request whose result shows one thread."""
    known = _known(result)
    if not isinstance(known, ThreadResponse) or not isinstance(known.thread, Thread):
        return None
    thread = known.thread
    facts = {name: getattr(known, name) for name in ("model", *ECHOED) if getattr(known, name) is not None}
    ext = keep(thread_id=thread.id, thread=thread, **facts)
    return events.SessionOpened(request=request, session=session_id(thread.id), title=thread.name or "", ext=ext)


def sessions_listed(request: str, result: Raw | UnsetType) -> events.SessionsListed | None:
    """Return the answer to a list of threads, as a single page."""
    known = _known(result)
    if isinstance(known, AppResponse):
        loaded = read_raw(known.data, Loaded)
        if loaded is None:
            return None
        rows = loaded.threads
    elif isinstance(known, ThreadResponse):
        rows = known.threads
    else:
        return None
    return events.SessionsListed(request=request, sessions=tuple(map(_summary, rows)))


class Loaded(Struct, frozen=True, gc=False):
    """The `data` of app/thread_loaded_list."""

    threads: tuple[Thread, ...]


RUNTIME_ID = "thr_"
"""The start of the ids of threads since 0.10.2. A thread of an older server is called `running` while it is idle."""


def _summary(thread: Thread) -> SessionSummary:
    runs = thread.status == "running" and thread.id.startswith(RUNTIME_ID)
    # Servers do not report the number of messages, and since 0.10.2 the preview is always empty.
    has_messages = thread.preview != NEW and bool(thread.preview or thread.updated_at > thread.created_at)
    return SessionSummary(
        session=session_id(thread.id),
        title=thread.name or (thread.preview if has_messages else ""),
        updated_at=thread.updated_at * NS,
        messages=int(has_messages),
        status="running" if runs else "paused" if thread.status == "paused" else "idle",
        archived=thread.status == "archived",
        ext=keep(thread_id=thread.id, thread=thread),
    )


class ReadThreadData(Struct, frozen=True, gc=False):
    """The `data` of a thread with its history, as a server writes it."""

    history: tuple[HistoryItem, ...] = ()
    goal: Raw = Raw(b"null")


UNSAID = ("queued", "in_progress", "canceled")
"""The status values of items without a message: unfinished, from a broken stream, or an input that the model never got.
"""

TURN_META = "\n<turn_meta>\n", "\n</turn_meta>"
"""The borders of the text that a server adds to an input for the model: date, folder and permissions."""

PROVENANCE = "Input provenance: "
"""The line in this text that marks an input which no user typed."""

CHECKPOINT = "\n<!-- codewhale.compaction-checkpoint.v1 -->"
"""The end of a compaction's summary, which is an input in a forked thread."""


def history(result: Raw | UnsetType) -> tuple[Item, ...] | None:
    """Return the items of a thread, oldest first; other roles than user and assistant become system."""
    data = _thread_data(result)
    if data is not None:
        return tuple(map(_message, data.history))
    known = _known(result)
    saved = read_raw(known.data, wire.SavedThreadData) if isinstance(known, ThreadResponse) else None
    return None if saved is None else tuple(_saved_items(saved.history.session, saved.items))


def _saved_items(saved: wire.SavedSession, items: Iterable[wire.SavedItem]) -> Iterator[Item]:
    """Return the thoughts, texts, tool calls and results of the turns, with the images in the saved session."""
    names: dict[str, str] = {}
    images: dict[str, deque[list[ImageAttachment]]] = {}
    for message in saved.messages:
        if found := _images_of(message):
            images.setdefault(_text_of(message), deque()).append(found)
    for item in items:
        if item.status in UNSAID:
            continue
        at = parse(item.started_at or "") or 0
        metadata = read_raw(item.metadata, wire.ItemMetadata) or wire.ItemMetadata()
        if item.kind == "user_message":
            role, text = _input_of(item.detail or "", metadata.input_provenance)
            shown = images[text].popleft() if images.get(text) else []
            yield Message(role=role, text=text, segments=(Text(text=text), *shown) if shown else (), at=at)
        elif item.kind == "agent_message" and item.detail:
            yield Message(role="assistant", text=item.detail, at=at)
        elif item.kind == "agent_reasoning" and item.detail:
            yield Reasoning(text=item.detail, at=at)
        if metadata.tool_name:
            names[metadata.tool_use_id] = metadata.tool_name
            arguments = (item.detail or "") if metadata.tool_input is None else metadata.tool_input
            yield ToolCall(call=metadata.tool_use_id, name=metadata.tool_name, arguments=arguments, at=at)
        if call := metadata.tool_result_for:
            name, failed = names.get(call, ""), metadata.is_error is True
            yield ToolResult(call=call, name=name, output=item.detail or "", is_error=failed, at=at)


def _input_of(text: str, provenance: str) -> tuple[Role, str]:
    """Return an input without what the server added to it; an input of the server itself is a system message."""
    begin, end = TURN_META
    typed, found, meta = text.rpartition(begin)
    if found and text.endswith(end):
        text = typed
        provenance = provenance or next((line for line in meta.splitlines() if line.startswith(PROVENANCE)), "")
    return ("system" if provenance or text.endswith(CHECKPOINT) else "user"), text.removesuffix(CHECKPOINT)


def goal(result: Raw | UnsetType) -> tuple[events.GoalUpdated, ...]:
    """Return the goal of a thread as an event; () if it has none."""
    data = _thread_data(result)
    known = None if data is None else read_raw(data.goal, ThreadGoal)
    return () if known is None else (events.GoalUpdated(goal=raw(known)),)


def _thread_data(result: Raw | UnsetType) -> ReadThreadData | None:
    known = _known(result)
    return read_raw(known.data, ReadThreadData) if isinstance(known, ThreadResponse) else None


def _message(item: HistoryItem) -> Message:
    role, text = item.role, item.content
    plain = bytes(item.item) == b"null"
    if role not in ROLES and not plain:
        role, text = _model_message(item)
    ext = keep(
        id=item.id,
        role=UNSET if role == item.role and role in ROLES else item.role,
        item=UNSET if plain else item.item,
    )
    return Message(role=ROLES.get(role, "system"), text=text, at=item.created_at * NS, ext=ext)


def _model_message(item: HistoryItem) -> tuple[str, str]:
    """Return role and text of a history item from a client's resume; its `content` is the item's JSON as text."""
    message = read_raw(item.item, wire.ModelMessage)
    if message is None:
        return item.role, item.content
    text = _text_of(message)
    return (message.role, text) if message.role in ROLES and text else (item.role, item.content)


def _text_of(message: wire.ModelMessage) -> str:
    """Return the text of a message without the block that the server added for the model."""
    parts = message.content if isinstance(message.content, list) else [message.content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    strings = [text for text in texts if isinstance(text, str)]
    return "".join(text for n, text in enumerate(strings) if n == 0 or not text.startswith(TURN_META[0].strip()))


def _images_of(message: wire.ModelMessage) -> list[ImageAttachment]:
    parts = message.content if isinstance(message.content, list) else []
    blocks = [read_raw(raw(part), wire.ImageUrl) for part in parts]
    return [ImageAttachment(url=block.image_url.url) for block in blocks if block is not None]


def typed_answer(command: Command, reply: events.Reply, now: int) -> Event | None:
    """Return the typed answer to a command, None if the reply itself is the answer. `now` is in ns."""
    request = command.request
    if reply.failure is not None:
        return None
    match command:
        case commands.OpenSession() | commands.ResumeSession() | commands.GetSession():
            return session_opened(request, reply.result)
        case commands.ListSessions():
            return sessions_listed(request, reply.result)
        case commands.GetHistory():
            items = history(reply.result)
            return None if items is None else events.HistorySnapshot(items=tuple(reversed(items)), request=request)
        case commands.Ping():
            return events.Pong(request=request, at=now)
        case _:
            return None
