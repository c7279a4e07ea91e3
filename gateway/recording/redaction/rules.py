"""The rules of redaction: the built-in shapes, and the patterns, paths and window of the configuration.

A JSON path names a place in documents whose values are never recorded, whatever they look like. `$` is any JSON
document: an event, JSON text inside a string (tool arguments), JSON inside that. The first step into an event is the
name of its field; tool arguments are `arguments` everywhere. Steps are `.name`, `['name']`, `[0]`, `[*]`, `.*` and
`..name`. The value at a path is removed as a whole. A document that is cut off or invalid is read up to there.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from secrets import token_bytes
from typing import Any

from msgspec import Struct

from dragoman.gateway.recording.redaction.finder import HIDDEN, Detector, Shape, finder
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.gateway.recording.redaction.spans import (
    KIND,
    PREFIX,
    Layer,
    Span,
    merged,
    placeholders,
    replaced,
    unescaped,
)
from dragoman.mappings.errors import ConfigError

PATTERN_MAX = 1000  # characters of a pattern
WAYS_MAX = 256  # ways in which a pattern is tried at one place: every character of a text may cost as many steps
CAP = WAYS_MAX + 1  # no count goes on past it
REACH_MAX = 1024  # characters that a pattern may match: so much of a text is held back for it
EVER = 2**63 - 1  # µs: a window that does not end

Keys = tuple[str | int, ...]

KEYS_MAX = 128  # containers in each other: everything deeper in a document is removed
DOCUMENTS_MAX = 4  # JSON in strings in JSON: arguments of a call, a document in them, and as much again

STEP = re.compile(
    r"(?P<deep>\.\.)(?P<below>[^\s.\[\]'\"*]+)|\.(?P<name>[^\s.\[\]'\"*]+)|\[(?P<quote>['\"])(?P<quoted>[^'\"\\]+)(?P=quote)\]"
    r"|\[(?P<index>[0-9]{1,9})\]|(?P<any>\.\*|\[\*\])"
)

TOKEN = re.compile(
    r"\s*+(?:(?P<mark>[{}\[\],:])|\"(?P<string>[^\"\\]*+(?:\\.[^\"\\]*+)*+)(?P<close>\"|\Z)|(?P<bare>[^\s{}\[\],:\"]++))",
    re.DOTALL,
)

_FINDER = finder(BUILT_IN)
_MARK = placeholders(token_bytes(16))


class PathStep(Struct, frozen=True):
    """A step of a path: a key, an index, or None for any; `deep` means at any depth."""

    key: str | int | None
    deep: bool = False


class JsonPath(Struct, frozen=True):
    """A path with at least one name."""

    steps: tuple[PathStep, ...]

    @property
    def last_name(self) -> str:
        """The last key of an object in the path."""
        return [step.key for step in self.steps if isinstance(step.key, str)][-1]

    def matches(self, keys: Keys) -> bool:
        """Return True if the path leads to exactly these keys."""
        reached = {0}  # how many keys the steps so far may have taken
        for step in self.steps:
            tries = range(min(reached), len(keys)) if step.deep else [at for at in reached if at < len(keys)]
            reached = {at + 1 for at in tries if step.key in (None, keys[at])}
            if not reached:
                return False
        return len(keys) in reached


def json_path(text: str) -> JsonPath:
    """Parse a path; ConfigError says what is wrong with it."""
    if not text.startswith("$"):
        raise ConfigError(f"invalid JSON path {text!r}: begin it with $, as in $.arguments.password")
    steps, at = [], 1
    while at < len(text):
        found = STEP.match(text, at)
        if found is None:
            raise ConfigError(
                f"invalid step {text[at:]!r} in JSON path {text!r}: write .name, ['name'], [0], [*], .* or ..name"
            )
        steps.append(_step(found))
        at = found.end()
    if not any(isinstance(step.key, str) for step in steps):
        raise ConfigError(f"invalid JSON path {text!r}: name at least one key")
    return JsonPath(tuple(steps))


class JsonPaths:
    """Paths to look for in documents."""

    def __init__(self, paths: Iterable[JsonPath] = ()) -> None:
        self._paths = tuple(paths)

    def __bool__(self) -> bool:
        return bool(self._paths)

    @property
    def names(self) -> list[str]:
        """The last names of the paths, for text in which the way to them cannot be seen."""
        return [path.last_name for path in self._paths]

    def lead_to(self, keys: Keys) -> bool:
        """Return True if one of the paths leads to exactly these keys."""
        return bool(self._paths) and any(path.matches(keys) for path in self._paths)

    def find(self, text: str, base: Keys = ()) -> list[Span]:
        """Return the values that the paths lead to in JSON text that stands at `base` of an event."""
        return list(self._find(Layer(text), base, DOCUMENTS_MAX)) if self._paths else []

    def _find(self, layer: Layer, base: Keys, depth: int) -> Iterator[Span]:
        inside = -1  # the end of a container that is removed
        quote = ""
        for keys, start, end, string in _values(layer.text):
            if start < inside:
                continue
            if len(keys) > KEYS_MAX or self.lead_to(keys) or (base and self.lead_to((*base, *keys))):
                if end > start and not layer.text.startswith(PREFIX, start):
                    quote = quote or self._quote(layer)
                    yield Span(layer.place(start), layer.place(end), "path", "" if string else quote)
                inside = end
            elif string and depth and end - start > 2 and layer.text[start] in "{[\\ ":
                yield from self._find_inside(layer, start, end, depth)

    def _find_inside(self, layer: Layer, start: int, end: int, depth: int) -> Iterator[Span]:
        """Yield the values in the document that a string of the layer holds."""
        text = unescaped(layer.text[start:end])
        if text.lstrip()[:1] in ("{", "["):
            yield from self._find(Layer(text, layer, start, end), (), depth - 1)

    @staticmethod
    def _quote(layer: Layer) -> str:
        """Return the first quote of the document as it is written in the outermost text."""
        at = layer.text.find('"')
        return layer.outermost[layer.place(at) : layer.place(at + 1)] if at >= 0 else '"'


def _step(found: re.Match[str]) -> PathStep:
    if found["deep"]:
        return PathStep(found["below"], deep=True)
    if found["index"]:
        return PathStep(int(found["index"]))
    return PathStep(found["name"] or found["quoted"])


class _Container(Struct):
    """An object or array that is open, and the key of its next value."""

    is_object: bool
    keys: Keys
    key: str | int
    at_key: bool


def _values(text: str) -> Iterator[tuple[Keys, int, int, bool]]:
    """Yield each value of a document: its keys, start, end (without quotes), and True if it is a string.

    At most KEYS_MAX keys and one more are given. A container comes before its content, so that it can be removed
    as a whole.
    """
    last = len(text.rstrip())  # space with nothing behind it would be read from each of its characters
    ends = _ends(text, last)
    stack: list[_Container] = []
    for found in TOKEN.finditer(text, 0, last):
        mark, top = found["mark"], stack[-1] if stack else None
        if top is not None and top.at_key:
            if found["string"] is not None:
                top.key, top.at_key = unescaped(found["string"]), False
            elif mark == "}":
                stack.pop()
            continue
        keys = (*top.keys, top.key)[: KEYS_MAX + 1] if top is not None else ()
        if mark in ("{", "["):
            start = found.start("mark")
            yield keys, start, ends.get(start, len(text)), False
            stack.append(_Container(mark == "{", keys, 0, mark == "{"))
        elif mark in ("}", "]"):
            if stack:
                stack.pop()
        elif mark == ",":
            if top is not None:
                top.at_key = top.is_object
                top.key = top.key + 1 if isinstance(top.key, int) else top.key
        elif mark is None:
            name = "string" if found["string"] is not None else "bare"
            yield keys, found.start(name), found.end(name), name == "string"


def _ends(text: str, last: int) -> dict[int, int]:
    """Map where each container of the text before `last` begins to where it ends."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for found in TOKEN.finditer(text, 0, last):
        if found["mark"] in ("{", "["):
            opened.append(found.start("mark"))
        elif found["mark"] in ("}", "]") and opened:
            ends[opened.pop()] = found.end("mark")
    return ends


