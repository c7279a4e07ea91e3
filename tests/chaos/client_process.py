"""A client as a process that a test can kill: `python -m tests.chaos.client_process DIALECT ADDRESS`.

It prints `asked` when its turn has been sent, and stays connected.
"""

from __future__ import annotations

import asyncio
import sys

from tests.chaos.clients import connected


async def main(dialect: str, address: str) -> None:
    async with connected(dialect, address) as client:
        await client.open()
        await client.ask("tell me")
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
