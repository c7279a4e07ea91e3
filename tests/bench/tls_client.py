"""Speak TLS for the callers of load.c, on their core: plain TCP in front, TLS to the program under test.

python -m tests.bench.tls_client ENDPOINT
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from urllib.parse import urlsplit

import uvloop


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(262_144):
        writer.write(data)
        await writer.drain()
    writer.close()


async def main(endpoint: str) -> None:
    port = urlsplit(endpoint.partition("+")[2]).port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the certificate is this run's own

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        await asyncio.gather(copy(reader, outer), copy(inner, writer), return_exceptions=True)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(f"listening smooth+ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
