"""The client of the bulk benchmark: a WebSocket on a blocking socket that reads first and looks afterwards.

While the clock runs it only takes bytes from the kernel and looks for the terminal; every frame is parsed, decoded and
counted once the clock stands. So the client costs next to nothing, and yet each turn is checked whole: every token in
order, and the terminal.
"""

from __future__ import annotations

import base64
import os
import socket
import time
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from tests.bench.frames import TEXT, frame, headed, payloads

READ_SIZE = 1 << 20
PATIENCE = 120.0  # seconds without a byte after which the bridge counts as broken
TERMINAL = b"eventual_response"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one turn. `seconds` from the client's frame until its terminal begins to arrive."""

    seconds: float
    frames: int
    text: str
    final: str


class Client:
    """A connection with an open session."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80))
        self._socket.settimeout(PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._handshake(f"{parts.hostname}:{parts.port}", parts.path)
        self._send({"action": "create_conversation_session", "requestId": "open", "agentId": str(uuid4())})
        reply = self._reply()
        assert reply["type"] == "immediate_response", reply
        self._session = reply["data"]["sessionId"]

    def close(self) -> None:
        self._socket.close()

    def turn(self, message: str) -> Seen:
        """Say `message` and take everything up to the terminal."""
        self.begin(message)
        while not self.take():
            pass
        return self.seen()

    def begin(self, message: str) -> None:
        """Say `message`; the clock runs."""
        self._request = f"req-{uuid4()}"
        self._chunks: list[bytes] = []
        self._tail = b""
        action = {
            "action": "send_message",
            "requestId": self._request,
            "sessionId": self._session,
            "message": message,
        }
        self._started = time.perf_counter()
        self._send(action)

    def take(self) -> bool:
        """Take what is there, or wait for something; whether the terminal is in it."""
        chunk = self._receive()
        self._chunks.append(chunk)
        found = TERMINAL in chunk or TERMINAL in self._tail + chunk[: len(TERMINAL)]
        self._tail = (self._tail + chunk[-len(TERMINAL) :])[-len(TERMINAL) :]
        return found

    def seen(self) -> Seen:
        """Return the result of a turn whose terminal was read; the clock has stopped."""
        seconds = time.perf_counter() - self._started
        return _examine(self._whole(b"".join(self._chunks)), self._request, seconds)

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    # --------------------------------------------------------------------------------------------------

    def _handshake(self, host: str, path: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._socket.recv(1)  # byte by byte: what follows the head belongs to the first frame
        assert head.startswith(b"HTTP/1.1 101 "), head

    def _send(self, action: dict[str, Any]) -> None:
        payload = msgspec.json.encode(action)
        size, mask = len(payload), os.urandom(4)
        head = bytes((0x80 | TEXT, 0x80 | 126)) + size.to_bytes(2)  # no action of ours is longer
        self._socket.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)))

    def _receive(self) -> bytes:
        chunk = self._socket.recv(READ_SIZE)
        assert chunk, "the bridge closed the connection"
        return chunk

    def _reply(self) -> Any:
        return msgspec.json.decode(next(payloads(self._whole(self._receive()))))

    def _whole(self, received: bytes) -> bytes:
        """`received` up to the end of a frame, with what is still missing of it."""
        at = 0
        while at < len(received):
            while not headed(received, at):
                received += self._receive()
            at = frame(received, at)[2]
            while len(received) < at:
                received += self._receive()
        return received


def _examine(received: bytes, request: str, seconds: float) -> Seen:
    tokens: list[str] = []
    final = ""
    for payload in payloads(received):
        event = msgspec.json.decode(payload)
        assert event["requestId"] == request, event
        if event["type"] == "stream_token":
            assert event["data"] == {"requestId": request, "token": event["token"]}, event
            tokens.append(event["token"])
        elif event["type"] == "eventual_response":
            final = "".join(event["data"]["data"]["response"]["responseParts"])
    return Seen(seconds=seconds, frames=len(tokens), text="".join(tokens), final=final)
