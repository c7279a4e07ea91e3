"""A codewhale client that behaves like editors (docs/dialects/codewhale.md, sections 1 and 11).

It writes one line for each request and reads answers in order. It recognises bare lines and answers by their keys, and
fails on any other line.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.awaited import Awaited
from tests.oracle.codewhale import CodewhaleOracle

DEADLINE = 20.0  # seconds for anything that a test waits for
ROOM = 1 << 24


class CodewhaleClient(Awaited):
    """A client with the received lines in `lines`; `thread` is the one that it began."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self._number = 0
        self.oracle = CodewhaleOracle()
        self.lines: list[dict[str, Any]] = []
        self.thread = ""
        self.over = False

    @classmethod
    @asynccontextmanager
    async def connected(cls, path: str, thread: str | None = None) -> AsyncIterator[CodewhaleClient]:
        """Connect to a Unix socket, and begin a thread or use the given one; "" for none."""
        reader, writer = await asyncio.open_unix_connection(path, limit=ROOM)
        async with cls._of(reader, writer, thread) as client:
            yield client

    @classmethod
    @asynccontextmanager
    async def spawned(cls, argv: Sequence[str], thread: str | None = None) -> AsyncIterator[CodewhaleClient]:
        """Spawn a server as its client; at the end of the block close the server's stdin and wait for it."""
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=ROOM
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with cls._of(process.stdout, process.stdin, thread) as client:
                yield client
        finally:
            try:
                async with asyncio.timeout(DEADLINE):
                    code = await process.wait()
            except TimeoutError:
                process.kill()
                raise
        assert code == 0

    @classmethod
    @asynccontextmanager
    async def _of(
        cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, thread: str | None
    ) -> AsyncIterator[CodewhaleClient]:
        client = cls(reader, writer)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(client._read(), name="codewhale client")
                client.thread = (await client.call("thread/start"))["thread_id"] if thread is None else thread
                try:
                    yield client
                finally:
                    task.cancel()
        finally:
            writer.close()

    async def _read(self) -> None:
        while line := await self._reader.readline():
            frame = json.loads(line)
            assert line == json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n", (
                "a client may grep for compact substrings"
            )
            self.oracle.got(frame)
            self.lines.append(frame)
            self.note()
        self.over = True
        self.note()

    async def send(self, method: str, **params: Any) -> int:
        """Write a request as a line; return its id."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.oracle.said(message)
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()
        return self._number

    async def garble(self, line: bytes) -> None:
        """Write a line that is not a request."""
        self.oracle.garbled()
        self._writer.write(line + b"\n")
        await self._writer.drain()

    async def answer(self, request: int) -> dict[str, Any]:
        """Wait for the answer to a request."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = [line for line in self.lines if line.get("id") == request]
            return bool(found)

        await self.until(there)
        return found[0]

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request; return its answer, a result or an error."""
        return await self.answer(await self.send(method, **params))

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request; return its result."""
        return (await self.ask(method, **params))["result"]

    async def say(self, text: str) -> int:
        """Begin a turn; return its request id."""
        return await self.send("thread/message", thread_id=self.thread, input=text)

    async def news(self) -> None:
        """Wait for the next line; fail if there can be none."""
        assert not self.over, f"the server is gone: {self.lines[-3:]}"
        await super().news()

    def text(self, start: int = 0) -> str:
        """Return the text streamed since this mark."""
        return "".join(line["delta"] for line in self.lines[start:] if line.get("type") == "response_delta")
