"""The bridge that a competent user would write with aiohttp: the peer of G4.

    python -m tests.bench.naive_aiohttp PATH_OF_THE_POD_SOCKET

asyncio streams with `readline`, `json.loads` and `json.dumps`, one `send_str` an event. One pod connection a client.
"""

from __future__ import annotations

import asyncio
import json
import sys

from aiohttp import ClientConnectionResetError, WSMsgType, web

from tests.bench.naive_bridge import LINE_LIMIT, NaiveBridge


async def read_client(client: web.WebSocketResponse, bridge: NaiveBridge) -> None:
    async for message in client:
        if message.type is not WSMsgType.TEXT:
            break
        await bridge.act(json.loads(message.data))


async def main(path: str) -> None:
    async def handle(request: web.Request) -> web.WebSocketResponse:
        client = web.WebSocketResponse()
        await client.prepare(request)
        pod, writer = await asyncio.open_unix_connection(path, limit=LINE_LIMIT)
        bridge = NaiveBridge(client.send_str, pod, writer)
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(bridge.read_pod())
                await read_client(client, bridge)
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
