"""The rules of redaction: the built-in shapes, and the patterns, paths and window of the configuration."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from secrets import token_bytes
from typing import Any

from msgspec import Struct

from dragoman.gateway.recording.redaction.finder import HIDDEN, Detector, Shape, finder
from dragoman.gateway.recording.redaction.paths import JsonPaths, json_path
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.gateway.recording.redaction.spans import KIND, merged, placeholders, replaced
from dragoman.mappings.errors import ConfigError

PATTERN_MAX = 1000  # characters of a pattern
WAYS_MAX = 256  # ways in which a pattern is tried at one place: every character of a text may cost as many steps
CAP = WAYS_MAX + 1  # no count goes on past it
REACH_MAX = 1024  # characters that a pattern may match: so much of a text is held back for it
EVER = 2**63 - 1  # µs: a window that does not end

_FINDER = finder(BUILT_IN)
_MARK = placeholders(token_bytes(16))


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
        raise ConfigError(f"{kind!r}: call it in lower-case letters, digits and _, as it stands in [redacted:KIND:...]")
    if len(text) > PATTERN_MAX:
        raise ConfigError(f"a pattern of {len(text)} characters: write at most {PATTERN_MAX}")
    try:
        compiled = re.compile(f"(?P<secret>{text})")
    except re.error as error:
        raise ConfigError(f"{text!r} is no regular expression: {error}") from None
    parsed = importlib.import_module("re._parser").parse(text)  # the one place that knows how much a pattern can match
    least, most = parsed.getwidth()
    if least == 0:
        raise ConfigError(f"{text!r} matches where nothing stands; say what must stand there")
    if most > REACH_MAX:
        raise ConfigError(f"{text!r} has no bound, or one over {REACH_MAX} characters; write {{1,64}} for + or *")
    if _ways(parsed) > WAYS_MAX:
        raise ConfigError(
            f"{text!r} can match in more than {WAYS_MAX} ways at one place, which some texts make slow; "
            "write {1,64}+ for {1,64} where a repetition never has to give back, and (?>a|b) for (?:a|b)"
        )
    return Detector(kind=kind, anchors=(), pattern=compiled, reach=most)


def _ways(part: Any) -> int:
    """Return in how many ways the engine may try a part of a parsed pattern at one place, at most CAP.

    Each way is another choice of alternatives and of how often something repeats; those in a row multiply.
    """
    if type(part).__name__ == "SubPattern" or isinstance(part, list):
        return _product(map(_ways, part))
    if not isinstance(part, tuple) or not part:
        return 1
    name, inner = str(part[0]), _arguments(part)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        low, high, repeated = inner
        times = 1 if name == "POSSESSIVE_REPEAT" else min(high - low + 1, CAP)
        return _product([times, *[_ways(repeated)] * min(high, REACH_MAX)])
    if name == "BRANCH":
        return min(sum(map(_ways, inner[1])), CAP)
    if name == "GROUPREF_EXISTS":
        return min(sum(map(_ways, filter(None, inner[1:]))), CAP)
    return _ways(inner) if isinstance(inner, list) or type(inner).__name__ == "SubPattern" else _within(inner)


def _arguments(part: tuple[Any, ...]) -> Any:
    return part[1] if len(part) > 1 else None


def _within(inner: Any) -> int:
    """Return the ways of the patterns among the arguments of a group or a look-around."""
    if not isinstance(inner, tuple):
        return 1
    return _product(_ways(item) for item in inner if type(item).__name__ == "SubPattern")


def _product(ways: Iterable[int]) -> int:
    total = 1
    for some in ways:
        total = min(total * some, CAP)
    return total
