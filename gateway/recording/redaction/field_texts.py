"""Gather the texts in frames by field, so that a secret which is split over frames is found.

Texts of two frames belong to one field if the frames are of one tap and kind and the texts have the same key. If a
frame has several such keys, their order decides. Streams are long rows of frames that differ in a word, so the shape
of a frame is kept: from the next frame of that shape only the words are taken. For a frequent shape, the words of many
frames are taken at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import msgspec
from msgspec import Struct, field

from dragoman.gateway.recording.redaction.escapes import unescaped
from dragoman.gateway.recording.redaction.values import KeyedText, gather_texts

FIELDS_MAX = 4096  # of all taps of a recording; past it everything is forgotten
SHAPES_MAX = 1024  # likewise

FIXED = frozenset(("type", "event", "action", "method", "topic", "kind", "channel", "role", "status", "jsonrpc"))
NAMES = ("_id", "Id")
CLOCKS = ("timestamp", "_at", "At")
"""Keys, and ends of keys, whose values are names or times: they are searched alone, as no part of a longer text."""

ALONE = frozenset(("kind", "channel", "role", "status", "jsonrpc"))
"""Keys whose values may differ between frames of one shape, like those of NAMES and CLOCKS."""

CALLS = frozenset(("id", "call", "call_id", "callId", "tool_call_id", "toolCallId", "item_id"))
"""Keys that tell apart the texts of calls that run at the same time."""

KINDS = frozenset(("type", "event", "topic"))
"""Keys whose value is the kind of a frame."""

NUMBERS = "0123456789:,{}[]. -+TZ"
DIGITS = r"[0-9:,{}\[\]. +TZ-]*+"
WORD = r"([^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+)"
OFTEN = 8  # frames of a shape after which many are read at once
OFTEN_MAX = 4  # shapes of a tap that are tried first

ANY_WORD = "\ufdd0"  # no character of any text, so it can stand for the word of a run

TapKey = tuple[str, str]
"""Link and direction of the frames at one tap point."""

Part = tuple[Sequence[int], Sequence[str]]
"""Numbers of frames, and the word of each frame."""


class FieldText(Struct, eq=False):
    """The text of one field: its new parts, and the end of the text before them (`behind`)."""

    behind: str = ""
    parts: list[Part] = field(default_factory=list)


class ParsedFrame(Struct):
    """A frame that was parsed as a whole.

    `texts` are all its texts if several differ under one key, else none. `fixed` are words that are searched alone.
    `value` is set for JSON with escapes or an action, and `shape` is the key under which its shape is kept.
    """

    keys: Sequence[str]
    fixed: list[str]
    value: Any = None
    texts: Sequence[KeyedText] = ()
    shape: tuple[object, ...] = ()


class _Shape(Struct, eq=False, dict=True):
    """A frame split at its quotes, without the parts that may differ in the next frame.

    `slots` are the indices of the words of fields, `alone` those of ids and names, which are searched alone, and
    `numbers` those of numbers. `fixed` are those of the other strings that are no keys, which must be equal. `seen`
    counts the frames that matched.
    """

    skeleton: list[str]
    slots: list[int]
    fields: list[FieldText]
    alone: list[int]
    numbers: list[int]
    fixed: list[int]
    seen: int = 0

    def words(self, text: str, frames: int) -> dict[int, Sequence[str]] | None:
        """Return the words of so many frames, the lines of `text`, by slot; None if not all have this shape.

        They have their escapes.
        """
        if self.pattern.match(text) is None:
            return None
        found = self.pattern.findall(text)
        if len(found) != frames:
            return None
        columns = list(zip(*found, strict=True)) if len(self._strings) > 1 else [found]
        named = dict(zip(self._strings, columns, strict=False))
        for at in self.fixed:
            if named[at].count(self.skeleton[at]) != frames:
                return None
        return named

    @cached_property
    def _strings(self) -> list[int]:
        return sorted((*self.slots, *self.alone, *self.fixed))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of frames with these keys, each a line; its groups are the strings. Equal streams share it."""
        parts = list(map(re.escape, self.skeleton))
        for at in self._strings:
            parts[at] = WORD
        for at in self.numbers:
            parts[at] = DIGITS
        return _compiled("^" + '"'.join(parts) + "$")


@lru_cache(256)  # peers choose the keys
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


