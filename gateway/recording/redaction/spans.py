"""Where secrets stand in a text, and the text with placeholders instead: `[redacted:KIND:8 hex digits]`.

The digits are a keyed hash of the secret. With the salt of one recording, equal secrets are equal in that recording
and nowhere else, so nobody can look them up in a list of likely secrets. With a salt of the installation they are
equal in all of its recordings.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from dragoman.gateway.recording.redaction.escapes import layers

PREFIX = "[redacted:"
PLACEHOLDER = re.compile(r"\[redacted:[a-z0-9_]{1,32}:[0-9a-f]{8}\]")
PLACEHOLDER_MAX = len(PREFIX) + 32 + 1 + 8 + 1  # characters
KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""The spelling of a kind: it stands in placeholders, where nothing may need an escape."""

Mark = Callable[[str, str], str]
"""Returns the placeholder of a secret, given its kind and its raw text."""

Note = Callable[[str, str, int], None]
"""Is told the kind of a secret, its place and the seq of its line."""


def placeholders(salt: bytes) -> Mark:
    """Return a function that makes placeholders with this salt. Layers of escapes around a secret do not matter."""

    def mark(kind: str, secret: str) -> str:
        digest = hmac.digest(salt, layers(secret)[-1].text.encode("utf-8", "surrogatepass"), "sha256")
        return f"{PREFIX}{kind}:{digest[:4].hex()}]"

    return mark


class Span(Struct, frozen=True, gc=False):
    """A secret at `start:end`. A placeholder there needs `quote` around it if it has to be a JSON string."""

    start: int
    end: int
    kind: str
    quote: str = ""


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, and those that overlap as one, of the kind of the longest (of equals, the first)."""
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
    """Yield for each place (start, end) the spans that stand at least partly in it; both are in order of the text."""
    first = 0
    for start, end in places:
        while first < len(spans) and spans[first].end <= start:
            first += 1
        last = first
        while last < len(spans) and spans[last].start < end:
            last += 1
        yield spans[first:last]


def replaced(text: str, spans: Sequence[Span], mark: Mark) -> str:
    """Return `text` with a placeholder for each of its (merged) spans."""
    ((new, _),) = replaced_in_pieces(text, [(0, len(text))], spans, mark)
    return new


def replaced_in_pieces(
    text: str, places: Sequence[tuple[int, int]], spans: Sequence[Span], mark: Mark, marked: int = 0
) -> Iterator[tuple[str, list[Span]]]:
    """Yield each piece (start, end) of a text without its secrets, and the spans whose placeholders stand in it.

    A placeholder stands in the piece in which its secret begins; the other pieces lose their part of the secret. The
    secrets that begin before `marked` already have their placeholders.
    """
    marks: dict[tuple[str, str], str] = {}  # the same secret may occur very often
    for (start, end), inside in zip(places, overlapping(spans, places), strict=True):
        parts: list[str] = []
        begun: list[Span] = []
        at = start
        for span in inside:
            parts.append(text[at : max(at, span.start)])
            if span.start >= marked:
                secret = (span.kind, text[span.start : span.end])
                if secret not in marks:
                    marks[secret] = mark(*secret)
                parts += (span.quote, marks[secret], span.quote)
                begun.append(span)
            marked = max(marked, span.end)
            at = min(span.end, end)
        parts.append(text[at:end])
        yield "".join(parts), begun
