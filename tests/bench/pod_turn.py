"""The lines of a turn of a pod with as many text deltas as wanted, for benchmarks that write them at full speed.

The writes are made once for each size of a turn, in blocks of LINES lines, as docs/performance.md measures "bulk". The
words are those of ordinary model output: short, most of them ASCII, some with what JSON must escape.
"""

from __future__ import annotations

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
