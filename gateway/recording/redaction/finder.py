"""Search a text for secrets, also inside the layers of JSON strings that it holds.

A detector describes one shape of secrets. The shape begins at one of a few fixed words, its anchors. So a text without
them costs a search for words and no pattern at all. Every pattern is tried at its anchors alone and never backtracks
(possessive repetitions). The search continues after the characters that it has read, whether they are a secret or not.
So a text is read once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import Literal, NamedTuple

from msgspec import Struct

from dragoman.gateway.recording.redaction.prefixed_keys import CHARACTERS, PIECE, PrefixedKeys
from dragoman.gateway.recording.redaction.spans import (
    BINARY_LEAST,
    PLACEHOLDER,
    PLACEHOLDER_MAX,
    PREFIX,
    Layer,
    Span,
    layers,
    merged,
    undecided,
    without_binary,
)

Judge = Callable[[re.Match[str]], bool]

RUN = 16  # characters of keys in a row: longer than most words, shorter than any key
IS_OF_KEY = bytes(ord("x" if chr(code) in CHARACTERS else " ") for code in range(256))
LEAST = 8  # characters of the shortest text that any built-in shape takes for a secret, with its name
HIDDEN = 4  # characters: fewer of an unfinished secret reveal nothing

VALUES = ("secret", "quoted", "single", "bare")
"""The groups of a pattern that may hold the secret; one of them does, or else the whole match is the secret."""

GROUPS = {*VALUES, "quote"}
"""The named groups that a user's pattern must not have. `quote` is the quote of the JSON key before a bare value."""

KNOWN_MAX = 8  # results that are kept
KNOWN_MOST = 64 * 1024  # characters of a text whose result is kept for long

FINDS_MAX = 40_960  # secrets in one text: more than two windows of text hold (each in the text and below its escapes)
TRIES_MAX = 262_144  # anchors in one text: 64 for each KiB of a 4 MiB tool result; each costs about 0.5 µs
UNSEARCHED = "unsearched"
"""The kind of a text that is taken out whole, because it has more secrets or anchors than are looked at in one go."""

LONG_CAPITAL = "\u0130"  # the only character that is longer in lower case

BEFORE_VALUE = 512  # characters: the longest name, two words and the space around them

APART = "\n" * 10  # between texts that are searched as one: no built-in shape reads over so many line ends
WORDS_MAX, WORD_MOST = 4096, 64  # words that are known to be clean, and characters of one

OPTIONS = (" -", '"-', "'-", ",-", "\n-", "\t-")
"""The beginnings of options: of a command line, also of one in a list or in several lines."""


