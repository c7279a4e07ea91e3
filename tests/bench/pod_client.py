"""A pod client for the steady benchmark: like client.py, it takes bytes first and looks afterwards."""

from __future__ import annotations

import socket
import time

import msgspec

from tests.bench.client import PATIENCE, READ_SIZE, Seen

__all__ = ["PodClient"]

TERMINAL = b'"run_end"'


class PodClient:
    """A connection to a pod whose snapshot was read."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(path)
        self._chunks: list[bytes] = []
        self._tail = b""

    def begin(self, message: str) -> None:
        """Say `message`; the clock runs."""
        self._started = time.perf_counter()
        run = {"method": "run", "params": {"input": [{"kind": "text", "content": message}]}}
        self._socket.sendall(msgspec.json.encode(run) + b"\n")

    def take(self) -> bool:
        """Take what is there, or wait for something; whether the end of the run is in it."""
        chunk = self._socket.recv(READ_SIZE)
        assert chunk, "the bridge closed the connection"
        self._chunks.append(chunk)
        found = TERMINAL in chunk or TERMINAL in self._tail + chunk[: len(TERMINAL)]
        self._tail = (self._tail + chunk[-len(TERMINAL) :])[-len(TERMINAL) :]
        return found

    def seen(self) -> Seen:
        """Return the result of the run."""
        seconds = time.perf_counter() - self._started
        received = b"".join(self._chunks)
        lines = received[: received.rindex(b"\n")].split(b"\n")
        events = [msgspec.json.decode(line) for line in lines]
        tokens = [event["data"]["text"] for event in events if event["event"] == "text_delta"]
        final = [event["data"]["text"] for event in events if event["event"] == "text_done"]
        return Seen(seconds=seconds, frames=len(tokens), text="".join(tokens), final="".join(final))

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
