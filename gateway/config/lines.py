"""Find the line of a key in a TOML file.

The parser itself finds it: it parses ever longer prefixes of the file, with open brackets closed, until the key
appears. So no second TOML reader could disagree with the first. This costs one parse for each line, and only for a file
with something to report.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import tomli

__all__ = ["KeyPath", "TomlLines", "written"]

KeyPath = tuple[str | int, ...]
"""The keys and indices that lead to a value: `("route", 0, "listen", 1)`."""

CLOSERS = ("", "]", "}", "}]", "]}", "]}]", '"""', "'''")
"""The endings that complete a prefix: an open array, inline table, table in an array, or multi-line string."""


class TomlLines:
    """The lines of a TOML file."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, path: KeyPath) -> int:
        """Return the line (from 1) of `path`, or of its nearest existing parent."""
        for length in range(len(path), 0, -1):
            for number, table in self._growing:
                if _holds(table, path[:length]):
                    return number
        return 1

    @cached_property
    def _growing(self) -> list[tuple[int, dict[str, Any]]]:
        """Line number and parsed table for each prefix of the file that can be parsed."""
        lines = self._text.replace("\r\n", "\n").split("\n")
        tables = []
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                table = _read(lines[:number])
                if table is not None:
                    tables.append((number, table))
        return tables


def written(path: KeyPath) -> str:
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
