"""What is redacted, from what the configuration says: built-in shapes, the user's patterns and paths, the window."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.gateway.recording.redaction.detectors import Detector
from dragoman.gateway.recording.redaction.paths import Paths, parse
from dragoman.gateway.recording.redaction.placeholders import KIND
from dragoman.gateway.recording.redaction.shapes import BUILT_IN
from dragoman.mappings.errors import ConfigError

__all__ = ["EVER", "PATTERN_MAX", "REACH_MAX", "Rules", "pattern", "rules"]

PATTERN_MAX = 1000  # characters of a pattern
REACH_MAX = 1024  # characters that a pattern may match: so much of a text is held back for it
EVER = 2**63 - 1  # µs: a window that does not end


class Rules(Struct, frozen=True, kw_only=True):
    """Compiled. Text is held back for so many characters and µs at most."""

    detectors: tuple[Detector, ...] = BUILT_IN
    paths: Paths = Paths()  # it never changes
    window_bytes: int = 64 * 1024
    window_micros: int = 2_000_000


def rules(patterns: Mapping[str, str], paths: Iterable[str], *, window_bytes: int, window_micros: int) -> Rules:
    """The rules with a user's patterns (kind -> regular expression) and paths; ConfigError if one is wrong."""
    return Rules(
        detectors=(*BUILT_IN, *(pattern(kind, text) for kind, text in patterns.items())),
        paths=Paths(map(parse, paths)),
        window_bytes=window_bytes,
        window_micros=window_micros,
    )


def pattern(kind: str, text: str) -> Detector:
    """The detector of a user's pattern; ConfigError says what is wrong with it.

    What it can match is bounded, so that it can be found in a text that streams, and no repetition stands in another,
    so that no text can make it slow.
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
    if _nested(parsed, inside=False):
        raise ConfigError(f"{text!r} repeats what repeats, which some texts make slow; repeat one thing alone")
    return Detector(kind=kind, anchors=(), pattern=compiled, reach=most)


def _nested(part: Any, *, inside: bool) -> bool:
    """Whether a repetition of varying length stands in another."""
    if type(part).__name__ == "SubPattern":
        return any(_nested(item, inside=inside) for item in part)
    if isinstance(part, list):
        return any(_nested(item, inside=inside) for item in part)
    if not isinstance(part, tuple):
        return False
    if part and str(part[0]) in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        low, high, repeated = part[1]
        varies = low != high
        return (varies and inside) or _nested(repeated, inside=inside or high > 1)
    return any(_nested(item, inside=inside) for item in part)
