"""The bridge that a competent user would write with aiohttp: the peer of G4.

    python -m tests.bench.naive_aiohttp PATH_OF_THE_POD_SOCKET

asyncio streams with `readline`, `json.loads` and `json.dumps`, one `send_str` an event. One pod connection a client.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any
from uuid import uuid4

from aiohttp import ClientConnectionResetError, WSMsgType, web

LINE_LIMIT = 16 * 1024 * 1024  # asyncio's own 64 KiB are too few for a long `text_done`


def now() -> int:
    return int(time.time() * 1000)


class Bridge:
    """The bridge between a client and its pod."""

    def __init__(self, client: web.WebSocketResponse, pod: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.client = client
        self.pod = pod
        self.writer = writer
        self.request = ""
        self.text: list[str] = []
        self.usage: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None

    async def send(self, kind: str, request: str | None, **fields: Any) -> None:
        await self.client.send_str(json.dumps({"type": kind, "requestId": request, **fields, "timestamp": now()}))

    async def read_client(self) -> None:
        async for message in self.client:
            if message.type is not WSMsgType.TEXT:
                break
            action = json.loads(message.data)
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


async def main(path: str) -> None:
    async def handle(request: web.Request) -> web.WebSocketResponse:
        client = web.WebSocketResponse()
        await client.prepare(request)
        pod, writer = await asyncio.open_unix_connection(path, limit=LINE_LIMIT)
        bridge = Bridge(client, pod, writer)
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(bridge.read_pod())
                await bridge.read_client()
                reader.cancel()
        except* ClientConnectionResetError:
            pass
        finally:
            writer.close()
        return client

    app = web.Application()
    app.router.add_get("/ws", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    print(f"listening smooth+ws://127.0.0.1:{port}/ws", file=sys.stderr, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
