"""The pod that feeds the bulk benchmark: after `run` it streams as many text deltas as the input says, at full speed.

    python -m tests.bench.backend PATH

It must cost little, for it shares a core with the client: frames are made once for each size of a turn, and written in
blocks of LINES lines, as docs/performance.md measures "bulk". The words are those of ordinary model output: short, most
of them ASCII, some with what JSON must escape.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from functools import cache

import msgspec

LINES = 32  # lines in one write

WORDS = (
    "The",
    " quick",
    " brown",
    " fox",
    " jumps",
    " over",
    " the",
    " lazy",
    " dog",
    ",",
    " said",
    ' "',
    "D",
    "ragon",
    '"',
    " —",
    " and",
    " no",
    " one",
    " knew",
    " why",
    ".",
    "\n\n",
    "It",
    " is",
    " a",
    " caf",
    "é",
    " in",
    " Paris",
    "!",
    " ",
)

encode = msgspec.json.Encoder().encode


def answer(count: int) -> str:
    """The text of a turn of `count` deltas."""
    whole, rest = divmod(count, len(WORDS))
    return "".join(WORDS) * whole + "".join(WORDS[:rest])


def line(event: str, /, **data: object) -> bytes:
    """Return an event as a pod writes it."""
    return encode({"event": event, "data": data} if data else {"event": event}) + b"\n"


SNAPSHOT = line(
    "snapshot",
    entries=[],
    greeting={
        "pod_name": "bench",
        "cwd": "/srv/bench",
        "provider": "unknown",
        "model": "none",
        "scope_summary": "",
        "tools": [],
        "context_window": 0,
        "context_tokens": 0,
    },
    status="idle",
)


@cache
def turn(count: int) -> tuple[bytes, ...]:
    """The writes of a turn after its `user_message`."""
    deltas = [line("text_delta", text=word) for word in WORDS]
    block = b"".join(deltas[i % len(WORDS)] for i in range(LINES))
    whole, rest = divmod(count, LINES)
    first = line("status", status="running") + line("turn_start", turn=0)
    last = [
        line("text_done", text=answer(count)),
        line("usage", input_tokens=100, output_tokens=count),
        line("turn_end", turn=0, result="finished"),
        line("run_end", result="finished"),
        line("status", status="idle"),
    ]
    return (first, *([block] * whole), b"".join(deltas[:rest] + last))


def serve(connection: socket.socket) -> None:
    """Serve a client: the snapshot, then a turn for each `run`."""
    with connection:
        connection.sendall(SNAPSHOT)
        for raw in connection.makefile("rb"):
            method = msgspec.json.decode(raw)
            if method["method"] != "run":
                continue
            segments = method["params"]["input"]
            connection.sendall(line("user_message", segments=segments))
            for block in turn(int(segments[0]["content"])):
                connection.sendall(block)


def main(path: str) -> None:
    """Listen until killed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        print(f"listening pod+unix:{path}", file=sys.stderr, flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_until_gone, args=(connection,), daemon=True).start()


def _until_gone(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):  # the process under test was ended
        serve(connection)


if __name__ == "__main__":
    assert len(sys.argv) == 2, "usage: python -m tests.bench.backend PATH"
    assert not os.path.exists(sys.argv[1]), "the path is taken"
    main(sys.argv[1])
