"""Messages of codewhale clients and servers, for the tests of the gateway
(docs/dialects/codewhale.md, sections 1 and 2).
"""

from __future__ import annotations

from typing import Any

from tests.gateway.in_memory import InMemoryGateway, InMemoryPeer
from tests.idle import settle
from tests.mappings.codewhale.data import thread_row

Frame = dict[str, Any]


def line(number: int, method: str, **params: Any) -> Frame:
    """Return a request as a line."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def thread(id: str, **keys: Any) -> Frame:
    """Return a thread as a backend describes it."""
    return thread_row(id, cwd="/src") | keys


def shown(id: str, status: str = "resumed", history: tuple[tuple[str, str], ...] = (), **keys: Any) -> Frame:
    """Return a result that shows a thread with these messages, as pairs of speaker and text."""
    items = [
        {"id": n, "role": role, "content": text, "item": None, "created_at": n}
        for n, (role, text) in enumerate(history, start=1)
    ]
    data = {"history": items, "checkpoint": None, "goal": None}
    return {"thread_id": id, "status": status, "thread": thread(id, **keys), "data": data}


def asked(made: InMemoryGateway, method: str) -> list[Frame]:
    """Return all requests of this method to the children, oldest first."""
    return [frame for child in made.pods for frame in child.frames() if frame["method"] == method]


async def editor_with_thread(made: InMemoryGateway, thread: str) -> InMemoryPeer:
    """Return a codewhale client that has started this thread, and has read the answer."""
    editor = made.join("editor", dialect="codewhale")
    editor.sends(line(1, "thread/start"))
    await answers(made, "thread/start", **shown(thread, "started"))
    editor.news()
    return editor


async def answers(made: InMemoryGateway, method: str, **result: Any) -> None:
    """Answer the last request of this method as its child."""
    child, request = await _last(made, method)
    whole = {"thread_id": "", "status": "ok", "threads": [], "events": [], "data": {}} | result
    await child.says({"jsonrpc": "2.0", "id": request, "result": whole})


async def refuses(made: InMemoryGateway, method: str, code: int, text: str) -> None:
    """Answer the last request of this method with an error, as its child."""
    child, request = await _last(made, method)
    await child.says({"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text, "data": None}})


async def _last(made: InMemoryGateway, method: str) -> tuple[InMemoryPeer, Any]:
    await settle()
    child = next(child for child in reversed(made.pods) if any(f["method"] == method for f in child.frames()))
    return child, [frame for frame in child.frames() if frame["method"] == method][-1]["id"]
