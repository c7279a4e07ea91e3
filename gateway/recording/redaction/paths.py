"""JSON paths to values of documents that are never recorded, whatever they look like.

`$` is any JSON document: an event, JSON text inside a string (tool arguments), JSON inside that. The first step into an
event is the name of its field; tool arguments are `arguments` everywhere. Steps are `.name`, `['name']`, `[0]`, `[*]`,
`.*` and `..name`. The value at a path is removed as a whole. A document that is cut off or invalid is read up to there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from dragoman.gateway.recording.redaction.spans import PREFIX, Layer, Span, unescaped
from dragoman.mappings.errors import ConfigError

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
        """The last names of the paths, for text in which the whole path to a value cannot be seen."""
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
    last = len(text.rstrip())  # space with nothing after it would be read from each of its characters
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