# -- rules --------------------------------------------------------------------------------------------------------


class RedactionRules(Struct, frozen=True, kw_only=True):
    """The compiled rules. Text is held back for so many characters and µs at most."""

    detectors: tuple[Shape, ...] = BUILT_IN
    paths: JsonPaths = JsonPaths()  # it never changes
    window_bytes: int = 64 * 1024
    window_micros: int = 2_000_000


def rules(
    patterns: Mapping[str, str], paths: Iterable[str], *, window_bytes: int, window_micros: int
) -> RedactionRules:
    """Return the rules with a user's patterns (kind -> regular expression) and paths.

    ConfigError names the first invalid one.
    """
    return RedactionRules(
        detectors=(*BUILT_IN, *(pattern(kind, text) for kind, text in patterns.items())),
        paths=JsonPaths(map(json_path, paths)),
        window_bytes=window_bytes,
        window_micros=window_micros,
    )


def redact_text(text: str, *, cut: bool = False) -> str:
    """Return a text without built-in shapes of secrets, for logs and samples.

    If the text is `cut` off, an unfinished secret at its end is removed as well. Equal secrets have equal placeholders
    in this process and nowhere else.
    """
    spans = _FINDER.find(text)
    unfinished = _FINDER.find_open(text) if cut else None
    if unfinished is not None and unfinished.end - unfinished.start >= HIDDEN:
        spans = merged([*spans, unfinished])
    return replaced(text, spans, _MARK) if spans else text


