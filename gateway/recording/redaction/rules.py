"""The rules of redaction: the built-in shapes, known secrets, and the patterns, paths and window of the configuration.

A user's pattern could match a text of any length, or in so many ways that one text stops the gateway. So both are
counted when the configuration is read, and patterns above the limits are refused.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from secrets import token_bytes
from typing import Any

from msgspec import Struct

from dragoman.gateway.recording.redaction.finder import GROUPS, HIDDEN, Detector, Shape, finder
from dragoman.gateway.recording.redaction.paths import JsonPaths, json_path
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.gateway.recording.redaction.spans import KIND, merged, placeholders, replaced
from dragoman.mappings.errors import ConfigError

PATTERN_MAX = 1000  # characters of a pattern
WAYS_MAX = 256  # ways in which a pattern is tried at one position: every character of a text may cost as many steps
CAP = WAYS_MAX + 1  # counting stops here
REACH_MAX = 1024  # characters that a pattern may match: so much of a text is held back for it
EVER = 2**63 - 1  # µs: a window that does not end

_FINDER = finder(BUILT_IN)
_MARK = placeholders(token_bytes(16))

KNOWN_LEAST = 12  # characters of a known secret that is searched for: shorter ones stand in other words too
_REST = re.compile("(?s:.*)")


class KnownSecrets(Detector, frozen=True, kw_only=True):
    """The detector of secrets that are known, as the tokens of the gateway itself. `texts` are sorted.

    A pattern with all beginnings of a secret would grow with the square of its length: 18 s for 2,000 characters. So
    the beginning that a text ends with is looked up: a secret stands behind all of its beginnings.
    """

    texts: tuple[str, ...]

    def match_open(self, text: str, folded: str, begin: int) -> tuple[str, re.Match[str]] | None:
        longest = max(map(len, self.texts))
        for at in range(max(begin, len(text) - longest + 1), len(text) - HIDDEN + 1):
            place = bisect_right(self.texts, end := text[at:])
            if place < len(self.texts) and self.texts[place].startswith(end):
                return (self.kind, found) if (found := _REST.match(text, at)) else None
        return None


def known_secrets(texts: Collection[str]) -> tuple[Detector, ...]:
    """Return the detector of these secrets. Short ones, and those with white space, are left out."""
    known = sorted(text for text in set(texts) if len(text) >= KNOWN_LEAST and not re.search(r"\s", text))
    if not known:
        return ()
    detector = KnownSecrets(
        kind="known_secret",
        anchors=tuple({text[:HIDDEN] for text in known}),
        pattern=re.compile("|".join(map(re.escape, reversed(known)))),  # a secret before those that it begins with
        within="word",
        texts=tuple(known),
    )
    return (detector,)


class RedactionRules(Struct, frozen=True, kw_only=True):
    """The compiled rules. Text is held back for at most `window` characters and µs."""

    detectors: tuple[Shape, ...] = BUILT_IN
    paths: JsonPaths = JsonPaths()  # it never changes
    window_bytes: int = 64 * 1024
    window_micros: int = 2_000_000


def rules(
    patterns: Mapping[str, str],
    paths: Iterable[str],
    *,
    window_bytes: int,
    window_micros: int,
    secrets: Collection[str] = (),
) -> RedactionRules:
    """Return the rules with a user's patterns (kind -> regular expression) and paths, and with known `secrets`.

    Raise ConfigError for the first invalid one.
    """
    own = (pattern(kind, text) for kind, text in patterns.items())
    return RedactionRules(
        detectors=(*BUILT_IN, *known_secrets(secrets), *own),
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
    """Return the detector of a user's pattern; raise ConfigError with the reason if it is invalid.

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
        compiled = re.compile(text)
        parsed = importlib.import_module("re._parser").parse(text)  # it alone knows how much a pattern can match
        least, most = parsed.getwidth()
        ways = _count_ways(parsed)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"invalid regular expression {text!r}: {error}") from None
    if taken := sorted(GROUPS & compiled.groupindex.keys()):
        raise ConfigError(f"the pattern {text!r} has a group {taken[0]!r}: rename it, this name has a meaning")
    if least == 0:
        raise ConfigError(f"the pattern {text!r} matches an empty text: require at least one character")
    if most > REACH_MAX:
        raise ConfigError(f"the pattern {text!r} can match over {REACH_MAX} characters: write {{1,64}} for + or *")
    if ways > WAYS_MAX:
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
