"""Find the keys of key_table.py: one search for all prefixes, then the formats of the prefix that was found.

A key begins behind a character of no word, so the search reads on quickly inside words and base64. A format reads at
most as many characters as it needs before it fails, so a text costs time in proportion to its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, groupby
from typing import Literal

from msgspec import Struct

from dragoman.gateway.recording.redaction.key_table import ALPHABETS, KEY_TABLE

LEAST = 12  # characters: keys are longer, most words are shorter
LARGE = 1024 * 1024  # characters: less than 80,000 keys
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!$%+-./=@_~"  # of any key
LENGTH = re.compile(r"(?P<exact>=?)(?P<first>[0-9]+)(?P<rest>(?:[^0-9][0-9]+)*)\Z")


class KeyFormat(Struct, frozen=True, kw_only=True):
    """The format of a kind of key with one of its prefixes. `sign` precedes a key that begins no word."""

    kind: str
    prefix: str
    sign: str
    alphabet: str
    exact: bool
    digit: bool
    lengths: tuple[int, ...]
    separators: tuple[str, ...]

    @property
    def prefix_in_text(self) -> str:
        """The prefix with what must stand before it."""
        return f"1234567890{self.sign}{self.prefix}" if self.sign else self.prefix

    @property
    def body(self) -> str:
        """The pattern of the part behind the prefix. It never backtracks."""
        some = f"[{ALPHABETS[self.alphabet]}]"
        if self.exact:
            return f"{some}{{{self.lengths[0]}}}(?!{some})"
        parts = [f"{some}{{{length},}}+" for length in self.lengths]
        joined = parts[0] + "".join(re.escape(s) + part for s, part in zip(self.separators, parts[1:], strict=True))
        return rf"(?={some[:-1].replace('0-9', '')}]*+[0-9])" + joined if self.digit else joined

    @property
    def characters(self) -> str:
        """The pattern of one character behind the prefix."""
        return f"[{''.join(map(re.escape, self.separators))}{ALPHABETS[self.alphabet]}]"


PrefixPatterns = tuple[list[tuple[str, re.Pattern[str]]], list[tuple[str, str, re.Pattern[str]]]]
"""The patterns of the keys that may begin with a prefix, each with its kind, the most specific first.

They are those of whole keys, and those of keys that are cut off, which also have their characters.
"""


class PrefixedKeys:
    """The detector of all keys with a fixed prefix. A key begins a word, or follows the sign of its format."""

    needs: Literal["run"] = "run"
    in_word = True
    anchors: tuple[str, ...] = ()  # as of a Detector: one search finds the prefixes
    folded = False
    reach = 0

    def __init__(self, table: str = KEY_TABLE) -> None:
        self._formats = sorted(key_formats(table), key=lambda one: len(one.prefix), reverse=True)
        self._known: dict[str, PrefixPatterns] = {}
        prefixes = sorted({one.prefix for one in self._formats}, key=lambda prefix: (prefix[0], -len(prefix)))
        groups = groupby(prefixes, lambda prefix: prefix[0])
        words = [re.escape(first) + "(?:" + "|".join(re.escape(p[1:]) for p in some) + ")" for first, some in groups]
        prefix = f"(?=({'|'.join(words)}))"
        self._start = re.compile(prefix)
        self._behind = re.compile("[^A-Za-z0-9_-]" + prefix)
        self._long = re.compile(
            rf"[^A-Za-z0-9_-](?=[A-Za-z0-9$%+./@_~-]{{{LEAST}}})" + prefix
        )  # most words are shorter

    def matches(self, text: str, _folded: str) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield all keys in `text`, each with its kind."""
        start = self._start.match(text) or self._long.search(text)
        while start is not None:
            end = start.end()
            for kind, pattern in self._prefix(start[1])[0]:
                found = pattern.match(text, start.end())
                if found is not None:
                    yield kind, found
                    end = found.end()
                    break
            start = self._long.search(text, end)

    def anchors_in(self, text: str, _folded: str) -> int:
        """Return how many prefixes stand in a large text; in a smaller one they cannot be too many."""
        return len(self._long.findall(text)) if len(text) > LARGE else 0

    def open(self, text: str, _folded: str, last_word: int) -> tuple[str, re.Match[str]] | None:
        """Return the unfinished key that the end of `text` cuts off. No space stands behind `last_word`."""
        ended: dict[str, int] = {}  # characters of a format -> where they end behind the last prefix
        begin = max(last_word, len(text.rstrip(CHARACTERS)))
        first = self._start.match(text, begin)
        for start in chain([first] if first is not None else [], self._behind.finditer(text, begin)):
            for kind, characters, pattern in self._prefix(start[1])[1]:
                if ended.get(characters, 0) > start.end():
                    continue  # these characters end before the text does
                found = pattern.match(text, start.end())
                if found is not None and found.end() == len(text):
                    return kind, found
                ended[characters] = found.end() if found is not None else 0
        return None

    def _prefix(self, prefix: str) -> PrefixPatterns:
        """Return the patterns of all formats whose prefix is `prefix` or begins it. They are compiled when needed."""
        if prefix not in self._known:
            patterns, opens = [], []
            for one in self._formats:
                if prefix.startswith(one.prefix):
                    behind = f"(?<=[A-Za-z0-9]{re.escape(one.sign)})" if one.sign else ""
                    begin = f"{behind}(?P<secret>{re.escape(one.prefix)}"
                    patterns.append((one.kind, re.compile(f"{begin}{one.body})")))
                    opens.append((one.kind, one.characters, re.compile(f"{begin}{one.characters}*+)")))
            self._known[prefix] = patterns, opens
        return self._known[prefix]


def key_formats(table: str = KEY_TABLE) -> Iterator[KeyFormat]:
    """Yield the formats of a table: one for each prefix of each line."""
    for line in table.strip().splitlines():
        kind, alphabet, length, *prefixes = line.split()
        name, _, digit = alphabet.partition("+")
        found = LENGTH.match(length)
        if found is None:
            raise ValueError(f"not a length: {length!r}")
        for prefix in prefixes:
            starred = prefix.startswith("*")
            yield KeyFormat(
                kind=kind,
                prefix=prefix[2:] if starred else prefix,
                sign=prefix[1] if starred else "",
                alphabet=name,
                exact=bool(found["exact"]),
                digit=bool(digit),
                lengths=(int(found["first"]), *map(int, re.findall("[0-9]+", found["rest"]))),
                separators=tuple(re.findall("[^0-9]", found["rest"])),
            )
