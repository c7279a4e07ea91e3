"""A smooth server that follows docs/dialects/smooth.md until a test makes it send something else."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import websockets
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

DEADLINE = 20.0  # seconds for anything that a test waits for
MIRRORED = ("token", "node")


def of_turn(kind: str, request: str = "$turn", /, **fields: Any) -> dict[str, Any]:
    """Return an event of a turn with its mirrored fields (section 4)."""
    mirrored = {key: value for key, value in fields.items() if key in MIRRORED}
    return {"type": kind, "requestId": request, **mirrored, "data": {"requestId": request, **fields}, "timestamp": 1}


def ended(text: str = "", request: str = "$turn") -> dict[str, Any]:
    """Return the terminal of a completed turn."""
    answer = {"messageId": str(uuid4()), "response": {"responseParts": [text]}, "needsEscalation": False}
    return {**of_turn("eventual_response", request, status=200, data=answer), "status": 200}


FORM = {"interactionId": "i-1", "kind": "choices", "spec": {}, "reason": "Which?"}
CONFIRMATION = {"toolId": "delete", "actionDescription": "Delete it?"}

QUESTIONS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "hold": lambda _request: [],
    "mute": lambda _request: [],
    "confirm": lambda request: [of_turn("write_confirmation_required", request, data=CONFIRMATION)],
    "form": lambda request: [of_turn("interaction_required", request, data=FORM)],
}
"""First word of an input -> the messages of a turn that stays open."""


def _error(request: str, code: str) -> dict[str, Any]:
    error = {"code": code, "message": "m"}
    return {"type": "error", "requestId": request, "error": error, "data": {"requestId": request, "error": error}}


class FakeSmooth:
    """A smooth server. It accepts a turn with the message `hold` and leaves it open, and does not even accept `mute`.
    `confirm` and `form` wait for an answer to a question. Every other turn is answered at once. Messages from the
    test go to the connection of the last such turn.
    """

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self.tokens: list[str] = []
        """The token of each connection, "" for none."""
        self.turn = ""
        self.hint: dict[str, Any] | None = None
        """A message that comes before the answer to each action, with its request id."""
        self._parked = ""
        self._asked = asyncio.Event()
        self._at: ServerConnection
        self._sessions: dict[str, dict[str, str]] = {}

    @classmethod
    @asynccontextmanager
    async def serving(cls) -> AsyncIterator[FakeSmooth]:
        fake = cls()
        async with websockets.serve(fake._serve, "127.0.0.1", 0, max_size=None) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            fake.url = f"smooth+ws://127.0.0.1:{port}/ws"
            yield fake

    async def say(self, *said: dict[str, Any] | str | bytes | list[str]) -> None:
        """Send these events, or raw frames, whole or in pieces; `$turn` stands for the id of the open turn."""
        for one in said:
            frame = json.dumps(one).replace("$turn", self.turn) if isinstance(one, dict) else one
            with contextlib.suppress(ConnectionClosed) if isinstance(one, list) else contextlib.nullcontext():
                await self._at.send(frame)  # the last piece may be one more than the peer waits for

    async def asked(self) -> None:
        """Wait for a turn that stays open."""
        async with asyncio.timeout(DEADLINE):
            await self._asked.wait()

    async def hang_up(self, code: int) -> None:
        """Close this connection."""
        await self._at.close(code)

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        path = socket.request.path if socket.request is not None else ""
        self.tokens += parse_qs(urlsplit(path).query).get("token", [""])
        async for message in socket:
            action = json.loads(message)
            hints = [{**self.hint, "requestId": action["requestId"]}] if self.hint is not None else []
            for frame in (*hints, *self._answer(action, socket)):
                await socket.send(json.dumps({**frame, "timestamp": 1}))

    def _answer(self, action: dict[str, Any], socket: ServerConnection) -> Iterable[dict[str, Any]]:
        request = action["requestId"]
        done = {"type": "immediate_response", "requestId": request, "status": 200}
        match action["action"]:
            case "create_conversation_session":
                names = ("sessionId", "conversationId", "agentId", "userParticipantId", "agentParticipantId")
                session = {name: str(uuid4()) for name in names}
                self._sessions[session["sessionId"]] = session
                return [{**done, "data": {**session, "agentName": "fake"}}]
            case "get_session" if action["sessionId"] not in self._sessions:
                return [_error(request, "SESSION_NOT_FOUND")]
            case "get_session":
                return [{**done, "data": {**self._sessions[action["sessionId"]], "agentName": "fake"}}]
            case "get_conversation_messages":
                return [{**done, "data": {"messages": [], "nextCursor": None, "hasMore": False}}]
            case "confirm_tool_action":
                if self._parked != "confirm":
                    return [_error(request, "NO_PENDING_CONFIRMATION")]
                self._parked = ""
                return [{**done, "data": {"approved": action["approved"]}}, ended("Done.", self.turn)]
            case "submit_interaction":
                return self._submitted(action, {**done, "data": {}})
            case "send_message":
                return self._turn(action["message"], request, socket)
            case _:
                return [_error(request, "UNSUPPORTED_ACTION")]

    def _submitted(self, action: dict[str, Any], done: dict[str, Any]) -> Iterable[dict[str, Any]]:
        if self._parked != "form":
            return [_error(action["requestId"], "NO_PENDING_INTERACTION")]
        if action["interactionId"] != FORM["interactionId"]:
            return [_error(action["requestId"], "INTERACTION_MISMATCH")]
        self._parked = ""
        return [done, ended("Done.", self.turn)]

    def _turn(self, text: str, request: str, socket: ServerConnection) -> Iterable[dict[str, Any]]:
        accepted = {"type": "immediate_response", "requestId": request, "status": 202, "data": {}}
        if text in QUESTIONS:
            self.turn, self._at, self._parked = request, socket, text
            self._asked.set()
            return [] if text == "mute" else [accepted, *QUESTIONS[text](request)]
        return [accepted, of_turn("stream_token", request, token="Well."), ended("Well.", request)]
