"""Finding secrets in a text, however many layers of JSON strings they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from gateway.recording.redaction.detectors import RUN, Detector, value_of
from gateway.recording.redaction.escapes import Layer, layers, undecided
from gateway.recording.redaction.placeholders import PLACEHOLDER, PLACEHOLDER_MAX, PREFIX
from gateway.recording.redaction.spans import Span, merged

__all__ = ["Finder", "finder"]

LEAST = 8  # characters of the shortest thing that any built-in shape takes for a secret, with its name

BEGINS = re.compile(r"[-_:=\"&?]|A[KSBCI]|eyJ|ya29|SG\.|(?i:bearer)")
"""One of these stands in whatever could become one of those shapes."""


class Finder:
    """Looks for shapes. Of secrets that overlap the longest names the kind; of equal ones the first detector."""

    def __init__(self, detectors: Iterable[Detector]) -> None:
        self._detectors = tuple(detectors)
        self.reach = max((detector.reach for detector in self._detectors), default=0)
        self._least = 1 if self.reach else LEAST
        self._sets = {
            (run, sign): [
                (rank, detector)
                for rank, detector in enumerate(self._detectors)
                if (run or detector.needs != "run") and (sign or detector.needs != "sign")
            ]
            for run in (False, True)
            for sign in (False, True)
        }

    def find(self, text: str) -> list[Span]:
        """The secrets in `text`, in their order, none overlapping another. What is redacted already is none."""
        if len(text) < self._least:
            return []
        ranked = [found for layer in layers(text) for found in self._find(layer)]
        if not ranked:
            return []
        spans = merged([span for _, span in sorted(ranked, key=lambda found: found[0])])
        return [span for span in spans if not _is_redacted(text, span)] if PREFIX in text else spans

    def open(self, text: str) -> Span | None:
        """What the end of `text` may have cut off, from where nothing may be shown yet; the first of them."""
        first: Span | None = None
        for layer in layers(text):
            for span in self._opens(layer):
                if first is None or span.start < first.start:
                    first = span
        return first

    def _find(self, layer: Layer) -> Iterable[tuple[int, Span]]:
        """What is found in one layer, each with the rank of its detector."""
        text = layer.text
        run = max(map(len, text.split()), default=0) >= RUN
        detectors = self._sets[run, "=" in text or ":" in text]
        if not detectors:
            return
        folded = _folded(text)
        for rank, detector in detectors:
            for found in detector.matches(text, folded):
                start, end = value_of(found)
                yield rank, Span(layer.place(start), layer.place(end), detector.kind, _quote(found, layer))

    def _opens(self, layer: Layer) -> Iterable[Span]:
        text = layer.text[: undecided(layer.text)]
        if BEGINS.search(text) is None:
            return
        folded = _folded(text)
        for detector in self._detectors:
            found = detector.open(text, folded)
            if found is not None:
                yield Span(layer.place(value_of(found)[0]), layer.place(len(layer.text)), detector.kind)


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
