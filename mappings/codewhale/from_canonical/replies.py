"""Descriptions of sessions for codewhale clients: threads, lists and histories.

The source is docs/dialects/codewhale.md, sections 2.2 and 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from dragoman.mappings.canonical import SessionState, commands, events
from dragoman.mappings.canonical.values import Ext, Item, Message, SessionSummary, is_chat_message
from dragoman.mappings.codewhale.from_canonical.generations import goal_in
from dragoman.mappings.codewhale.ids import session_id, thread_id
from dragoman.mappings.codewhale.vocabulary import ECHOED, NEW, given
from dragoman.mappings.codewhale.wire import results
from dragoman.mappings.codewhale.wire.requests import List, Resume
from dragoman.mappings.codewhale.wire.values import Checkpoint, HistoryItem, Thread, ThreadGoal
from dragoman.mappings.extras import raw, read_raw
from dragoman.mappings.rfc3339 import NS

HISTORY_MAX = 500  # items of one answer (docs/dialects/codewhale.md, section 2.2)
PREVIEW_MAX = 120  # characters
PROVIDER = "deepseek"
ARCHIVED: Final = "archived"  # status of an archived thread
UNARCHIVED: Final = "idle"  # status of a thread that was taken out of the archive
LIST = "list"
"""The `thread_id` in the result of a list."""


def public_ids(session: str, ids: Ext | None = None) -> tuple[str, ...]:
    """Return the two ids by which clients know a session.

    The first is the thread id: a codewhale backend's own, else computed from the canonical id. The second is the first
    one without `thread-`; canonical commands use it.
    """
    own = (ids and given(ids, "thread_id", str, "")) or thread_id(session)
    return tuple(dict.fromkeys((own, session_id(own))))


def row(summary: SessionSummary, generation: str) -> Thread:
    """Return a row of a list as a thread."""
    at = summary.updated_at // NS
    known = _known(summary.ext)
    title = summary.title[:PREVIEW_MAX] if summary.messages else ""  # without messages a thread has no preview
    if known is not None:
        is_input = bool(title) and title != known.name
        preview = title if is_input and known.preview == NEW else known.preview
        return replace(_put_away(known, summary.archived), updated_at=at, preview=preview)
    return Thread(
        id=public_ids(summary.session, summary.ext)[0],
        preview=title or NEW,
        ephemeral=True,
        model_provider=PROVIDER,
        created_at=at,
        updated_at=at,
        status=ARCHIVED if summary.archived else summary.status,
        cwd="",
        cli_version=generation,
        source="interactive",
        name=summary.title or UNSET,
    )


def _put_away(known: Thread, archived: bool) -> Thread:
    """Return a thread with its present archived state, which may differ from the backend's last description."""
    if archived:
        return replace(known, status=ARCHIVED)
    return replace(known, status=UNARCHIVED) if known.status == ARCHIVED else known


def _known(ids: Ext | None) -> Thread | None:
    """Return the thread as a codewhale backend described it, None if `ids` has no such description."""
    return given(ids, "thread", Thread, None)


