"""The part of a naive bridge that no WebSocket library changes: json.loads, json.dumps and one send per event."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

LINE_LIMIT = 16 * 1024 * 1024  # asyncio's own 64 KiB are too few for a long `text_done`


class NaiveBridge:
    """The bridge between a smooth client, to which `write` sends a text message, and its pod."""

    def __init__(
        self, write: Callable[[str], Awaitable[None]], pod: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.write = write
        self.pod = pod
        self.writer = writer
        self.request = ""
        self.text: list[str] = []
        self.usage: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None

    async def send(self, kind: str, request: str | None, **fields: Any) -> None:
        now = int(time.time() * 1000)
        await self.write(json.dumps({"type": kind, "requestId": request, **fields, "timestamp": now}))

    async def act(self, action: dict[str, Any]) -> None:
        """Act on what the client asked for."""
        request = action.get("requestId")
        if action["action"] == "create_conversation_session":
            names = ("sessionId", "conversationId", "userParticipantId", "agentParticipantId")
            session = {name: str(uuid4()) for name in names} | {"agentName": "pod"}
            await self.send("immediate_response", request, status=200, message="OK", data=session)
        elif action["action"] == "send_message":
            self.request, self.text, self.usage, self.error = request or str(uuid4()), [], None, None
            await self.send("immediate_response", request, status=202, message="Accepted", data={})
            run = {"method": "run", "params": {"input": [{"kind": "text", "content": action["message"]}]}}
            self.writer.write(json.dumps(run).encode() + b"\n")
            await self.writer.drain()

    async def read_pod(self) -> None:
        while line := await self.pod.readline():
            event = json.loads(line)
            name, data, request = event["event"], event.get("data"), self.request
            if name == "text_delta":
                token = data["text"]
                self.text.append(token)
                await self.send("stream_token", request, token=token, data={"requestId": request, "token": token})
            elif name == "usage":
                self.usage = {"promptTokens": data["input_tokens"], "completionTokens": data["output_tokens"]}
            elif name == "error":
                self.error = {"code": "INTERNAL_ERROR", "message": data["message"]}
            elif name == "status" and data["status"] != "running" and request:
                self.request = ""
                await self.finish(request)

    async def finish(self, request: str) -> None:
        if self.error is not None:
            await self.send("error", request, error=self.error, data={"requestId": request, "error": self.error})
            return
        response = {"responseParts": ["".join(self.text)]}
        answer = {"messageId": str(uuid4()), "response": response, "needsEscalation": False}
        if self.usage is not None:
            answer["usage"] = self.usage
        data = {"requestId": request, "status": 200, "data": answer}
        await self.send("eventual_response", request, status=200, data=data)
