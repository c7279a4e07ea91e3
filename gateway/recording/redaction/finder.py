"""Finding secrets in a text, however many layers of JSON strings they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, combinations, islice
from typing import TypeVar

from dragoman.gateway.recording.redaction.detectors import RUN, Detector, value_of
from dragoman.gateway.recording.redaction.escapes import Layer, layers, undecided
from dragoman.gateway.recording.redaction.placeholders import PLACEHOLDER, PLACEHOLDER_MAX, PREFIX
from dragoman.gateway.recording.redaction.spans import Span, merged

__all__ = ["UNSEARCHED", "Finder", "finder"]

LEAST = 8  # characters of the shortest thing that any built-in shape takes for a secret, with its name

KNOWN_MOST, KNOWN_MAX = 64 * 1024, 8  # characters of a text that is one of so many; of a larger one the last is known
Result = TypeVar("Result")

FINDS_MAX = 40_960  # secrets in one text: more than two windows of text hold (each in the text and below its escapes)
TRIES_MAX = 262_144  # anchors in one text: 64 for each KiB of a 4 MiB tool result; each costs about 0.5 µs
UNSEARCHED = "unsearched"
"""The kind of a text that is taken out whole, because it has more secrets or anchors than are looked at in one go."""

WORDS_MAX, WORD_MOST = 4096, 64  # words that are known to be clean, and characters of one

BEGINS = re.compile(r"[-_:=\"&?]|A[KSBCI]|eyJ|ya29|SG\.|(?i:bearer)")
"""One of these stands in whatever could become one of those shapes."""


class Finder:
    """Looks for shapes. Of secrets that overlap the longest names the kind; of equal ones the first detector."""

    def __init__(self, detectors: Iterable[Detector]) -> None:
        self._detectors = tuple(detectors)
        self.reach = max((detector.reach for detector in self._detectors), default=0)
        self._least = 1 if self.reach else LEAST
        self._found: dict[str, list[Span]] = {}
        self._opened: dict[str, Span | None] = {}
        self._large: tuple[str, list[Span]] = ("", [])  # the last of those
        self._folded = ("", "")  # the last text, as it is and in lower case: the same one is looked at twice
        self._clean: set[str] = set()
        self._anchors_of_words = [
            a for detector in self._detectors if detector.needs == "word" for a in detector.anchors
        ]
        self._sets = {
            has: [(rank, one) for rank, one in enumerate(self._detectors) if not one.needs or one.needs in has]
            for length in range(4)
            for has in combinations(("run", "word", "sign"), length)
        }

    def find(self, text: str) -> list[Span]:
        """Return the secrets in `text`, in their order, none overlapping another; what is redacted already is none.

        A text with more than FINDS_MAX secrets or TRIES_MAX anchors is one secret as a whole.
        """
        if len(text) < self._least:
            return []
        if len(text) > KNOWN_MOST:
            if self._large[0] != text:
                self._large = (text, self._find_all(text))
            return self._large[1]
        known = self._found.get(text)
        if known is None:
            known = self._keep(self._found, text, self._find_all(text))
        return known

    def forget_large(self) -> None:
        """Drop the last large text: it is looked at again only by whoever redacts the same lines."""
        self._large = ("", [])
        if len(self._folded[0]) > KNOWN_MOST:
            self._folded = ("", "")

    def is_clean(self, words: Iterable[str]) -> bool:
        """Whether none of these is a secret: ids and fixed words, which come again and again."""
        new = [word for word in words if word not in self._clean]
        if new and self.find("\n".join(new)):
            return False
        if len(self._clean) > WORDS_MAX:
            self._clean.clear()
        self._clean.update([word for word in new if len(word) <= WORD_MOST])
        return True

    def open(self, text: str) -> Span | None:
        """What the end of `text` may have cut off, from where nothing may be shown yet; the first of them.

        Nothing is looked for that begins further from the end than KNOWN_MOST.
        """
        before = max(0, len(text) - KNOWN_MOST)
        end = text[before:]
        if end not in self._opened:
            self._keep(self._opened, end, self._first_open(end))
        first = self._opened.get(end)
        return first if first is None or not before else Span(first.start + before, first.end + before, first.kind)

    def _first_open(self, text: str) -> Span | None:
        found = [span for layer in layers(text) for span in self._opens(layer)]
        return min(found, key=lambda span: span.start, default=None)

    def _keep(self, known: dict[str, Result], text: str, result: Result) -> Result:
        """The same words are soon seen again: in the event, and in the frames that it came and goes out in."""
        if len(known) >= KNOWN_MAX:
            del known[next(iter(known))]
        known[text] = result
        return result

    def _find_all(self, text: str) -> list[Span]:
        ranked: list[tuple[int, Span]] = []
        for layer in layers(text):
            ranked += islice(self._find(layer), FINDS_MAX + 1 - len(ranked))
            if len(ranked) > FINDS_MAX or (ranked and ranked[-1][1].kind == UNSEARCHED):
                return [Span(0, len(text), UNSEARCHED)]
        if not ranked:
            return []
        spans = merged([span for _, span in sorted(ranked, key=lambda found: found[0])])
        return [span for span in spans if not _is_redacted(text, span)] if PREFIX in text else spans

    def _find(self, layer: Layer) -> Iterable[tuple[int, Span]]:
        """Yield what is found in one layer, each with the rank of its detector."""
        text = layer.text
        words = [word for word in text.split() if len(word) >= RUN]  # which most texts have none of
        has: tuple[str, ...] = ("run",) if words else ()
        if words and any(map("\n".join(words).__contains__, self._anchors_of_words)):
            has += ("word",)
        if "=" in text or ":" in text:
            has += ("sign",)
        detectors = self._sets[has]
        if not detectors:
            return
        folded = self._in_lower_case(text)
        if len(text) > TRIES_MAX and _exceeds((one.anchors_in(text, folded) for _, one in detectors), TRIES_MAX):
            yield 0, Span(0, len(layer.outermost), UNSEARCHED)
            return
        for rank, detector in detectors:
            for found in detector.matches(text, folded):
                start, end = value_of(found)
                yield rank, Span(layer.place(start), layer.place(end), detector.kind, _quote(found, layer))

    def _opens(self, layer: Layer) -> Iterable[Span]:
        text = layer.text[: undecided(layer.text)]
        if BEGINS.search(text) is None:
            return
        folded = self._in_lower_case(text)
        last_word = len(text) - len(text.rsplit(None, 1)[-1]) if text[-1:].strip() else len(text)
        word = any(map(text[last_word:].__contains__, self._anchors_of_words))
        for detector in self._detectors:
            found = detector.open(text, folded, last_word) if word or detector.needs != "word" else None
            if found is not None:
                yield Span(layer.place(value_of(found)[0]), layer.place(len(layer.text)), detector.kind)

    def _in_lower_case(self, text: str) -> str:
        if self._folded[0] is not text:
            self._folded = (text, _folded(text))
        return self._folded[1]


@lru_cache(64)
def finder(detectors: tuple[Detector, ...]) -> Finder:
    """The finder of these shapes, one for all recordings that look for the same."""
    return Finder(detectors)


def _folded(text: str) -> str:
    """In lower case, character by character."""
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    return "".join(char.lower() if char.isascii() else char for char in text)


def _exceeds(counts: Iterable[int], bound: int) -> bool:
    """Return True as soon as the sum of the counts is above the bound."""
    return any(total > bound for total in accumulate(counts))


def _quote(found: re.Match[str], layer: Layer) -> str:
    """A number under a JSON key becomes a string, in quotes like those of its key."""
    if "bare" not in found.re.groupindex or found["bare"] is None or found["quote"] is None:
        return ""
    start, end = (layer.place(at) for at in found.span("quote"))
    return layer.outermost[start:end]


def _is_redacted(text: str, span: Span) -> bool:
    """Whether nothing but placeholders stands in a span, or it in one of them."""
    if not any(map(str.isalnum, PLACEHOLDER.sub("", text[span.start : span.end]))):
        return True
    begin = text.rfind(PREFIX, max(0, span.start - PLACEHOLDER_MAX), span.start)
    found = PLACEHOLDER.match(text, begin) if begin >= 0 else None
    return found is not None and found.end() >= span.end
