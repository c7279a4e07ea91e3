"""Places of secrets in a text, and the text without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

__all__ = ["Mark", "Span", "merged", "overlapping", "replaced"]

Mark = Callable[[str, str], str]
"""The placeholder of a secret, given its kind and the raw text of it."""


class Span(Struct, frozen=True, gc=False):
    """A secret at `start:end`. `quote` is what its placeholder needs around it to be a JSON string there."""

    start: int
    end: int
    kind: str
    quote: str = ""


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans in their order, those that overlap as one, of the kind of the longest; of equals the first counts."""
    whole: list[Span] = []
    longest = 0
    for span in sorted(spans, key=lambda span: span.start):
        length = span.end - span.start
        if not whole or span.start >= whole[-1].end:
            whole.append(span)
            longest = length
            continue
        last = whole[-1]
        named, longest = (span, length) if length > longest else (last, longest)
        quote = named.quote if named.end - named.start >= max(last.end, span.end) - last.start else ""
        whole[-1] = Span(last.start, max(last.end, span.end), named.kind, quote)
    return whole


def overlapping(spans: Sequence[Span], places: Iterable[tuple[int, int]]) -> Iterator[Sequence[Span]]:
    """Yield for each place (start, end) the spans that stand in it, also in part; both are in order of the text."""
    first = 0
    for start, end in places:
        while first < len(spans) and spans[first].end <= start:
            first += 1
        last = first
        while last < len(spans) and spans[last].start < end:
            last += 1
        yield spans[first:last]


def replaced(text: str, spans: Sequence[Span], mark: Mark) -> str:
    """`text` with a placeholder for each of its (merged) spans."""
    parts: list[str] = []
    marks: dict[tuple[str, str], str] = {}  # one secret may stand there very often
    at = 0
    for span in spans:
        secret = (span.kind, text[span.start : span.end])
        if secret not in marks:
            marks[secret] = mark(*secret)
        parts += (text[at : span.start], span.quote, marks[secret], span.quote)
        at = span.end
    parts.append(text[at:])
    return "".join(parts)
