r"""Layers of JSON escapes: a text as it is, then with its escapes decoded once, twice and so on.

Tool arguments are JSON in a JSON string, and hold strings with JSON again. Each level hides a secret behind another
layer of `\"` and `\u0073`. A layer is taken off the whole text: JSON or prose with JSON in it, complete or cut off
anywhere. Each index in a lower layer has its place in the text above. Nothing is parsed, so no parser can refuse.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

DEPTH = 8  # layers: a frame, its string, arguments in it, JSON in those, and as much again

ESCAPE = re.compile(
    r'\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(["\\/bfnrt]))'
)
CUT = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
CUT_MAX = 12  # characters of two escapes
SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescaped(text: str) -> str:
    """Return the text with one layer of escapes decoded."""
    return ESCAPE.sub(_meant, text) if "\\" in text else text


def undecided(text: str) -> int:
    """Return the index of an escape that the end of `text` cuts off, else the length of the text."""
    found = CUT.search(text, max(0, len(text) - CUT_MAX))
    return found.start() if found else len(text)


class Layer:
    """A text from which some layers of escapes were taken off."""

    def __init__(self, text: str, above: Layer | None = None) -> None:
        self.text = text
        self._above = above
        self.outermost: str = above.outermost if above is not None else text
        self._escapes: list[int] | None = None  # indices of the characters that were escapes
        self._shifts = [0]  # for the nth of them: how many more characters the text above has before it

    def place(self, at: int) -> int:
        """Return the index in the outermost text that belongs to the index `at` of this layer."""
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


def layers(text: str) -> list[Layer]:
    """Return the text as it is, then each layer below it until no escape is left."""
    found = [Layer(text)]
    while "\\" in text and len(found) <= DEPTH:
        below = unescaped(text)
        if below == text:
            break
        found.append(Layer(below, found[-1]))
        text = below
    return found


def _meant(found: re.Match[str]) -> str:
    high, low, plain, short = found.groups()
    if short:
        return SHORT.get(short, short)
    if plain:
        return chr(int(plain, 16))
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
