r"""A text as a JSON decoder would see what stands in its strings: escapes as the characters that they mean.

Tool arguments are JSON in a JSON string, with strings in it that hold JSON again: each level hides a secret behind
another layer of `\"` and `\u0073`. Each layer is taken off of the whole text, whether it is JSON or prose with JSON in
it, complete or cut off anywhere, and what is found below has its place in the text above. Nothing is parsed, so there
is nothing that a parser could refuse.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

__all__ = ["DEPTH", "Layer", "layers", "undecided", "unescaped"]

DEPTH = 8  # layers: a frame, its string, arguments in it, JSON in those, and as much again

ESCAPE = re.compile(
    r'\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(["\\/bfnrt]))'
)
CUT = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
CUT_MAX = 12  # characters of two escapes
SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescaped(text: str) -> str:
    """One layer less."""
    return ESCAPE.sub(_meant, text) if "\\" in text else text


def undecided(text: str) -> int:
    """Where an escape begins that the end of `text` cuts off; its length if there is none."""
    found = CUT.search(text, max(0, len(text) - CUT_MAX))
    return found.start() if found else len(text)


class Layer:
    """A text after some layers were taken off."""

    def __init__(self, text: str, above: Layer | None = None) -> None:
        self.text = text
        self._above = above
        self.outermost: str = above.outermost if above is not None else text
        self._escapes: list[int] | None = None  # where the characters stand that were escapes
        self._shifts = [0]  # by how much the text above is longer before the nth of them

    def place(self, at: int) -> int:
        """The index in the outermost text of the character at `at`; for an end, of what stands behind it."""
        if self._above is None:
            return at
        if self._escapes is None:
            self._escapes = list(self._locate(self._above.text))
        return self._above.place(at + self._shifts[bisect_left(self._escapes, at)])

    def _locate(self, above: str) -> Iterator[int]:
        for found in ESCAPE.finditer(above):
            shift = self._shifts[-1]
            yield found.start() - shift
            self._shifts.append(shift + found.end() - found.start() - 1)


def layers(text: str) -> Iterator[Layer]:
    """The text as it is, then with ever more layers taken off, as long as there is something to take off."""
    layer = Layer(text)
    yield layer
    for _ in range(DEPTH):
        if "\\" not in layer.text:
            return
        below = unescaped(layer.text)
        if below == layer.text:
            return
        layer = Layer(below, layer)
        yield layer


def _meant(found: re.Match[str]) -> str:
    high, low, plain, short = found.groups()
    if short:
        return SHORT.get(short, short)
    if plain:
        return chr(int(plain, 16))
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
