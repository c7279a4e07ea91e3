"""Clients of all dialects behind one interface, `TurnClient`, which reads only their frames."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from msgspec import Struct, field

from tests.dialects import parts
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import SmoothClient
from tests.pairs.pando_client import PandoClient, RefusalError
from tests.pairs.pod_client import PodClient
from tests.players.clients import pod_said

C = TypeVar("C")

ENDS = {"eventual_response": "completed", "error": "failed", "cancelled": "cancelled"}
RESULTS = {"finished": "completed", "limit_reached": "limit_reached", "paused": "paused", "rolled_back": "cancelled"}


class SeenRun(Struct):
    """The last run as a client saw it; its end is `asked` if a form waits for an answer. `usage` is tokens in and out,
    or None if not reported.
    """

    text: str
    thought: str = ""
    calls: list[str] = field(default_factory=list)
    results: int = 0
    usage: tuple[int, int] | None = None
    end: str = "completed"


class TurnClient(Protocol):
    """A client of some dialect. `client` is the underlying client."""

    client: Any

    async def begin(self, text: str, tokens: int) -> None:
        """Begin a run, and wait for this many of its tokens."""

    async def finish(self) -> SeenRun:
        """Wait until the run is over; return what was seen of it."""

    def tokens(self) -> int:
        """Return the number of tokens that the client was told."""

    async def cancel(self) -> None:
        """Stop the run."""

    async def approve(self) -> SeenRun:
        """Answer the open question with yes; return what was seen after it."""

    async def refused(self, text: str) -> str:
        """Return the reason why this input is refused."""

    async def history(self) -> list[tuple[str, str]]:
        """Return the messages of user and assistant, oldest first."""

    async def listed(self) -> list[str]:
        """Return the sessions that the client may open, by title or by another visible property."""

    async def turn(self, text: str, cancel_after: int = 0) -> SeenRun:
        """Run a whole turn."""


class Runs(Generic[C]):
    """Base class of all turn clients: `turn` is `begin` followed by `finish`. `kind` is the class of the client."""

    kind: ClassVar[Any]

    def __init__(self, client: C, address: str) -> None:
        self.client = client
        self._address = address
        self._start = 0  # how many messages the client had when the run began

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[Self]:
        """Connect a client to this address."""
        address = url.removeprefix("unix:")
        async with cls.kind.connected(address) as client:
            yield cls(client, address)

    async def begin(self, text: str, tokens: int) -> None:
        raise NotImplementedError

    async def finish(self) -> SeenRun:
        raise NotImplementedError

    async def cancel(self) -> None:
        raise NotImplementedError

    async def turn(self, text: str, cancel_after: int = 0) -> SeenRun:
        await self.begin(text, cancel_after)
        if cancel_after:
            await self.cancel()
        return await self.finish()


class SmoothTurnClient(Runs[SmoothClient]):
    """A smooth client."""

    kind = SmoothClient
    _request = ""

    def tokens(self) -> int:
        return len([f for f in self.client.frames if f["type"] == "stream_token"])

    def _frames(self) -> list[dict[str, Any]]:
        return [f for f in self.client.frames[self._start :] if f.get("requestId") == self._request]

    async def begin(self, text: str, tokens: int) -> None:
        self._start = len(self.client.frames)
        self._request = await self.client.say(text)
        await self.client.until(lambda: len([f for f in self._frames() if f["type"] == "stream_token"]) >= tokens)

    async def cancel(self) -> None:
        await self.client.send({"action": "cancel", "sessionId": self.client.session})

    async def finish(self) -> SeenRun:
        waits = {*ENDS, "write_confirmation_required"}
        await self.client.until(lambda: any(f["type"] in waits for f in self._frames()))
        frames = self._frames()
        assert [f["type"] for f in frames if f["type"] in ENDS] in ([], [frames[-1]["type"]]), (
            "one terminal, and nothing after it"
        )
        raw = [f["data"]["state"].get("rawResponse", {}) for f in frames if f["type"] == "stream_chunk"]
        return SeenRun(
            text="".join(f["token"] for f in frames if f["type"] == "stream_token"),
            thought="".join(f["token"] for f in frames if f["type"] == "stream_reasoning"),
            calls=[chunk["toolCall"]["name"] for chunk in raw if "toolCall" in chunk],
            results=sum(1 for chunk in raw if "toolResult" in chunk),
            usage=_used(frames[-1]),
            end=ENDS.get(frames[-1]["type"], "asked"),
        )

    async def approve(self) -> SeenRun:
        asked = [f for f in self._frames() if f["type"] == "write_confirmation_required"]
        if not asked:
            return await self.turn("approve")
        self._start = len(self.client.frames)
        confirm = {"action": "confirm_tool_action", "sessionId": self.client.session, "approved": True}
        await self.client.send({**confirm, "requestId": self._request})
        return await self.finish()

    async def refused(self, text: str) -> str:
        return str((await self.client.ask(self._say(text)))["error"]["code"])

    def _say(self, text: str) -> dict[str, Any]:
        return {"action": "send_message", "sessionId": self.client.session, "message": text}

    async def history(self) -> list[tuple[str, str]]:
        asked = {"action": "get_conversation_messages", "sessionId": self.client.session}
        messages = (await self.client.ask(asked))["data"]["messages"]
        roles = {"inbound": "user", "outbound": "assistant"}
        return [(roles[m["direction"]], m["content"]["text"]) for m in reversed(messages)]

    async def listed(self) -> list[str]:
        rows = (await self.client.ask({"action": "list_conversations"}))["data"]["conversations"]
        return [row["title"] for row in rows]


def _used(terminal: dict[str, Any]) -> tuple[int, int] | None:
    """Return the usage that an `eventual_response` counts."""
    payload = terminal["data"].get("data") or {}
    used = payload.get("usage")
    return None if used is None else (used["promptTokens"], used["completionTokens"])


class PodTurnClient(Runs[PodClient]):
    """A pod client."""

    kind = PodClient

    def tokens(self) -> int:
        return self.client.names().count("text_delta")

    def _told(self) -> list[tuple[str, dict[str, Any]]]:
        return self.client.events[self._start :]

    def _names(self) -> list[str]:
        return [name for name, _ in self._told()]

    async def begin(self, text: str, tokens: int) -> None:
        self._start = len(self.client.events)
        await self.client.say(text)
        await self.client.until(lambda: self._names().count("text_delta") >= tokens)

    async def cancel(self) -> None:
        await self.client.send("cancel")

    async def finish(self) -> SeenRun:
        await self.client.until(self._over)
        told, names = self._told(), self._names()
        assert names.count("user_message") == 1
        assert "turn_start" in names, "a pod's parent waits for it"
        errors = [data["message"] for name, data in told if name == "error"]
        results = [RESULTS[data["result"]] for name, data in told if name == "run_end"]
        (end,) = results or ["cancelled" if errors == ["Cancelled"] else "failed"]
        used = [(data["input_tokens"], data["output_tokens"]) for name, data in told if name == "usage"]
        return SeenRun(
            text="".join(data["text"] for name, data in told if name == "text_delta"),
            thought="".join(data["text"] for name, data in told if name == "thinking_delta"),
            calls=[data["name"] for name, data in told if name == "tool_call_done"],
            results=names.count("tool_result"),
            usage=(sum(n for n, _ in used), sum(n for _, n in used)) if used else None,
            end=end,
        )

    def _over(self) -> bool:
        names = self._names()
        ran = self._told()[names.index("user_message") :] if "user_message" in names else []
        return any(name == "status" and data["status"] != "running" for name, data in ran)

    async def approve(self) -> SeenRun:
        return await self.turn("approve")

    async def refused(self, text: str) -> str:
        before = self._names().count("error")
        await self.client.say(text)
        await self.client.until(lambda: self._names().count("error") > before)
        return [str(data["code"]) for name, data in self._told() if name == "error"][-1]

    async def history(self) -> list[tuple[str, str]]:
        """Return the messages that a client which joins now receives."""
        async with PodClient.connected(self._address) as late:
            (entries,) = [data["entries"] for name, data in late.events if name == "snapshot"]
        return [said for entry in entries for said in pod_said(entry)]

    async def listed(self) -> list[str]:
        before = self.client.names().count("visible_pods")
        await self.client.send("list_visible_pods")
        await self.client.until(lambda: self.client.names().count("visible_pods") > before)
        pods = next(data for name, data in reversed(self.client.events) if name == "visible_pods")["pods"]
        return [pod["pod_name"] for pod in pods]


class PandoTurnClient(Runs[PandoClient]):
    """A pando client."""

    kind = PandoClient
    _shown = 0

    def tokens(self) -> int:
        return self.client.topics().count("llm.token")

    async def begin(self, text: str, tokens: int) -> None:
        self._start, self._shown = len(self.client.told), len(self.client.shown)
        await self.client.say(text)
        await self.client.until(lambda: self.client.topics(self._start).count("llm.token") >= tokens)

    async def cancel(self) -> None:
        assert await self.client.call("session.interrupt", session_id=self.client.session) == {"ok": True}

    async def finish(self) -> SeenRun:
        await self.client.until(lambda: "llm.end" in self.client.topics(self._start))
        shown = self.client.shown[self._shown :]
        texts = [text for role, text in shown if role == "assistant"]
        assert [role for role, _ in shown].count("user") == 1
        assert len(texts) == 1, "a run is committed once"
        told = [(t, p) for t, p in self.client.told[self._start :] if p.get("session_id") == self.client.session]
        calls = {p["call_id"]: p["tool_name"] for t, p in told if t == "tool.start"}
        (used,) = [(p["tokens_in"], p["tokens_out"]) for t, p in told if t == "llm.end"]
        return SeenRun(
            text=texts[0],
            calls=list(calls.values()),
            results=sum(1 for topic, _ in told if topic == "tool.end"),
            usage=None if used == (0, 0) else used,
            end="failed" if "system" in [role for role, _ in shown] else "completed",
        )

    async def approve(self) -> SeenRun:
        return await self.turn("approve")

    async def refused(self, text: str) -> str:
        try:
            await self.client.say(text)
        except RefusalError as refusal:
            return str(refusal.code)
        raise AssertionError("it was taken")

    async def history(self) -> list[tuple[str, str]]:
        messages = await self.client.call("message.list", session_id=self.client.session)
        return [(message["role"], message["content"]) for message in messages]

    async def listed(self) -> list[str]:
        return [row["title"] for row in await self.client.call("session.list")]


class CodewhaleTurnClient(Runs[CodewhaleClient]):
    """A codewhale client."""

    kind = CodewhaleClient
    _request = 0

    def tokens(self) -> int:
        return sum(line.get("type") == "response_delta" for line in self.client.lines)

    async def begin(self, text: str, tokens: int) -> None:
        self._start = len(self.client.lines)
        self._request = await self.client.say(text)
        await self.client.until(lambda: self._kinds().count("response_delta") >= tokens)

    def _kinds(self) -> list[str]:
        return [line.get("type", "") for line in self.client.lines[self._start :]]

    async def cancel(self) -> None:
        await self.client.send("thread/interrupt", thread_id=self.client.thread)

    async def finish(self) -> SeenRun:
        answer = await self.client.answer(self._request)
        frames = answer["result"]["events"] if "result" in answer else []
        deltas = [frame for frame in frames if frame["event"] == "response_delta"]
        assert all(frame["channel"] == "reasoning" for frame in deltas), "text is streamed, and not said again"
        stopped = "error" in answer and answer["error"]["message"] == "turn interrupted"
        return SeenRun(
            text=self.client.text(self._start),
            thought="".join(frame["delta"] for frame in deltas),
            calls=[frame["tool_name"] for frame in frames if frame["event"] == "tool_call_start"],
            results=sum(1 for frame in frames if frame["event"] == "tool_call_result"),
            end="completed" if "result" in answer else "cancelled" if stopped else "failed",
        )

    async def approve(self) -> SeenRun:
        return await self.turn("approve")

    async def refused(self, text: str) -> str:
        """Send the input from another client, because requests of the first one wait for each other."""
        async with CodewhaleClient.connected(self._address, self.client.thread) as other:
            return str((await other.ask("thread/message", thread_id=other.thread, input=text))["error"]["code"])

    async def history(self) -> list[tuple[str, str]]:
        async with CodewhaleClient.connected(self._address, self.client.thread) as other:
            told = await other.call("thread/read", thread_id=other.thread)
        return [(item["role"], item["content"]) for item in told["data"]["history"]]

    async def listed(self) -> list[str]:
        return [thread["preview"] for thread in (await self.client.call("thread/list"))["threads"]]


def join(dialect: str, url: str) -> AbstractAsyncContextManager[TurnClient]:
    """Connect a client of this dialect to a listener's address without its dialect."""
    return parts(dialect).turn_client(url)