def described(state: SessionState, generation: str) -> Thread:
    """Return a session as a thread."""
    newest = next((message.text for message in state.newest_messages() if message.role == "user"), "")
    known = _known(state.backend_ids)
    if known is not None:
        at = max(known.updated_at, state.updated_at // NS)
        preview = newest[:PREVIEW_MAX] or known.preview
        name = state.title or known.name
        return replace(_put_away(known, state.archived), preview=preview, updated_at=at, name=name)
    return Thread(
        id=public_ids(state.id, state.backend_ids)[0],
        preview=newest[:PREVIEW_MAX] or NEW,
        ephemeral=True,
        model_provider=state.backend.provider or PROVIDER,
        created_at=state.opened_at // NS,
        updated_at=(state.updated_at or state.opened_at) // NS,
        status=ARCHIVED if state.archived else state.status,
        cwd=state.backend.cwd,
        cli_version=generation,
        source="interactive",
        name=state.title or UNSET,
    )


class WrittenThreadData(msgspec.Struct, frozen=True, gc=False):
    """The `data` of a thread with its history, as we write it."""

    history: list[HistoryItem] = []
    checkpoint: Checkpoint | None = None
    goal: ThreadGoal | None = None


def history_items(items: Iterable[Item]) -> list[HistoryItem]:
    """Return the messages of user and assistant, oldest first, each with its own id.

    Tool calls, reasoning and system messages are left out. A message of the backend's store keeps its id. Every other
    message gets the number after the previous id.
    """
    messages = [item for item in items if is_chat_message(item)]
    last = 0
    for item in messages[:-HISTORY_MAX]:  # only counted: a session can have 100,000 messages
        last = last + 1 if item.ext is None else max(last, _number(item, last))
    rows = []
    for item in messages[-HISTORY_MAX:]:
        number = _number(item, last)
        last = max(last, number)
        rows.append(_history_item(item, number))
    return rows


def _number(item: Message, last: int) -> int:
    """Return the id of a message in a history: that of the store, else the one after `last`."""
    return given(item.ext, "id", int, last + 1)


def _history_item(item: Message, number: int) -> HistoryItem:
    return HistoryItem(
        id=number,
        role=given(item.ext, "role", str, item.role),
        content=item.text,
        item=given(item.ext, "item", Raw, Raw(b"null")),
        created_at=item.at // NS,
    )


def showing(state: SessionState, asked: object, generation: str) -> results.ThreadResponse:
    """Return the result that shows a session; its form depends on the request `asked`."""
    thread, items = described(state, generation), history_items(state.messages())
    goal = read_raw(state.goal, ThreadGoal)
    shown_goal = None if goal is None else goal_in(goal, generation)
    model = given(state.backend_ids, "model", str, state.backend.model)
    return replace(_thread_response(thread, items, asked, model, shown_goal), **_echoed(state, asked))


def _echoed(state: SessionState, asked: object) -> dict[str, str]:
    """Return the settings of a client's resume that the backend has repeated in its result."""
    params = given(asked.ext, "params", Resume.Params, None) if isinstance(asked, commands.ResumeSession) else None
    wanted = {name: getattr(params, name, None) for name in ECHOED}
    return {name: text for name, text in wanted.items() if text and given(state.backend_ids, name, str, "") == text}


STATUS: dict[type, str] = {commands.ResumeSession: "resumed", commands.OpenSession: "started"}


def _thread_response(
    thread: Thread, items: list[HistoryItem], asked: object, model: str = "", goal: ThreadGoal | None = None
) -> results.ThreadResponse:
    data = raw(WrittenThreadData(history=items, goal=goal))
    if not isinstance(asked, commands.OpenSession | commands.ResumeSession):
        known = UNSET if goal is None else goal
        return results.ThreadResponse(thread_id=thread.id, status="ok", thread=thread, goal=known, data=data)
    created = given(asked.ext, "kind", str, "") == "create"
    return results.ThreadResponse(
        thread_id=thread.id,
        status="created" if created else STATUS[type(asked)],
        thread=thread,
        model=model or "auto",
        model_provider=thread.model_provider,
        cwd=thread.cwd,
        data=data,
    )


def opened(event: events.SessionOpened, asked: object, at: int, generation: str) -> results.ThreadResponse:
    """Return the result for a request that opened a session, if only the SessionOpened event is known."""
    thread = row(
        SessionSummary(session=event.session, title=event.title, updated_at=at, status=event.status, ext=event.ext),
        generation,
    )
    return _thread_response(thread, [], asked)


def history(event: events.HistorySnapshot, asked: object) -> results.ThreadResponse:
    """Return the result of thread/read from a history alone; its items are oldest first."""
    session = asked.session if isinstance(asked, commands.GetHistory | commands.GetSession) else ""
    items = list(reversed(event.items)) if event.request else list(event.items)
    data = raw(WrittenThreadData(history=history_items(items)))
    return results.ThreadResponse(thread_id=thread_id(session), status="ok", data=data)


def listed(event: events.SessionsListed, asked: object, generation: str) -> Any:
    """Return the result of thread/list or app/thread_loaded_list, whichever was `asked`."""
    params = given(getattr(asked, "ext", None), "params", List.Params, None)
    wants_none = params is not None and params.limit == 0  # a command has 0 for no limit
    rows = () if wants_none else tuple(row(summary, generation) for summary in event.sessions)
    if given(getattr(asked, "ext", None), "kind", str, "") == "loaded":
        return results.AppResponse(ok=True, data=raw({"threads": rows}))
    return results.ThreadResponse(thread_id=LIST, status="ok", threads=rows, data=results.EMPTY)


def missing(thread: str, text: str) -> results.ThreadResponse:
    """Return the result for an unknown thread."""
    return results.ThreadResponse(thread_id=thread, status="missing", data=raw({"error": text}))
