"""Find secrets that are known, as the tokens of the gateway itself, by their value.

A pattern with all beginnings of a secret would grow with the square of its length: 18 s for 2,000 characters. So the
beginning that a text ends with is looked up in the sorted secrets.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection

from dragoman.gateway.recording.redaction.finder import HIDDEN, Detector

LEAST = 12  # characters of a secret that is searched for: shorter ones stand in other words too

_REST = re.compile("(?s:.*)")


class KnownSecrets(Detector, frozen=True, kw_only=True):
    """The detector of some secrets. `texts` are sorted, so that one stands behind all of its beginnings."""

    texts: tuple[str, ...]

    def match_open(self, text: str, folded: str, begin: int) -> tuple[str, re.Match[str]] | None:
        longest = max(map(len, self.texts))
        for at in range(max(begin, len(text) - longest + 1), len(text) - HIDDEN + 1):
            place = bisect_right(self.texts, end := text[at:])
            if place < len(self.texts) and self.texts[place].startswith(end):
                return (self.kind, found) if (found := _REST.match(text, at)) else None
        return None


def known_secrets(texts: Collection[str]) -> tuple[Detector, ...]:
    """Return the detector of these secrets. Short ones, and those with white space, are left out."""
    known = sorted(text for text in set(texts) if len(text) >= LEAST and not re.search(r"\s", text))
    if not known:
        return ()
    detector = KnownSecrets(
        kind="known_secret",
        anchors=tuple({text[:HIDDEN] for text in known}),
        pattern=re.compile("|".join(map(re.escape, reversed(known)))),  # a secret before those that it begins with
        within="word",
        texts=tuple(known),
    )
    return (detector,)
