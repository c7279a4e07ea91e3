"""A captured conversation of a pando, played in its recorded order: the primary, and its client through the
gateway.

The primary publishes the captured publications, and a client makes the captured calls through the gateway. A call of
the gateway gets the captured primary's answer, if no publication in between could have changed it. If the capture has
inputs, the primary has a store of messages; otherwise it refuses calls about messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.mappings.dialect import Parts
from tests.data_files import value_of
from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames
from tests.mappings.pando.data import captured, value
from tests.memory_transport import MemoryTransport

NO_ROWS = {"code": -32000, "message": "session.get: sql: no rows in result set"}
NO_SERVICE = {"code": -32000, "message": "message.list: message service not available on this instance"}
NO_METHOD = {"code": -32601, "message": "ipc: method not found"}
CHANGES = ("session.update", "session.deleted", "llm.token", "llm.end", "tool.end", "db.")
AT = "2026-05-09T23:32:00+02:00"
OTHERS = ("a#2", "b")  # connections that received the same publications as `a`

Told = tuple[str, dict[str, Any]]


class Called(Struct, frozen=True):
    """A captured call: its parts as sent, their decoded JSON if it was valid, and the reply."""

    parts: list[str]
    call: Any
    reply: dict[str, Any]

    @property
    def method(self) -> str:
        """Return the method of a call, and for a write also the value written."""
        return _method(self.call)

    @property
    def writes(self) -> bool:
        """True if the call is a `db.write`."""
        return bool(_member(self.call, "method") == "db.write")

    @property
    def session(self) -> str:
        """The session that the call names."""
        return str(_about(self.call))


class CapturedPandoConversation:
    """A captured conversation: `told` are the publications to one subscriber, `replies` the answers to our caller, each
    with its call.
    """

    def __init__(self, path: Path) -> None:
        rows = [(way, parts) for connection, way, parts in captured(path) if connection not in OTHERS]
        said = [value(parts[-1].encode()) for way, parts in rows if way == "s2c"]
        self.steps: list[Called | Told] = []
        self.replies: list[tuple[Called, dict[str, Any]]] = []
        for way, parts in rows:
            if way == "pub":
                topic, envelope = value(parts[0].encode())
                self.steps.append((topic, envelope["payload"]))
            elif way == "c2s":
                call = value_of(parts[-1])
                self.steps.append(Called(parts, call, _reply_to(call, said)))
        self._at = 0
        self._stored: list[dict[str, Any]] = []
        self._stores = any(called.method == "message.send" for called in self.calls)

    @property
    def calls(self) -> list[Called]:
        """Return the calls of the captured client, in order."""
        return [step for step in self.steps if isinstance(step, Called)]

    @property
    def told(self) -> list[Told]:
        """Return the publications, in order."""
        return [step for step in self.steps if not isinstance(step, Called)]

    @property
    def listed(self) -> list[dict[str, Any]]:
        """The sessions at the beginning: those of the first list, or else those that later messages name."""
        for called in self.calls:
            if called.method == "session.list":
                return list(called.reply["result"])
        return [*{payload["id"]: payload for topic, payload in self.told if topic == "session.update"}.values()]

    async def play(self, made: InMemoryPandoGateway, caller: MemoryTransport) -> None:
        """Play the whole conversation, step by step."""
        for at, step in enumerate(self.steps):
            self._at = at
            if isinstance(step, Called):
                await self._call(made, caller, step)
            else:
                topic, payload = step
                if topic == "llm.token" and self._stored:
                    self._stored[-1]["content"] += payload["token"]
                await made.publishes(topic, **payload)
                await self.answers(made)

    async def answers(self, made: InMemoryPandoGateway) -> None:
        """Answer all current calls of the gateway."""
        while asked := made.asked():
            await made.replies(asked[0], self._answer(made.call()))

    async def _call(self, made: InMemoryPandoGateway, caller: MemoryTransport, called: Called) -> None:
        if called.method == "message.send":
            self._store("user", called.call["params"]["content"])
            self._store("assistant", "")
        before = len(caller.got)
        await caller.says(Parts("rpc", b"", tuple(part.encode() for part in called.parts)))
        await self.answers(made)
        self.replies += [(called, reply) for reply in frames(caller)[before:]]

    def _store(self, role: str, content: str) -> None:
        self._stored.append({"id": f"m-{len(self._stored)}", "role": role, "content": content, "created_at": AT})

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        method, about = _method(call), _about(call)
        before = self._find(method, about, range(self._at, -1, -1))
        known = before or self._find(method, about, range(self._at + 1, len(self.steps)))
        if known is not None:
            return {key: known.reply[key] for key in ("result", "error") if key in known.reply}
        match method:
            case "session.get":
                rows = [row for row in self.listed if row["id"] == about]
                return {"result": rows[0]} if rows else {"error": NO_ROWS}
            case "message.list":
                return {"result": self._stored} if self._stores else {"error": NO_SERVICE}
        return {"error": NO_METHOD}

    def _find(self, method: str, about: Any, steps: range) -> Called | None:
        """Return the nearest captured call that equals this one, up to the next change of the state."""
        for at in steps:
            step = self.steps[at]
            if isinstance(step, Called):
                if step.method == method and _about(step.call) == about:
                    return step
            elif at != self._at and step[0].startswith(CHANGES):
                return None
        return None


def _reply_to(call: Any, said: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the captured reply; for a call without a readable id, the first reply without an id."""
    own = _member(call, "id")
    reply = next(reply for reply in said if reply["id"] == (own if isinstance(own, str) else ""))
    said.remove(reply)
    return reply


def _method(call: Any) -> str:
    method = str(_member(call, "method") or "")
    return str(call["params"]["method"]) if method == "db.write" else method


def _about(call: Any) -> Any:
    """Return the session that a call names or writes."""
    params = _member(call, "params")
    return params.get("session_id", params.get("params")) if isinstance(params, dict) else None


def _member(call: Any, name: str) -> Any:
    """Return a member by its name in any case, as a primary does (docs/dialects/pando.md, section 3)."""
    known = call if isinstance(call, dict) else {}
    return next((said for key, said in reversed(known.items()) if key.lower() == name), None)