class Detector(Struct, frozen=True, kw_only=True):
    """A shape of secrets. `folded` anchors are lower-case and match any case; without any the pattern is used.

    `opens` matches, up to the end of a text, what could become a secret if the text went on. `run` reads such a value
    that ends before the text does; of the anchors inside it only the last can still reach the end. `judge` is called
    with a match of `pattern`, and decides whether it is a secret. `reach` characters at the end of a text may belong to
    a secret that `opens` cannot see; 0 where it sees all. `needs` is what every text with such a secret has: a "run" of
    RUN characters of keys, or the "sign" of an assignment or option. An unfinished secret `within` a "word" has no
    space. One within a "line" has a value without line ends. The value begins at most BEFORE_VALUE characters after its
    anchor.
    """

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    opens: re.Pattern[str] | None = None
    run: re.Pattern[str] | None = None
    folded: bool = False
    judge: Judge | None = None
    reach: int = 0
    needs: Literal["run", "sign", ""] = ""
    within: Literal["word", "line", ""] = ""

    def matches(self, text: str, folded: str) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield the secrets in `text` with their kind; `folded` is the text in lower case, character by character."""
        for found in self._candidates(text, folded):
            if self.judge is None or self.judge(found):
                yield self.kind, found

    def anchors_in(self, text: str, folded: str) -> int:
        """Return how many anchors stand in `text`, which is how often the pattern is tried at most."""
        where = folded if self.folded else text
        return sum([where.count(anchor) for anchor in self.anchors])

    def match_open(self, text: str, folded: str, begin: int) -> tuple[str, re.Match[str]] | None:
        """Return the unfinished secret that the end of `text` cuts off. Its anchor does not stand before `begin`."""
        if self.opens is None:
            return None
        where = folded if self.folded else text
        for anchor in self.anchors:
            at = where.find(anchor, begin)
            while at >= 0:
                found = self.opens.match(text, at)
                if found is not None:
                    return self.kind, found
                at = self._behind_run(anchor, text, where, at)
        return None

    def _behind_run(self, anchor: str, text: str, where: str, at: int) -> int:
        """Return the index of the next anchor whose value may reach the end of the text, -1 if there is none."""
        read = self.run.match(text, at) if self.run is not None else None
        if read is None:
            return where.find(anchor, at + 1)
        last = where.rfind(anchor, at + 1, read.end() + len(anchor) - 1)
        return last if last >= 0 else where.find(anchor, read.end())

    def _candidates(self, text: str, folded: str) -> Iterator[re.Match[str]]:
        pattern = self.pattern
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


Shape = Detector | PrefixedKeys


def value_of(found: re.Match[str]) -> tuple[int, int]:
    """Return start and end of the secret itself in a match."""
    groups = found.re.groupindex
    return next((found.span(name) for name in VALUES if name in groups and found[name] is not None), found.span())


RankedShapes = list[tuple[int, Shape]]
"""Detectors with their ranks."""


class SeenText(NamedTuple):
    """A text, the text in lower case character by character, and the detectors that may find something in it."""

    text: str
    folded: str
    detectors: RankedShapes


class Finder:
    """Searches texts for some shapes. Overlapping secrets get the kind of the longest one; of equally long ones, that
    of the first detector.

    Threads share it: the loop redacts log lines while the RedactionWorker searches. So results are kept and removed by
    single calls of a dict or set. Another thread may have removed a result that was kept before.
    """

    def __init__(self, detectors: Iterable[Shape]) -> None:
        self._detectors = tuple(detectors)
        self.reach = max((detector.reach for detector in self._detectors), default=0)
        self._least = 1 if self.reach else LEAST
        self._found: dict[str, list[Span]] = {}
        self._opened: dict[str, list[Span]] = {}  # the first unfinished secret of a text, if it has one
        self._seen = SeenText("", "", [])  # the last text: the same one is often searched twice
        self._clean: set[str] = set()
        self._ranked: RankedShapes = list(enumerate(self._detectors))
        self._without_sign = [(rank, one) for rank, one in self._ranked if one.needs != "sign"]

    def find(self, text: str) -> list[Span]:
        """Return the secrets in `text` in order, without overlaps and without those that are redacted already.

        A text with more than FINDS_MAX secrets or TRIES_MAX anchors is one secret as a whole.
        """
        if len(text) < self._least:
            return []
        known = self._found.get(text)
        if known is None:
            known = self._keep(self._found, text, self._find_all(text))
        return known

    def find_open(self, text: str) -> Span | None:
        """Return the first unfinished secret that the end of `text` cuts off: nothing after its start may be shown.

        An unfinished secret that begins more than KNOWN_MOST characters before the end is not seen.
        """
        before = max(0, len(text) - KNOWN_MOST)
        end = text[before:]
        known = self._opened.get(end)
        if known is None:
            spans: list[Span] = []
            for layer in layers(end) if "\\" in end else (Layer(end),):
                spans += self._opens(layer)
            known = self._keep(self._opened, end, sorted(spans, key=lambda span: span.start)[:1])
        if not known or not before:
            return known[0] if known else None
        return Span(known[0].start + before, known[0].end + before, known[0].kind)

    def is_clean(self, texts: Iterable[str]) -> bool:
        """Return True if none of these complete texts holds a secret. Texts recur, so clean ones are remembered.

        False may also mean that the texts must be searched one by one: they are searched together here.
        """
        clean, found = self._clean, self._found
        new = [text for text in dict.fromkeys(texts) if text not in clean and found.get(text) != []]
        if not new:
            return True
        if self._joined_has_any(new):
            return False
        if len(clean) > WORDS_MAX:
            clean.clear()
        for text in new:
            if len(text) <= WORD_MOST:
                clean.add(text)
            elif len(text) <= KNOWN_MOST:
                self._keep(found, text, [])
        return True

    def _joined_has_any(self, texts: Sequence[str]) -> bool:
        """Return True if one of the texts may hold a secret. They are searched as one text, with APART between them."""
        if self.reach:  # a user's pattern may depend on the text around it
            return any(map(self.find, texts))
        joined = APART.join(texts)
        if len(texts) > 1 and "code " in self._look(joined).folded:  # a one-time code is known by the ends of its text
            return any(map(self.find, texts))
        return len(joined) >= self._least and bool(self._find_all(joined))

    def forget_large(self) -> None:
        """Drop the results of large texts, which are not searched again once their lines are redacted."""
        for text in list(self._found):
            if len(text) > KNOWN_MOST:
                self._found.pop(text, None)
        if len(self._seen.text) > KNOWN_MOST:
            self._seen = SeenText("", "", [])

    def _keep(self, known: dict[str, list[Span]], text: str, spans: list[Span]) -> list[Span]:
        """Keep a result: the same text is soon searched again, in the event and in the frames that carry it."""
        known[text] = spans
        for oldest in [*known][:-KNOWN_MAX]:
            known.pop(oldest, None)
        return spans

    def _find_all(self, text: str) -> list[Span]:
        ranked: list[tuple[int, Span]] = []
        for layer in layers(text) if "\\" in text else (Layer(text),):
            ranked += islice(self._find(layer), FINDS_MAX + 1 - len(ranked))
            if len(ranked) > FINDS_MAX or (ranked and ranked[-1][1].kind == UNSEARCHED):
                return [Span(0, len(text), UNSEARCHED)]
        if not ranked:
            return []
        spans = merged([span for _, span in sorted(ranked, key=lambda found: found[0])])
        return [span for span in spans if not _is_redacted(text, span)] if PREFIX in text else spans

    def _find(self, layer: Layer) -> Iterable[tuple[int, Span]]:
        """Yield the secrets in one layer, each with the rank of its detector."""
        has_run = _has_run(layer.text, RUN)  # most have none
        if has_run and _has_run(layer.text, BINARY_LEAST):
            layer = without_binary(layer)
        text, folded, detectors = self._look(layer.text)
        if len(text) > TRIES_MAX and _exceeds((one.anchors_in(text, folded) for _, one in detectors), TRIES_MAX):
            yield 0, Span(0, len(layer.outermost), UNSEARCHED)
            return
        for rank, detector in detectors:
            if detector.needs == "run" and not has_run:
                continue
            for kind, found in detector.matches(text, folded):
                start, end = value_of(found)
                yield rank, Span(layer.place(start), layer.place(end), kind, _quote(found, layer))

    def _opens(self, layer: Layer) -> list[Span]:
        text = layer.text[: undecided(layer.text)] if "\\" in layer.text else layer.text
        _, folded, detectors = self._look(text)
        last_word = len(text) - len(text.rsplit(None, 1)[-1]) if text[-1:].strip() else len(text)
        starts = {"word": last_word, "line": max(0, text.rfind("\n") - BEFORE_VALUE), "": 0}
        spans = []
        for _, detector in detectors:
            found = detector.match_open(text, folded, starts[detector.within])
            if found is not None:
                spans.append(Span(layer.place(value_of(found[1])[0]), layer.place(len(layer.text)), found[0]))
        return spans

    def _look(self, text: str) -> SeenText:
        """Return the text, the text in lower case, and the detectors that may find something in it."""
        seen = self._seen
        if seen.text is not text:
            folded = ""
            for at in range(0, len(text), PIECE):
                folded += text[at : at + PIECE].replace(LONG_CAPITAL, "i").lower()
            detectors: RankedShapes = []
            has_sign = "=" in text or ":" in text or ("-" in text and any(map(text.__contains__, OPTIONS)))
            for ranked in self._ranked if has_sign else self._without_sign:
                detector = ranked[1]
                where = folded if detector.folded else text
                for anchor in detector.anchors:  # a search without a call: most texts have none of them
                    if anchor in where:
                        detectors.append(ranked)
                        break
                else:
                    if not detector.anchors:
                        detectors.append(ranked)
            self._seen = seen = SeenText(text, folded, detectors)
        return seen


@lru_cache(64)
def finder(detectors: tuple[Shape, ...]) -> Finder:
    """Return the finder of these shapes, one for all recordings that look for the same."""
    return Finder(detectors)


def _has_run(text: str, length: int) -> bool:
    """Return True if the text has `length` characters of keys in a row."""
    run = b"x" * length
    for at in range(0, len(text), PIECE):
        piece = text[at : at + PIECE + length].encode("utf-8", "surrogatepass")
        if run in piece.translate(IS_OF_KEY):  # takes a tenth of the time of any pattern
            return True
    return False


def _exceeds(counts: Iterable[int], bound: int) -> bool:
    """Return True as soon as the sum of the counts is above the bound."""
    return any(total > bound for total in accumulate(counts))


def _quote(found: re.Match[str], layer: Layer) -> str:
    """Return the quotes that the placeholder of a number under a JSON key needs: those of its key."""
    if "bare" not in found.re.groupindex or found["bare"] is None or found["quote"] is None:
        return ""
    start, end = (layer.place(at) for at in found.span("quote"))
    return layer.outermost[start:end]


def _is_redacted(text: str, span: Span) -> bool:
    """Return True if the span contains only placeholders or lies inside one."""
    if not any(map(str.isalnum, PLACEHOLDER.sub("", text[span.start : span.end]))):
        return True
    begin = text.rfind(PREFIX, max(0, span.start - PLACEHOLDER_MAX), span.start)
    found = PLACEHOLDER.match(text, begin) if begin >= 0 else None
    return found is not None and found.end() >= span.end