class FieldTexts:
    """The fields of all frames of one recording."""

    def __init__(self) -> None:
        self._touched: list[FieldText] = []  # the fields with new parts
        self._alone: dict[str, list[int]] = {}  # words that are searched alone, and the numbers of their frames
        self._fields: dict[tuple[object, ...], FieldText] = {}
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        self._often: dict[TapKey, list[_Shape]] = {}
        self._last: tuple[Sequence[str], Sequence[str]] = ((), ())

    def knows_tap(self, tap: TapKey) -> bool:
        """Return True if a frequent shape of this tap is known."""
        return tap in self._often

    def add_frames(self, numbers: Sequence[int], tap: TapKey, text: str) -> bool:
        """Add the frames of these numbers, the lines of `text`. Return False if they are not all of one known shape."""
        if text.count("\n") != len(numbers) - 1:
            return False
        for shape in self._often.get(tap, ()):
            words = shape.words(text, len(numbers))
            if words is not None:
                for field_text, at in zip(shape.fields, shape.slots, strict=True):
                    self._add(field_text, numbers, self._texts(list(words[at])))
                for at in shape.alone:
                    for number, word in zip(numbers, words[at], strict=True):
                        self._add_alone(number, word)
                return True
        return False

    def add_run(
        self, numbers: Sequence[int], tap: TapKey, around: Sequence[str], texts: Sequence[str]
    ) -> list[FieldText] | None:
        """Add frames that differ in one word: each is one of `texts`, joined by the strings `around` it.

        Return the fields of that word; None if the shape of the frames is not known.
        """
        sample = ANY_WORD.join(around)
        if "\n" in sample:
            return None
        for shape in self._often.get(tap, ()):
            words = shape.words(sample, 1)
            if words is None:
                continue
            found = [words[at][0] for at in shape.slots]
            if found.count(ANY_WORD) != len(around) - 1:
                continue
            for field_text, word in zip(shape.fields, found, strict=True):
                self._add(field_text, numbers, texts if word == ANY_WORD else [unescaped(word)] * len(numbers))
            for at in shape.alone:
                self._alone.setdefault(unescaped(words[at][0]), []).extend(numbers)
            return shape.fields if found.count(ANY_WORD) == len(found) else []
        return None

    def words_of_run(self, words: Sequence[str]) -> Sequence[str] | None:
        """Return the words of a run without their escapes; None if they cannot all stand in quotes."""
        if words != self._last[0] and not _are_words(words):
            return None  # else they are the last ones, which were words
        return self._texts(words)

    def _texts(self, words: Sequence[str]) -> Sequence[str]:
        """Return the words without their escapes. The last ones are kept: the same words come again at other taps."""
        if words != self._last[0]:
            self._last = (words, _without_escapes(words))
        return self._last[1]

    def add_frame(self, number: int, tap: TapKey, text: str) -> ParsedFrame | None:
        """Add a frame. Return it parsed, or None if its shape is known, so that nothing but its words is new."""
        tokens = text.split('"')
        key = _key(tap, tokens)
        known = self._shapes.get(key) if "\\" not in text else None
        if known is not None and self._fits(number, known, tokens):
            known.seen += 1
            if known.seen % OFTEN == 0:
                self._comes_often(tap, known)
            return None
        if self.add_frames((number,), tap, text):
            return None
        parsed = self._decoded(number, tap, text) if "\\" in text else self._split(number, tap, text, key)
        for word in parsed.fixed:
            self._add_alone(number, word)
        return parsed

    def expect_more(self, tap: TapKey, text: str) -> None:
        """Prepare for more frames with the shape of this one, which was added."""
        shape = self._shapes.get(_key(tap, text.split('"')))
        if shape is not None:
            self._comes_often(tap, shape)

    def _comes_often(self, tap: TapKey, shape: _Shape) -> None:
        often = self._often.setdefault(tap, [])
        if shape not in often:  # it is new there, or others replaced it
            often.insert(0, shape)
            del often[OFTEN_MAX:]

    def forget_shape(self, parsed: ParsedFrame) -> None:
        """Forget the shape of a frame: every such frame must be parsed as a whole."""
        self._shapes.pop(parsed.shape, None)

    def _add(self, field_text: FieldText, numbers: Sequence[int], words: Sequence[str]) -> None:
        if not field_text.parts:
            self._touched.append(field_text)
        field_text.parts.append((numbers, words))

    def _add_alone(self, number: int, word: str) -> None:
        self._alone.setdefault(unescaped(word), []).append(number)

    def take_alone(self) -> dict[str, list[int]]:
        """Return the words since the last call that are searched alone, with the numbers of their frames."""
        alone, self._alone = self._alone, {}
        return alone

    def take_touched(self) -> list[FieldText]:
        """Return the fields that got parts since the last call."""
        touched, self._touched = self._touched, []
        return touched

    def forget_excess(self) -> bool:
        """Keep the memory within its bounds. Return True if all fields were forgotten."""
        if len(self._shapes) > SHAPES_MAX:
            self._shapes.clear()
        if len(self._fields) <= FIELDS_MAX:
            return False
        self._fields.clear()
        self._shapes.clear()
        self._often.clear()
        return True

    def _fits(self, number: int, shape: _Shape, tokens: list[str]) -> bool:
        """Add a frame, split at its quotes, if it has this shape."""
        words: list[str] = []
        for at in (*shape.slots, *shape.alone):
            words.append(tokens[at])
            tokens[at] = shape.skeleton[at]
        for at in shape.numbers:
            if tokens[at].strip(NUMBERS):
                return False
            tokens[at] = ""
        if tokens != shape.skeleton:
            return False
        for field_text, word in zip(shape.fields, words, strict=False):
            self._add(field_text, (number,), (word,))
        for word in words[len(shape.slots) :]:
            self._alone.setdefault(word, []).append(number)
        return True

    def _split(self, number: int, tap: TapKey, text: str, key: tuple[object, ...]) -> ParsedFrame:
        """Parse a frame without escapes by splitting it at its quotes, and keep its shape."""
        tokens = text.split('"')
        keys, values = _read(tokens)
        parsed = ParsedFrame(keys=keys, fixed=[tokens[0]])
        if "action" in keys:
            parsed.value = _json(text)
        texts = [(name, tokens[at]) for at, name in values]
        taken = self._add_texts(number, tap, texts, parsed)
        fields = {at: field_text for (at, _), field_text in zip(values, taken, strict=True) if field_text is not None}
        numbers = [at for at in range(2, len(tokens), 2) if not tokens[at].strip(NUMBERS)]
        numbers += [at for at, name in values if name.endswith(CLOCKS) and not tokens[at].strip(NUMBERS)]
        numbers = [at for at in numbers if any(map(str.isdigit, tokens[at]))]
        for at in (*fields, *numbers):
            tokens[at] = ""
        if not parsed.texts:
            parsed.shape = key
            others = [(at, name) for at, name in values if at not in fields and at not in numbers]
            alone = [at for at, name in others if name in ALONE or (name.endswith(NAMES) and name not in CALLS)]
            self._shapes[key] = _Shape(
                skeleton=tokens,
                slots=list(fields),
                fields=list(fields.values()),
                alone=alone,
                numbers=numbers,
                fixed=[at for at, _ in others if at not in alone],
            )
        return parsed

    def _decoded(self, number: int, tap: TapKey, text: str) -> ParsedFrame:
        value = _json(text)
        if value is None:
            return ParsedFrame(keys=(), fixed=[text])
        keys: dict[str, None] = {}
        texts: list[KeyedText] = []
        try:
            gather_texts(value, "", keys, texts)
        except RecursionError:
            return ParsedFrame(keys=(), fixed=[text])
        parsed = ParsedFrame(keys=list(keys), fixed=[text[: text.find("{")]], value=value)
        self._add_texts(number, tap, texts, parsed)
        return parsed

    def _add_texts(
        self, number: int, tap: TapKey, texts: Sequence[KeyedText], parsed: ParsedFrame
    ) -> list[FieldText | None]:
        """Add each text of a frame to its field, and return the fields; None for a fixed word."""
        kind = next((text for key, text in texts if key in KINDS), "")
        call = "|".join([text for key, text in texts if key in CALLS])
        counts: dict[str, int] = {}
        fields: list[FieldText | None] = []
        for key, text in texts:
            if key in FIXED or key in CALLS or key.endswith(NAMES) or key.endswith(CLOCKS):
                if not key.endswith(CLOCKS) or text.strip(NUMBERS):
                    parsed.fixed.append(text)
                fields.append(None)
                continue
            nth = counts[key] = counts.get(key, -1) + 1
            place = (*tap, kind, call, key, nth)
            field_text = self._fields.get(place)
            if field_text is None:
                field_text = self._fields[place] = FieldText()
            self._add(field_text, (number,), (text,))
            fields.append(field_text)
        if any(counts.values()) and not _mirrored(texts, counts):
            parsed.texts = texts
        return fields


