"""The recorded conversations between real programs, each as its messages in their recorded order.

The recordings of pod, pando and codewhale are in tests/data. Those of smooth are beside the repository; without them
their tests are skipped.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.gateway import registry
from tests.data_files import captures, rows, value_of

CAPTURES: dict[str, dict[str, Path]] = {
    dialect: {path.stem[:2]: path for path in captures(dialect)} for dialect in registry.OURS
}
"""Dialect -> number of a capture -> its file."""


class Message(Struct, frozen=True, kw_only=True):
    """A recorded message: its sender, connection, text, and JSON value if it has one. `way` is "said" for a message of
    the client and "got" for one to it. The value of a publication is its envelope.
    """

    conn: str
    way: str
    text: str
    value: Any


@cache
def messages(dialect: str, number: str) -> tuple[Message, ...]:
    """Return all messages of a capture; a closed connection is a message without text."""
    return tuple(_message(row) for row in rows(CAPTURES[dialect][number]) if "dir" in row)


def _message(row: dict[str, Any]) -> Message:
    text = row["frames"][-1] if "frames" in row else row["frame"] or ""
    body = text.partition("\0")[2] if row["dir"] == "pub" else text
    way = "said" if row["dir"] == "c2s" else "got"
    return Message(conn=row.get("conn", "a"), way=way, text=text, value=value_of(body))
