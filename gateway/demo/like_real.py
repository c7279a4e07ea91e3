"""Change what the demo backend says to what the shipped programs say instead of their documented protocol.

Each dialect has one class that changes decoded frames; `LikeReal` is the transport that applies it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dragoman.adapters.base import Sink, Transport
from dragoman.mappings.dialect import Frame, Parts

Message = dict[str, Any]


class Flavour:
    """Changes the frames of one dialect as its shipped programs would."""

    def note_request(self, message: Message) -> None:
        """Note what a client said."""

    def rewrite(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages to send in place of these, which were written together."""
        return [said for message in messages if (said := self.rewrite_one(message)) is not None]

    def rewrite_one(self, message: Message) -> Message | None:
        """Return the message to send in place of this one; None for nothing."""
        return message


class PodFlavour(Flavour):
    """Commits log entries after the status, tells every second answer in `text_done`, and closes no aborted block.

    See docs/dialects/pod.md, sections 6 to 8. One instance serves one client.
    """

    def __init__(self) -> None:
        self._answers = 0
        self._invoked = True
        self._held: list[Message] = []  # deltas of a text that its `text_done` may tell

    def rewrite(self, messages: Sequence[Message]) -> list[Message]:
        aborted = any(self._aborts(message) for message in messages)
        said: list[Message] = []
        for message in messages:
            name = message.get("event")
            if name == "user_message":
                self._answers += 1
                self._invoked = False
            elif not self._invoked and name not in ("status", "segment_rotated"):
                self._invoked = True
                said.append({"event": "invoke_start", "data": {"kind": "user_send"}})
            if name == "text_delta" and self._answers % 2 == 0:
                self._held.append(message)
                continue
            if aborted and name in ("text_done", "thinking_done", "llm_call_end", "turn_end"):
                continue
            if name != "text_done":
                said += self._held
            self._held = []
            said.append(message)
        return said

    @staticmethod
    def _aborts(message: Message) -> bool:
        match message:
            case {"event": "error", "data": {"message": "Cancelled"}}:
                return True
            case {"event": "run_end", "data": {"result": "paused"}}:
                return True
        return False


class PandoFlavour(Flavour):
    """Publishes no message and no start of a tool, and a session instead of the end of a run that went wrong.

    See docs/dialects/pando.md, section 4. One instance serves all connections: calls decide what is published.
    """

    def __init__(self) -> None:
        self._wrong: set[str] = set()  # sessions whose run was interrupted or has failed
        self._sessions: dict[str, Message] = {}  # session id -> its last publication

    def note_request(self, message: Message) -> None:
        match message:
            case {"method": "session.interrupt", "params": {"session_id": str() as session}}:
                self._wrong.add(session)

    def rewrite_one(self, message: Message) -> Message | None:
        match message:
            case {"topic": "session.update", "payload": {"id": str() as session}}:
                self._sessions[session] = message["payload"]
            case {"topic": "llm.start", "payload": {"session_id": session}}:
                self._wrong.discard(session)
            case {"topic": "message.append", "payload": {"role": role, "session_id": session}}:
                if role == "system":
                    self._wrong.add(session)  # it is the cause of a failure
                return None
            case {"topic": "tool.start"}:
                return None
            case {"topic": "llm.end", "payload": {"session_id": session}} if session in self._wrong:
                self._wrong.discard(session)
                return {**message, "topic": "session.update", "payload": self._sessions.get(session, {"id": session})}
        return message


class CodewhaleFlavour(Flavour):
    """Keeps no message in the store, so that every history is empty (docs/dialects/codewhale.md, section 3)."""

    def rewrite_one(self, message: Message) -> Message | None:
        match message:
            case {"result": {"data": {"history": [_, *_]} as data} as result}:
                return {**message, "result": {**result, "data": {**data, "history": []}}}
        return message


class SmoothFlavour(Flavour):
    """Tells the text of every second answer in its terminal alone (docs/dialects/smooth.md, section 4)."""

    def __init__(self) -> None:
        self._answers = 0

    def note_request(self, message: Message) -> None:
        """Count the answers: each input gets one."""
        if message.get("action") == "send_message":
            self._answers += 1

    def rewrite_one(self, message: Message) -> Message | None:
        return message if self._answers % 2 or message.get("type") != "stream_token" else None


def flavours(dialect: str) -> Callable[[], Flavour]:
    """Return a function that makes the flavour of each connection of one backend."""
    pando = PandoFlavour()
    kinds: dict[str, Callable[[], Flavour]] = {
        "pod": PodFlavour,
        "pando": lambda: pando,
        "codewhale": CodewhaleFlavour,
        "smooth": SmoothFlavour,
    }
    return kinds[dialect]


class LikeReal:
    """A transport to a client whose frames a flavour changes; its other methods are those of the transport itself."""

    def __init__(self, transport: Transport, flavour: Flavour) -> None:
        self._transport = transport
        self._flavour = flavour
        self.peer = transport.peer
        self.meter = transport.meter
        self.resume = transport.resume
        self.peer_can_read = transport.peer_can_read
        self.discard = transport.discard
        self.close = transport.close
        self.headers = getattr(transport, "headers", {})  # only a WebSocket has these two
        self.watch_pings = getattr(transport, "watch_pings", None)

    async def run(self, sink: Sink) -> None:
        def hear(frames: Sequence[Frame]) -> int:
            for frame in frames:  # before the sink, which may answer at once
                self._hear(frame)
            return sink(frames)

        await self._transport.run(hear)

    def _hear(self, frame: Frame) -> None:
        body = frame.parts[-1] if isinstance(frame, Parts) and frame.parts else frame
        if isinstance(body, bytes):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                if isinstance(message := msgspec.json.decode(body), dict):
                    self._flavour.note_request(message)

    async def send(self, frames: Sequence[bytes]) -> None:
        topics = any(b"\0" in frame for frame in frames)
        said = self._flavour.rewrite([msgspec.json.decode(frame.rpartition(b"\0")[2]) for frame in frames])
        if said:
            await self._transport.send(
                [(m["topic"].encode() + b"\0" if topics else b"") + msgspec.json.encode(m) for m in said]
            )

    def try_send(self, frames: Sequence[bytes]) -> bool:
        """Refuse, so that the frames come to `send`: a flavour reads each frame once."""
        return False