def pattern(kind: str, text: str) -> Detector:
    """Return the detector of a user's pattern; ConfigError says what is wrong with it.

    The length of a match is bounded, so that it can be found in a text that streams. The number of ways in which the
    pattern can match at one place is bounded too, so that no text can make it slow.
    """
    if KIND.fullmatch(kind) is None:
        raise ConfigError(
            f"invalid kind {kind!r}: use lower-case letters, digits and _ (it is shown in [redacted:KIND:...])"
        )
    if len(text) > PATTERN_MAX:
        raise ConfigError(f"the pattern has {len(text)} characters: write at most {PATTERN_MAX}")
    try:
        compiled = re.compile(f"(?P<secret>{text})")
    except re.error as error:
        raise ConfigError(f"invalid regular expression {text!r}: {error}") from None
    parsed = importlib.import_module("re._parser").parse(text)  # the one place that knows how much a pattern can match
    least, most = parsed.getwidth()
    if least == 0:
        raise ConfigError(f"the pattern {text!r} matches an empty text: require at least one character")
    if most > REACH_MAX:
        raise ConfigError(f"the pattern {text!r} can match over {REACH_MAX} characters: write {{1,64}} for + or *")
    if _count_ways(parsed) > WAYS_MAX:
        raise ConfigError(
            f"{text!r} can match in more than {WAYS_MAX} ways at one place, which some texts make slow; "
            "write {1,64}+ for {1,64} where a repetition never has to give back, and (?>a|b) for (?:a|b)"
        )
    return Detector(kind=kind, anchors=(), pattern=compiled, reach=most)


def _count_ways(part: Any) -> int:
    """Return in how many ways the engine may try a part of a parsed pattern at one place, at most CAP.

    Each way is another choice of alternatives and of how often something repeats; those in a row multiply.
    """
    match part:
        case (name, (low, high, repeated)) if str(name) in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            times = 1 if str(name) == "POSSESSIVE_REPEAT" else min(high - low + 1, CAP)
            return _product([times, *[_count_ways(repeated)] * min(high, REACH_MAX)])
        case (name, (_, choices)) if str(name) == "BRANCH":
            return min(sum(map(_count_ways, choices)), CAP)
        case (name, (_, *choices)) if str(name) == "GROUPREF_EXISTS":
            return min(sum(map(_count_ways, filter(None, choices))), CAP)
    # Anything else is a sequence, or a part with its arguments, some of which are patterns.
    is_whole = isinstance(part, tuple | list) or type(part).__name__ == "SubPattern"
    return _product(map(_count_ways, part)) if is_whole else 1


def _product(ways: Iterable[int]) -> int:
    total = 1
    for some in ways:
        total = min(total * some, CAP)
    return total
