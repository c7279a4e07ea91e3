"""Find the line of a key in a TOML file, and walk through its texts by their keys.

The parser itself finds it: it parses prefixes of the file, with open brackets closed, and bisects for the first one
that has the key. So no second TOML parser is needed, which might disagree. Only a file with errors has this cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tomli

KeyPath = tuple[str | int, ...]
"""The keys and indices that lead to a value: `("route", 0, "listen", 1)`."""

Found = tuple[KeyPath, str]
"""An error in a configuration: its key and its text."""

CLOSERS = ("", "]", "}", "}]", "]}", "]}]", '"""', "'''")
"""The endings that complete a prefix: an open array, inline table, table in an array, or multi-line string."""


class TomlLines:
    """The lines of a TOML file."""

    def __init__(self, text: str) -> None:
        self._lines = text.replace("\r\n", "\n").split("\n")
        self._parsed: dict[int, dict[str, Any] | None] = {}  # number of lines -> table of this prefix

    def of(self, path: KeyPath) -> int:
        """Return the line (from 1) of `path`, or of its nearest existing parent."""
        for length in range(len(path), 0, -1):
            if (number := self._first_with(path[:length])) is not None:
                return number
        return 1

    def _first_with(self, path: KeyPath) -> int | None:
        """Return the first line up to which the file holds `path`; None if it does nowhere.

        Bisection finds it, because every longer prefix holds what a prefix holds.
        """
        low, high = 1, len(self._lines) + 1
        while low < high:
            middle = (low + high) // 2
            number, table = self._readable_from(middle, high)
            if table is not None and _holds(table, path):
                high = number
            else:
                low = number + 1
        return high if high <= len(self._lines) else None

    def _readable_from(self, number: int, end: int) -> tuple[int, dict[str, Any] | None]:
        """Return the first prefix with at least `number` lines, and fewer than `end`, that is TOML, and its table."""
        for length in range(number, end):
            if length not in self._parsed:
                self._parsed[length] = _read(self._lines[:length])
            if (table := self._parsed[length]) is not None:
                return length, table
        return end - 1, None


def map_texts(value: Any, change: Callable[[KeyPath, str], str], path: KeyPath = ()) -> Any:
    """Return a parsed value with `change(path, text)` in place of each text in it."""
    if isinstance(value, dict):
        return {key: map_texts(item, change, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [map_texts(item, change, (*path, index)) for index, item in enumerate(value)]
    return change(path, value) if isinstance(value, str) else value


def format_key(path: KeyPath) -> str:
    """Return a key path in TOML's notation: `route[0].listen[1]`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def _read(lines: Sequence[str]) -> dict[str, Any] | None:
    for closer in CLOSERS:
        try:
            return tomli.loads("\n".join((*lines, closer)))
        except tomli.TOMLDecodeError:
            continue
    return None


def _holds(table: Any, path: KeyPath) -> bool:
    for key in path:
        if isinstance(key, str):
            if not isinstance(table, dict) or key not in table:
                return False
        elif not isinstance(table, list) or key >= len(table):
            return False
        table = table[key]
    return True
