"""Texts that stand in one document piece by piece, as the deltas of a turn do in the result that ends it.

The texts under one key make a row, in the order of the document. What stands in a row across its pieces is found in
none of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.spans import Mark, Span, overlapping

__all__ = ["Text", "across", "gather", "put_back"]

Text = tuple[str, str]
"""The key under which it stands, and the text."""


def gather(value: Any, key: str, keys: dict[str, None], texts: list[Text]) -> None:
    """All keys and texts of a JSON value, in its order."""
    kind = type(value)
    if kind is str:
        texts.append((key, value))
    elif kind is dict:
        for name, item in value.items():
            keys[name] = None
            gather(item, name, keys, texts)
    elif kind is list:
        for item in value:
            gather(item, key, keys, texts)


def across(finder: Finder, texts: Sequence[Text], mark: Mark) -> tuple[dict[int, str], list[str]]:
    """The texts (by their number) that have a part of a secret, without it; and the kinds of those secrets."""
    rows: dict[str, list[int]] = {}
    for number, (key, text) in enumerate(texts):
        if text:
            rows.setdefault(key, []).append(number)
    changed: dict[int, str] = {}
    kinds: list[str] = []
    for numbers in rows.values():
        pieces = [texts[number][1] for number in numbers]
        if len(pieces) < 2 or len(set(pieces)) == 1:  # said twice, as smooth does
            continue
        joined = "".join(pieces)
        places = list(pairwise(accumulate(map(len, pieces), initial=0)))
        ends = [end for _, end in places]
        spans = [s for s in finder.find(joined) if ends[bisect_right(ends, s.start)] < s.end]
        kinds += [span.kind for span in spans]
        for number, (start, end), inside in zip(numbers, places, overlapping(spans, places), strict=True):
            if inside:
                changed[number] = _without(joined, start, end, inside, mark)
    return changed, kinds


def put_back(value: Any, texts: list[Text], changed: dict[int, str]) -> Any:
    """The JSON value with these texts instead; `texts` is filled on the way, as by `gather`."""
    kind = type(value)
    if kind is str:
        texts.append(("", value))
        return changed.get(len(texts) - 1, value)
    if kind is dict:
        return {name: put_back(item, texts, changed) for name, item in value.items()}
    if kind is list:
        return [put_back(item, texts, changed) for item in value]
    return value


def _without(text: str, start: int, end: int, spans: Sequence[Span], mark: Mark) -> str:
    """A piece of a text; the placeholder stands in the one in which the secret begins."""
    parts: list[str] = []
    at = start
    for span in spans:
        parts.append(text[at : max(at, span.start)])
        if span.start >= start:
            parts.append(mark(span.kind, text[span.start : span.end]))
        at = min(span.end, end)
    return "".join((*parts, text[at:end]))
