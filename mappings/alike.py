"""Encode pieces of a text, whose frames differ only in the text and the time.

So one of them is encoded, and its bytes around the text are joined with the text of each piece. For pieces that came
together, that takes a third of the time of building and encoding a message for each. For one that came alone, it takes
two thirds. A pod has such short frames that it gains nothing for pieces that came together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import json

from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta
from dragoman.mappings.dialect import TextWriter

TEXT = frozenset((TextDelta,))
TEXT_AND_REASONING = frozenset((TextDelta, ReasoningDelta))

MANY = 8  # pieces from which on `encode_alike` takes less time in every dialect
LONGEST = 64_000  # characters: no dialect has to split such a text
ESCAPED = '"\\/<&>\t\x00\x7f\u00e9\u2028\U0001f600'
MARKS = (f"first mark {ESCAPED}", f"second mark {ESCAPED}")
"""Placeholders for the text of a piece. Two frames show whether one of them also occurs elsewhere in a frame, as an id.

A dialect that escapes one of their characters in another way has other frames.
"""
TIMES = (1_111_111_111_111_000_000, 1_222_222_222_222_000_000)  # ns, beside the marks

Around = Sequence[Sequence[bytes]]
"""The strings around the text in frames that differ in text and time alone, in pieces around the time (ms)."""

_encode, _encode_lines = json.Encoder().encode, json.Encoder().encode_lines

SAMPLES = [(mark, at, _encode(mark), _encode(at // 1_000_000)) for mark, at in zip(MARKS, TIMES, strict=True)]
"""The marks and times, and both as they stand in frames."""


def encode_alike(events: Sequence[Any], kinds: frozenset[type], encode: Callable[[Any], bytes]) -> list[bytes] | None:
    """Return a frame for each of these events, if all are pieces of one type, which is one of `kinds`.

    `encode` returns the frame of a piece. Return None for any other events, and if each must be encoded by itself. That
    is so if a text is long, or empty (some dialects leave it out), or if a frame has one of the MARKS elsewhere.
    """
    if len(found := {*map(type, events)}) > 1 or found.isdisjoint(kinds):
        return None
    texts = [event.text for event in events]
    if not 0 < min(map(len, texts)) <= max(map(len, texts)) <= LONGEST:
        return None
    kind = found.pop()
    around, same = [encode(kind(text=mark)).split(json.encode(mark)) for mark in MARKS]
    if around != same:
        return None
    quoted = _encode_lines(texts).split(b"\n")[:-1]  # JSON has no newline in a text
    return [text.join(around) for text in quoted]


def strings_around(write: TextWriter) -> Around | None:
    """Return the strings around the text in the frames of a TextWriter; None if the frames also differ elsewhere."""
    found: list[Around] = []
    for mark, at, quoted, stamp in SAMPLES:
        frames = write(mark, at)
        found.append([part.split(stamp) for part in frames[0].split(quoted)] if len(frames) == 1 else [])
    around, same = found
    return around if around == same and len(around) > 1 else None


def writer_of(around: Around) -> TextWriter:
    """Return the TextWriter whose frames have these strings around their text."""
    parts = [b"".join(pieces) for pieces in around]
    timed = [(place, pieces) for place, pieces in enumerate(around) if len(pieces) > 1]

    def write(text: str, at: int) -> list[bytes]:
        for place, pieces in timed:
            parts[place] = _encode(at // 1_000_000).join(pieces)
        return [_encode(text).join(parts)]

    return write
