r"""Find the spans of secrets in a text, and replace them by placeholders: `[redacted:KIND:8 hex digits]`.

The digits are a keyed hash of the secret. With the salt of one recording, equal secrets are equal in that recording and
nowhere else. So they cannot be looked up in a list of likely secrets. With a salt of the installation they are equal in
all of its recordings.

Secrets are found in each layer of JSON escapes of a text: as it is, with its escapes decoded once, twice and so on.
Tool arguments are JSON in a JSON string, and hold strings with JSON again. Each level hides a secret behind another
layer of `\"` and `\u0073`. A layer is taken off the whole text: JSON or prose with JSON in it, complete or cut off
anywhere. Each index in a lower layer has its place in the text above. Nothing is parsed, so no parser can refuse.

Images and other binary data in base64 are not searched: 5 MiB of them hold two texts, on average, that look like keys.
"""

from __future__ import annotations

import hmac
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

PREFIX = "[redacted:"
PLACEHOLDER = re.compile(r"\[redacted:[a-z0-9_]{1,32}:[0-9a-f]{8}\]")
PLACEHOLDER_MAX = len(PREFIX) + 32 + 1 + 8 + 1  # characters
KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""The spelling of a kind. Placeholders contain it, and must not need an escape."""

LAYERS_MAX = 8  # a frame, its string, arguments in it, JSON in those, and as much again

ESCAPE = re.compile(
    r'\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(["\\/bfnrt]))'
)
CUT = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
CUT_MAX = 12  # characters of two escapes
SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

BINARY_LEAST, BINARY_HEAD = 1024, 256  # characters of binary data in base64, and of its beginning, which is searched
BINARY_SIGNS = 128  # one of so many characters of binary data is `+` or `/`, of random data even one of 32
BINARY = re.compile(rf"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{{{BINARY_LEAST},}}+")

Mark = Callable[[str, str], str]
"""Returns the placeholder of a secret, given its kind and its raw text."""

Note = Callable[[str, str, int], None]
"""Called with the kind of a secret, its place and the seq of its line."""


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

    A placeholder is in the piece in which its secret begins; the other pieces lose their part of the secret. The
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


# -- layers of escapes ------------------------------------------------------------------------------------


def unescaped(text: str) -> str:
    """Return the text with one layer of escapes decoded."""
    return ESCAPE.sub(_meant, text) if "\\" in text else text


def undecided(text: str) -> int:
    """Return the index of an escape that the end of `text` cuts off, else the length of the text."""
    found = CUT.search(text, max(0, len(text) - CUT_MAX))
    return found.start() if found else len(text)


class Layer:
    """A text without its outer layers of escapes: the layer `above`, from `start` to `end`, with escapes decoded."""

    def __init__(self, text: str, above: Layer | None = None, start: int = 0, end: int | None = None) -> None:
        self.text = text
        self._above = above
        self._start, self._end = start, end
        self.outermost: str = above.outermost if above is not None else text
        self._escapes: list[int] | None = None  # indices of the characters that were escapes
        self._shifts = [0]  # for the nth of them: how many more characters the text above has before it

    def place(self, at: int) -> int:
        """Return the index in the outermost text that belongs to the index `at` of this layer."""
        if self._above is None:
            return at
        if self._escapes is None:
            self._escapes = list(self._locate(self._above.text[self._start : self._end]))
        return self._above.place(self._start + at + self._shifts[bisect_left(self._escapes, at)])

    def _locate(self, above: str) -> Iterator[int]:
        for found in ESCAPE.finditer(above):
            shift = self._shifts[-1]
            yield found.start() - shift
            self._shifts.append(shift + found.end() - found.start() - 1)


class WithoutBinary(Layer):
    """A layer without the middle of its binary data, whose random characters may look like keys."""

    def __init__(self, whole: Layer, inner: Sequence[tuple[int, int]]) -> None:
        self._whole = whole
        parts: list[str] = []
        self._cuts: list[int] = []  # indices in this text of the characters after a part that was taken out
        self._before = [0]  # for the nth of them: how many more characters the whole text has before it
        at = length = 0
        for start, end in inner:
            parts.append(whole.text[at:start])
            length += start - at
            self._cuts.append(length)
            self._before.append(self._before[-1] + end - start)
            at = end
        super().__init__("".join((*parts, whole.text[at:])), whole)

    def place(self, at: int) -> int:
        """Return the index in the outermost text.

        A secret that ends with the kept beginning of binary data ends after the data.
        """
        return self._whole.place(at + self._before[bisect_right(self._cuts, at)])


def without_binary(layer: Layer) -> Layer:
    """Return the layer without the middle of its binary data, or the layer itself if it has none."""
    inner = [
        (found.start() + BINARY_HEAD, found.end())
        for found in BINARY.finditer(layer.text)
        if BINARY_SIGNS * (found[0].count("+") + found[0].count("/")) > len(found[0])
    ]
    return WithoutBinary(layer, inner) if inner else layer


def layers(text: str) -> list[Layer]:
    """Return the text as it is, then each layer below it until no escape is left."""
    found = [Layer(text)]
    while "\\" in text and len(found) <= LAYERS_MAX:
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
