"""The naive bridge of the other direction: pod clients before a smooth server, with `websockets`: a peer of G9.

    python -m tests.bench.naive_reverse PATH_TO_LISTEN_ON URL_OF_THE_SERVER

asyncio streams with `readline`, `json.loads` and `json.dumps`, one `write` an event. One server connection a client.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from uuid import uuid4

from websockets.asyncio.client import ClientConnection, connect

from tests.gateway.pod_messages import GREETING

LINE_LIMIT = 16 * 1024 * 1024  # asyncio's own 64 KiB are too few for a long `run`


class Bridge:
    """The bridge between a client and its server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: ClientConnection) -> None:
        self.reader = reader
        self.writer = writer
        self.server = server
        self.session = ""
        self.text: list[str] = []
        self.turns = 0

    async def tell(self, event: str, **data: Any) -> None:
        self.writer.write(json.dumps({"event": event, "data": data}).encode() + b"\n")
        await self.writer.drain()

    async def act(self, action: str, **fields: Any) -> None:
        await self.server.send(json.dumps({"action": action, "requestId": str(uuid4()), **fields}))

    async def read_client(self) -> None:
        await self.tell("snapshot", entries=[], greeting=GREETING, status="idle")
        while line := await self.reader.readline():
            method = json.loads(line)
            if method["method"] != "run":
                continue
            segments = method["params"]["input"]
            await self.tell("user_message", segments=segments)
            text = "".join(segment["content"] for segment in segments)
            await self.act("send_message", sessionId=self.session, message=text)

    async def read_server(self) -> None:
        async for raw in self.server:
            event = json.loads(raw)
            kind = event["type"]
            if kind == "stream_token":
                self.text.append(event["token"])
                await self.tell("text_delta", text=event["token"])
            elif kind == "immediate_response" and event["status"] == 202:
                self.text = []
                await self.tell("status", status="running")
                await self.tell("turn_start", turn=self.turns)
            elif kind in ("eventual_response", "error", "cancelled"):
                await self.finish(event)

    async def finish(self, event: dict[str, Any]) -> None:
        await self.tell("text_done", text="".join(self.text))
        if event["type"] == "eventual_response":
            await self.tell("turn_end", turn=self.turns, result="finished")
            await self.tell("run_end", result="finished")
        else:
            await self.tell("error", code="internal", message=event.get("error", {}).get("message", "Cancelled"))
        self.turns += 1
        await self.tell("status", status="idle")


async def main(path: str, url: str) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with connect(url) as server, asyncio.TaskGroup() as group:
                bridge = Bridge(reader, writer, server)
                await bridge.act("create_conversation_session", agentId=str(uuid4()))
                bridge.session = json.loads(await server.recv())["data"]["sessionId"]
                task = group.create_task(bridge.read_server())
                await bridge.read_client()
                task.cancel()
        finally:
            writer.close()

    async with await asyncio.start_unix_server(handle, path, limit=LINE_LIMIT) as server:
        print(f"listening pod+unix:{path}", file=sys.stderr, flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
