"""The bridge that a competent user would write with `websockets`: the peer of G3.

    python -m tests.bench.naive_websockets PATH_OF_THE_POD_SOCKET

asyncio streams with `readline`, `json.loads` and `json.dumps`, one `send` an event. One pod connection a client.
"""

from __future__ import annotations

import asyncio
import json
import sys

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.bench.naive_bridge import LINE_LIMIT, NaiveBridge


async def read_client(client: ServerConnection, bridge: NaiveBridge) -> None:
    async for raw in client:
        await bridge.act(json.loads(raw))


async def main(path: str) -> None:
    async def handle(client: ServerConnection) -> None:
        pod, writer = await asyncio.open_unix_connection(path, limit=LINE_LIMIT)
        bridge = NaiveBridge(client.send, pod, writer)
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(bridge.read_pod())
                await read_client(client, bridge)
                reader.cancel()
        except* ConnectionClosed:
            pass
        finally:
            writer.close()

    async with serve(handle, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        print(f"listening smooth+ws://127.0.0.1:{port}/ws", file=sys.stderr, flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
