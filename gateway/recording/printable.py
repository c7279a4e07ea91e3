"""Make text of peers safe for terminals and pages: control characters and directional marks become visible."""

from __future__ import annotations

import re

from msgspec import json

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    """Return `text` with control characters and marks of direction written as `\\x1b` or `\\u202e`."""
    return UNSEEN.sub(lambda found: _escaped(ord(found[0])), text)


def printable_json(value: object) -> str:
    """Return a value as one line of JSON. Characters that control a terminal are escaped, for example as `\\u009b`."""
    text = json.encode(value).decode()
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: `1 turn`, `2 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sample(text: str, most: int) -> str:
    """Return the beginning of a text on one line, in at most `most` characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
