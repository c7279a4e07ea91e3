"""A client of each dialect for `pairs`: like client.py, they take bytes first and look afterwards.

Each stays connected, says `count N` turn after turn, and gives back the text that came.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import msgspec
import zmq

from tests.bench.client import PATIENCE, READ_SIZE, Client

__all__ = ["CALLERS", "Caller"]

NOBODY = {"String": "", "Valid": False}


class Caller(Protocol):
    """A client of some dialect."""

    def turn(self, message: str) -> tuple[float, str]:
        """Say `message` and take everything up to the end: the seconds until it came, and the text."""

    def close(self) -> None:
        """Disconnect the caller."""


class Smooth:
    """A smooth client."""

    def __init__(self, url: str) -> None:
        self._client = Client(url)

    def turn(self, message: str) -> tuple[float, str]:
        seen = self._client.turn(message)
        return seen.seconds, seen.text

    def close(self) -> None:
        self._client.close()


class Lines:
    """A client of a dialect of lines, at a Unix socket; `end` is in the last line of a turn and in no other."""

    end: bytes

    def __init__(self, url: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(url.removeprefix("unix:"))

    def turn(self, message: str) -> tuple[float, str]:
        started = time.perf_counter()
        self.say(message)
        received = self._until(self.end)
        seconds = time.perf_counter() - started
        return seconds, "".join(self.words(msgspec.json.decode(line) for line in received.splitlines()))

    def close(self) -> None:
        self._socket.close()

    def say(self, message: str) -> None:
        raise NotImplementedError

    def words(self, lines: Iterator[Any]) -> Iterator[str]:
        raise NotImplementedError

    def write(self, value: object) -> None:
        """One line."""
        self._socket.sendall(msgspec.json.encode(value) + b"\n")

    def _until(self, end: bytes) -> bytes:
        """Everything up to the line in which `end` stands."""
        chunks: list[bytes] = []
        tail = b""
        found = False
        while not (found and tail.endswith(b"\n")):
            chunk = self._socket.recv(READ_SIZE)
            assert chunk, "the gateway closed the connection"
            chunks.append(chunk)
            found = found or end in chunk or end in tail + chunk[: len(end)]
            tail = (tail + chunk)[-len(end) :]
        return b"".join(chunks)


class Pod(Lines):
    """A pod client."""

    end = b'"status":"idle"'

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._until(b'"snapshot"')

    def say(self, message: str) -> None:
        self.write({"method": "run", "params": {"input": [{"kind": "text", "content": message}]}})

    def words(self, lines: Iterator[Any]) -> Iterator[str]:
        return (line["data"]["text"] for line in lines if line["event"] == "text_delta")


class Codewhale(Lines):
    """A codewhale client; only its answers are JSON-RPC."""

    end = b'"jsonrpc"'

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._call("thread/start")
        self._thread = msgspec.json.decode(self._until(self.end))["result"]["thread_id"]

    def say(self, message: str) -> None:
        self._call("thread/message", thread_id=self._thread, input=message)

    def words(self, lines: Iterator[Any]) -> Iterator[str]:
        return (line["delta"] for line in lines if line.get("type") == "response_delta")

    def _call(self, method: str, /, **params: object) -> None:
        self.write({"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params})


class Pando:
    """A pando client: everything that is published, and a connection for its calls."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        calls = parse_qs(parts.query).get("rpc", [str((parts.port or 0) + 1)])[0]
        self._context = zmq.Context()
        self._told, self._calls = self._context.socket(zmq.SUB), self._context.socket(zmq.DEALER)
        self._told.setsockopt(zmq.RCVHWM, 0)
        self._told.subscribe(b"")
        for each, port in ((self._told, parts.port), (self._calls, calls)):
            each.setsockopt(zmq.RCVTIMEO, int(PATIENCE * 1000))
            each.connect(f"tcp://{parts.hostname}:{port}")
        self._session = str(uuid4())
        row = {
            "id": self._session,
            "parent_session_id": NOBODY,
            "title": "bench",
            "message_count": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cost": 0,
        }
        self._session = self._call("db.write", meta={}, method="CreateSession", params=row)["id"]
        while not self._told.poll(100):  # a subscription is heard of by nothing but what is published
            self._call("session.activate", session_id=self._session)

    def turn(self, message: str) -> tuple[float, str]:
        frames: list[bytes] = []
        started = time.perf_counter()
        self._call("message.send", session_id=self._session, content=message)
        while not frames or not frames[-1].startswith(b"llm.end\0"):
            frames.append(self._told.recv())
        seconds = time.perf_counter() - started
        bodies = (msgspec.json.decode(frame.partition(b"\0")[2]) for frame in frames if frame.startswith(b"llm.token"))
        return seconds, "".join(body["payload"]["token"] for body in bodies)

    def close(self) -> None:
        self._context.destroy(linger=0)

    def _call(self, method: str, /, **params: object) -> Any:
        call = {"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params}
        self._calls.send_multipart([b"", msgspec.json.encode(call)])
        reply = msgspec.json.decode(self._calls.recv_multipart()[-1])
        assert "error" not in reply, reply
        return reply["result"]


CALLERS: dict[str, Callable[[str], Caller]] = {"smooth": Smooth, "pod": Pod, "pando": Pando, "codewhale": Codewhale}