def _key(tap: TapKey, tokens: Sequence[str]) -> tuple[object, ...]:
    """Return the key under which the shape of a frame is kept, which is split at its quotes."""
    return (*tap, len(tokens), tokens[3] if len(tokens) > 3 else "")


def _mirrored(texts: Sequence[KeyedText], counts: dict[str, int]) -> bool:
    """Return True if all texts under one key are equal, as smooth sends everything twice."""
    first: dict[str, str] = {}
    return all(first.setdefault(key, text) == text for key, text in texts if counts.get(key))


def _read(tokens: list[str]) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the keys of a frame, and the index and key of each of its texts."""
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
    """Return the object in a frame, without the topic that precedes it in a pando event."""
    try:
        value = msgspec.json.decode(text[max(0, text.find("{")) :])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _are_words(words: Sequence[str]) -> bool:
    """Return True if each word can stand in quotes: all quotes in them are escaped."""
    joined = "\n".join(words)
    if "\\" not in joined:
        return '"' not in joined
    quotes = joined.count('\\"')
    return "\\\\" not in joined and joined.count('"') == quotes == '"\n'.join((*words, "")).count('\\"')


def _without_escapes(words: Sequence[str]) -> Sequence[str]:
    """Return the words with their escapes decoded."""
    array = '["' + '","'.join(words) + '"]'
    if "\\" not in array:
        return words
    try:
        return msgspec.json.decode(array, type=list[str])
    except msgspec.MsgspecError:  # also what no decoder accepts is searched
        return [unescaped(word) for word in words]
