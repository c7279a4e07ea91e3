"""At which line of a configuration file a key stands.

The parser itself says it, fed with ever more of the file: a key stands where the lines so far, with what they leave
open closed, first hold it. So there is no second reader of TOML that could see something else than the first. That
costs a parse a line, and only a file with something to report pays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import tomli

__all__ = ["KeyPath", "Lines", "written"]

KeyPath = tuple[str | int, ...]
"""The keys and indices that lead to a value: `("route", 0, "listen", 1)`."""

CLOSERS = ("", "]", "}", "}]", "]}", "]}]", '"""', "'''")
"""What may be open at the end of a line: an array, an inline table, tables in an array, a string of several lines."""


class Lines:
    """The lines of a file that is TOML."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, path: KeyPath) -> int:
        """The line of `path`, from 1; of the nearest that stands there where the path itself does not."""
        for length in range(len(path), 0, -1):
            for number, table in self._growing:
                if _holds(table, path[:length]):
                    return number
        return 1

    @cached_property
    def _growing(self) -> list[tuple[int, dict[str, Any]]]:
        """What is read of the file up to each line that ends somewhere sensible."""
        lines = self._text.replace("\r\n", "\n").split("\n")
        tables = []
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                table = _read(lines[:number])
                if table is not None:
                    tables.append((number, table))
        return tables


def written(path: KeyPath) -> str:
    """A key path as people write it: `route[0].listen[1]`."""
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
