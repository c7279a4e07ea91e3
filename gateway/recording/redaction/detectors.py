"""A shape of secrets: where it may begin, what it looks like, and what could still become one.

A shape begins at one of a few fixed words, its anchors, so that a text without them costs a search for words and no
pattern at all. Every pattern is tried at its anchors alone and reads on without ever going back (possessive), and goes
on behind what it has read, whether it was a secret or not: a text is passed over once, whoever wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

__all__ = ["RUN", "Detector", "Judge", "value_of"]

Judge = Callable[[re.Match[str]], bool]

RUN = 16  # characters without a space: longer than most words, shorter than any key

VALUES = ("secret", "quoted", "single", "bare")
"""The groups of a pattern that may hold the secret; one of them does."""


class Detector(Struct, frozen=True, kw_only=True):
    """One shape of secrets. `folded` anchors are lower-case and match any case; without any the pattern is used.

    `opens` matches up to the end of a text what could become a secret if the text went on. `run` is what `opens`
    reads of a value without quotes where that ends before the text does; an anchor in such a value reads up to the
    same end, unless it is the last one. `judge` has the last word on what `pattern` found. `reach` characters at the
    end of a text may belong to a secret of which nothing can be seen yet; 0 where `opens` sees it. `needs` is what
    every text has that holds one: a "run" of RUN characters without a space, such a "word" with an anchor in it, or
    the "sign" of an assignment.
    """

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    opens: re.Pattern[str] | None = None
    run: re.Pattern[str] | None = None
    folded: bool = False
    judge: Judge | None = None
    reach: int = 0
    needs: Literal["run", "word", "sign", ""] = ""

    def matches(self, text: str, folded: str) -> Iterator[re.Match[str]]:
        """All secrets in `text`; `folded` is the text in lower case, with each character in its place."""
        for found in self._candidates(self.pattern, text, folded):
            if self.judge is None or self.judge(found):
                yield found

    def anchors_in(self, text: str, folded: str) -> int:
        """Return how many anchors stand in `text`: as often the pattern is tried at most."""
        where = folded if self.folded else text
        return sum(map(where.count, self.anchors))

    def open(self, text: str, folded: str, last_word: int) -> re.Match[str] | None:
        """What the end of `text` may have cut off. No space stands in it behind `last_word`."""
        start = last_word if self.needs == "word" else 0
        if self.opens is None:
            return None
        where = folded if self.folded else text
        for anchor in self.anchors:
            at = where.find(anchor, start)
            while at >= 0:
                found = self.opens.match(text, at)
                if found is not None:
                    return found
                at = self._behind_run(anchor, text, where, at)
        return None

    def _behind_run(self, anchor: str, text: str, where: str, at: int) -> int:
        """Return where the next anchor stands that may still reach the end of the text, -1 if there is none."""
        read = self.run.match(text, at) if self.run is not None else None
        if read is None:
            return where.find(anchor, at + 1)
        last = where.rfind(anchor, at + 1, read.end() + len(anchor) - 1)
        return last if last >= 0 else where.find(anchor, read.end())

    def _candidates(self, pattern: re.Pattern[str], text: str, folded: str) -> Iterator[re.Match[str]]:
        if not self.anchors:
            yield from pattern.finditer(text)
            return
        where = folded if self.folded else text
        for anchor in self.anchors:
            at = where.find(anchor)
            while at >= 0:
                found = pattern.match(text, at)
                if found is not None:
                    yield found
                at = where.find(anchor, max(at + 1, found.end() if found is not None else 0))


def value_of(found: re.Match[str]) -> tuple[int, int]:
    """Where in the text the secret itself stands."""
    groups = found.re.groupindex
    return next(found.span(name) for name in VALUES if name in groups and found[name] is not None)
