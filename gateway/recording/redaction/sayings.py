"""What is said in frames, and where: the texts in each frame, by the place at which they stand.

Two frames say something at the same place if they are of one wire and kind, and the texts stand under the same key,
the nth of that name in its frame. Streams are long rows of frames that differ in a word, so the shape of a frame is
kept: of the next one of that shape only the words are taken, without looking at anything else. A shape that comes again
and again becomes a pattern, which takes the words at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from gateway.recording.redaction.escapes import unescaped
from gateway.recording.redaction.rows import Text, gather

__all__ = ["Said", "Saying", "Sayings"]

PLACES_MAX = 4096  # of all wires of a recording; past it everything is forgotten
SHAPES_MAX = 1024  # likewise

FIXED = frozenset(("type", "event", "action", "method", "topic", "kind", "channel", "role", "status", "jsonrpc"))
NAMES = ("_id", "Id")
CLOCKS = ("timestamp", "_at", "At")
"""Keys, and ends of keys, whose values name something or say when: they are looked at, and part of no longer text."""

CALLS = frozenset(("id", "call", "call_id", "callId", "tool_call_id", "toolCallId", "item_id"))
"""Keys that tell apart the texts of calls which run at the same time."""

KINDS = frozenset(("type", "event", "topic"))
"""Keys that say of which kind a frame is."""

NUMBERS = "0123456789:,{}[]. -+TZ"
DIGITS = r"[0-9:,{}\[\]. +TZ-]*+"
WORD = r"([^\"\\]*+(?:\\.[^\"\\]*+)*+)"
OFTEN = 16  # frames after which a shape is worth a pattern, which costs as much as taking a hundred frames apart
PATTERNS_MAX = 4  # a wire: two wires' worth of texts that stream at one time

Wire = tuple[str, str]


class Saying(Struct, eq=False):
    """What was said at one place: frame by frame since the last time, and what was said `behind` that."""

    behind: str = ""
    parts: list[tuple[int, str]] = field(default_factory=list)


class Said(Struct):
    """A frame that had to be looked at as a whole: its texts, and its value where it is JSON.

    `texts` are all of them where some stand under one key.
    """

    keys: Sequence[str]
    fixed: list[str]
    value: Any = None
    texts: Sequence[Text] = ()


class _Shape(Struct, eq=False):
    """A frame as what stands between its quotes, without what may differ in the next one.

    `slots` are where words stand, `numbers` where numbers do. `seen` counts the frames that fitted.
    """

    skeleton: list[str]
    slots: list[int]
    sayings: list[Saying]
    numbers: list[int]
    seen: int = 0

    def pattern(self) -> re.Pattern[str]:
        """Matches frames of this shape; its groups are the words."""
        parts = list(map(re.escape, self.skeleton))
        for at in self.slots:
            parts[at] = WORD
        for at in self.numbers:
            parts[at] = DIGITS
        return re.compile('"'.join(parts))


class Sayings:
    """Of one recording. `touched` are those with new parts."""

    def __init__(self) -> None:
        self.touched: list[Saying] = []
        self._places: dict[tuple[object, ...], Saying] = {}
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        self._patterns: dict[Wire, list[tuple[re.Pattern[str], _Shape]]] = {}

    def hear(self, index: int, wire: Wire, text: str) -> Said | None:
        """Take what a frame says; None if its shape is known, so that nothing else of it is new."""
        for pattern, shape in self._patterns.get(wire, ()):
            found = pattern.fullmatch(text)
            if found is not None:
                self._hear_words(index, shape, found.groups())
                return None
        if "\\" in text:
            return self._decoded(index, wire, text)
        tokens = text.split('"')
        key = (*wire, len(tokens), tokens[3] if len(tokens) > 3 else "")
        known = self._shapes.get(key)
        if known is not None and self._fits(index, known, tokens):
            known.seen += 1
            if known.seen == OFTEN:
                patterns = self._patterns.setdefault(wire, [])
                patterns.insert(0, (known.pattern(), known))
                del patterns[PATTERNS_MAX:]
            return None
        return self._split(index, wire, text, key)

    def forget(self) -> None:
        """Keep what is remembered within its bounds."""
        if len(self._places) > PLACES_MAX:
            self._places.clear()
            self._shapes.clear()
            self._patterns.clear()
        if len(self._shapes) > SHAPES_MAX:
            self._shapes.clear()

    def _fits(self, index: int, shape: _Shape, tokens: list[str]) -> bool:
        words = [tokens[at] for at in shape.slots]
        for at in shape.slots:
            tokens[at] = ""
        for at in shape.numbers:
            if tokens[at].strip(NUMBERS):
                return False
            tokens[at] = ""
        if tokens != shape.skeleton:
            return False
        self._hear_words(index, shape, words)
        return True

    def _hear_words(self, index: int, shape: _Shape, words: Iterable[str]) -> None:
        for saying, word in zip(shape.sayings, words, strict=True):
            parts = saying.parts
            if not parts:
                self.touched.append(saying)
            parts.append((index, unescaped(word) if "\\" in word else word))

    def _split(self, index: int, wire: Wire, text: str, key: tuple[object, ...]) -> Said:
        """A frame without escapes: its strings are what stands between its quotes."""
        tokens = text.split('"')
        keys, values = _read(tokens)
        said = Said(keys=keys, fixed=[tokens[0]])
        if "action" in keys:
            said.value = _json(text)
        texts = [(name, tokens[at]) for at, name in values]
        taken = self._take(index, wire, texts, said)
        sayings = {at: saying for (at, _), saying in zip(values, taken, strict=True) if saying is not None}
        for at in sayings:
            tokens[at] = ""
        clocks = [at for at, name in values if name.endswith(CLOCKS)]
        numbers = [at for at in (*range(2, len(tokens), 2), *clocks) if not tokens[at].strip(NUMBERS)]
        numbers = [at for at in numbers if any(map(str.isdigit, tokens[at]))]
        for at in numbers:
            tokens[at] = ""
        if not said.texts:
            self._shapes[key] = _Shape(
                skeleton=tokens, slots=list(sayings), sayings=list(sayings.values()), numbers=numbers
            )
        return said

    def _decoded(self, index: int, wire: Wire, text: str) -> Said:
        value = _json(text)
        if value is None:
            return Said(keys=(), fixed=[text])
        keys: dict[str, None] = {}
        texts: list[Text] = []
        try:
            gather(value, "", keys, texts)
        except RecursionError:
            return Said(keys=(), fixed=[text])
        said = Said(keys=list(keys), fixed=[text[: text.find("{")]], value=value)
        self._take(index, wire, texts, said)
        return said

    def _take(self, index: int, wire: Wire, texts: Sequence[Text], said: Said) -> list[Saying | None]:
        """Each text is heard at its place; None where it is a fixed word."""
        kind = next((text for key, text in texts if key in KINDS), "")
        call = "|".join([text for key, text in texts if key in CALLS])
        counts: dict[str, int] = {}
        sayings: list[Saying | None] = []
        for key, text in texts:
            if key in FIXED or key in CALLS or key.endswith(NAMES) or key.endswith(CLOCKS):
                if not key.endswith(CLOCKS) or text.strip(NUMBERS):
                    said.fixed.append(text)
                sayings.append(None)
                continue
            nth = counts[key] = counts.get(key, -1) + 1
            place = (*wire, kind, call, key, nth)
            saying = self._places.get(place)
            if saying is None:
                saying = self._places[place] = Saying()
            if not saying.parts:
                self.touched.append(saying)
            saying.parts.append((index, text))
            sayings.append(saying)
        if any(counts.values()) and not _mirrored(texts, counts):
            said.texts = texts
        return sayings


def _mirrored(texts: Sequence[Text], counts: dict[str, int]) -> bool:
    """Whether what stands under one key twice or more is the same, as smooth says everything twice."""
    return all(len({text for key, text in texts if key == name}) == 1 for name, last in counts.items() if last)


def _read(tokens: list[str]) -> tuple[list[str], list[tuple[int, str]]]:
    """The keys of a frame, and where its texts stand, each with its key."""
    keys: list[str] = []
    values: list[tuple[int, str]] = []
    key = ""
    for at in range(1, len(tokens), 2):
        if at + 1 < len(tokens) and tokens[at + 1].lstrip().startswith(":"):
            key = tokens[at]
            keys.append(key)
        else:
            values.append((at, key))
    return keys, values


def _json(text: str) -> dict[str, Any] | None:
    """The object in a frame; before that of a pando event stands its topic."""
    try:
        value = msgspec.json.decode(text[max(0, text.find("{")) :])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
