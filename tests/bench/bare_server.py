"""The least that such a gateway costs: a WebSocket server on aiohttp and uvloop, with msgspec and pyzmq imported.

python -m tests.bench.bare_server
"""

from __future__ import annotations

import asyncio
import sys

import msgspec
import uvloop
import zmq.asyncio
from aiohttp import WSMsgType, web


class Message(msgspec.Struct):
    text: str


DECODER = msgspec.json.Decoder(Message)


async def echo(request: web.Request) -> web.WebSocketResponse:
    client = web.WebSocketResponse()
    await client.prepare(request)
    async for message in client:
        if message.type is WSMsgType.TEXT:
            await client.send_bytes(msgspec.json.encode(DECODER.decode(message.data)))
    return client


async def serve() -> None:
    publication = zmq.asyncio.Context.instance().socket(zmq.PUB)
    publication.bind_to_random_port("tcp://127.0.0.1")
    app = web.Application()
    app.router.add_get("/ws", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"listening {site.name}", file=sys.stderr, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())
