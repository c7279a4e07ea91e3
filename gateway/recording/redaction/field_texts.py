"""What is said in frames, and where: the texts in each frame, by the place at which they stand.

Two frames say something at the same place if they are of one wire and kind, and the texts stand under the same key,
the nth of that name in its frame. Streams are long rows of frames that differ in a word, so the shape of a frame is
kept: of the next one of that shape only the words are taken, without looking at anything else. Of a shape that comes
again and again the words of many frames are taken at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import msgspec
from msgspec import Struct, field

from dragoman.gateway.recording.redaction.escapes import unescaped
from dragoman.gateway.recording.redaction.rows import Text, gather

__all__ = ["FieldText", "FieldTexts", "ParsedFrame", "Part", "TapKey"]

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
WORD = r"([^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+)"
OFTEN = 8  # frames after which those of a shape are taken many at once
OFTEN_MAX = 4  # shapes of a wire that are tried first

WHATEVER = "\ufdd0"  # stands for no character, and so for the word of a run

TapKey = tuple[str, str]

Part = tuple[Sequence[int], Sequence[str]]
"""Numbers of frames, and the word of each."""


class FieldText(Struct, eq=False):
    """What was said at one place since the last time, with the numbers of the frames, and `behind` that."""

    behind: str = ""
    parts: list[Part] = field(default_factory=list)


class ParsedFrame(Struct):
    """A frame that had to be looked at as a whole: its texts, and its value where it is JSON.

    `texts` are all of them where some stand under one key, `shape` is as what its shape is remembered.
    """

    keys: Sequence[str]
    fixed: list[str]
    value: Any = None
    texts: Sequence[Text] = ()
    shape: tuple[object, ...] = ()


class _Shape(Struct, eq=False, dict=True):
    """A frame as what stands between its quotes, without what may differ in the next one.

    `slots` are where words stand, `numbers` where numbers do; `fixed` is where the other strings stand that are no
    keys: ids and names, in every stream its own. `seen` counts the frames that fitted.
    """

    skeleton: list[str]
    slots: list[int]
    sayings: list[FieldText]
    numbers: list[int]
    fixed: list[int]
    seen: int = 0

    def words(self, text: str, frames: int) -> Sequence[Sequence[str]] | None:
        """What so many frames, the lines of `text`, say in each slot, with escapes; None if not all are so shaped."""
        if self.pattern.match(text) is None:
            return None
        found = self.pattern.findall(text)
        if len(found) != frames:
            return None
        columns = list(zip(*found, strict=True)) if len(self._strings) > 1 else [found]
        named = dict(zip(self._strings, columns, strict=False))
        if any(named[at].count(self.skeleton[at]) != frames for at in self.fixed):
            return None
        return [named[at] for at in self.slots]

    def words_of_one(self, text: str) -> Sequence[str] | None:
        """What one frame says in each slot, with escapes; None if it is of another shape."""
        found = self.pattern.fullmatch(text)
        if found is None:
            return None
        named = dict(zip(self._strings, found.groups(), strict=True))
        return [named[at] for at in self.slots] if all(named[at] == self.skeleton[at] for at in self.fixed) else None

    @cached_property
    def _strings(self) -> list[int]:
        return sorted((*self.slots, *self.fixed))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches frames with these keys, each a line; its groups are the strings. All streams of a kind share it."""
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
    """Of one recording. `touched` are those with new parts."""

    def __init__(self) -> None:
        self.touched: list[FieldText] = []
        self._places: dict[tuple[object, ...], FieldText] = {}
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        self._often: dict[TapKey, list[_Shape]] = {}
        self._last: tuple[Sequence[str], Sequence[str]] = ((), ())

    def knows(self, wire: TapKey) -> bool:
        """Whether it has learnt what frames of this wire look like."""
        return wire in self._often

    def hear_all(self, numbers: Sequence[int], wire: TapKey, text: str) -> bool:
        """Take what the frames of these numbers say, the lines of `text`, if they are all of one known shape."""
        if text.count("\n") != len(numbers) - 1:
            return False
        for shape in self._often.get(wire, ()):
            slots = shape.words(text, len(numbers))
            if slots is not None:
                for saying, words in zip(shape.sayings, slots, strict=True):
                    self._heard(saying, numbers, self._texts(list(words)))
                return True
        return False

    def hear_run(
        self, numbers: Sequence[int], wire: TapKey, around: Sequence[str], texts: Sequence[str]
    ) -> list[FieldText] | None:
        """Take what alike frames say, if they are of a known shape: each of `texts`, between what is `around` it.

        Where they say it; None if their shape is not known.
        """
        sample = WHATEVER.join(around)
        for shape in self._often.get(wire, ()):
            found = shape.words_of_one(sample)
            if found is None or found.count(WHATEVER) != len(around) - 1:
                continue
            for saying, word in zip(shape.sayings, found, strict=True):
                self._heard(saying, numbers, texts if word == WHATEVER else [unescaped(word)] * len(numbers))
            return shape.sayings if found.count(WHATEVER) == len(found) else []
        return None

    def meant(self, words: Sequence[str]) -> Sequence[str] | None:
        """What the words of a run say, without their escapes; None if they cannot all stand in quotes."""
        if words != self._last[0] and not _are_words(words):
            return None  # else they are the last ones, which were words
        return self._texts(words)

    def _texts(self, words: Sequence[str]) -> Sequence[str]:
        """The words without their escapes; the same ones are said twice, and on the other side of the gateway."""
        if words != self._last[0]:
            self._last = (words, _without_escapes(words))
        return self._last[1]

    def hear(self, number: int, wire: TapKey, text: str) -> ParsedFrame | None:
        """Take what a frame says; None if its shape is known, so that nothing else of it is new."""
        for shape in self._often.get(wire, ()):
            found = shape.words_of_one(text)
            if found is not None:
                for saying, word in zip(shape.sayings, found, strict=True):
                    self._heard(saying, (number,), (unescaped(word),))
                return None
        if "\\" in text:
            return self._decoded(number, wire, text)
        tokens = text.split('"')
        key = _key(wire, tokens)
        known = self._shapes.get(key)
        if known is not None and self._fits(number, known, tokens):
            known.seen += 1
            if known.seen % OFTEN == 0:
                self._comes_often(wire, known)
            return None
        return self._split(number, wire, text, key)

    def expect(self, wire: TapKey, text: str) -> None:
        """More frames like this one, which was heard, are to come."""
        shape = self._shapes.get(_key(wire, text.split('"')))
        if shape is not None:
            self._comes_often(wire, shape)

    def _comes_often(self, wire: TapKey, shape: _Shape) -> None:
        often = self._often.setdefault(wire, [])
        if shape not in often:  # it is new there, or was pushed out by others
            often.insert(0, shape)
            del often[OFTEN_MAX:]

    def distrust(self, said: ParsedFrame) -> None:
        """Every frame of this one's shape has to be looked at as a whole."""
        self._shapes.pop(said.shape, None)

    def _heard(self, saying: FieldText, numbers: Sequence[int], words: Sequence[str]) -> None:
        if not saying.parts:
            self.touched.append(saying)
        saying.parts.append((numbers, words))

    def forget(self) -> bool:
        """Keep what is remembered within its bounds. Whether places were forgotten."""
        if len(self._shapes) > SHAPES_MAX:
            self._shapes.clear()
        if len(self._places) <= PLACES_MAX:
            return False
        self._places.clear()
        self._shapes.clear()
        self._often.clear()
        return True

    def _fits(self, number: int, shape: _Shape, tokens: list[str]) -> bool:
        words = [tokens[at] for at in shape.slots]
        for at in shape.slots:
            tokens[at] = ""
        for at in shape.numbers:
            if tokens[at].strip(NUMBERS):
                return False
            tokens[at] = ""
        if tokens != shape.skeleton:
            return False
        for saying, word in zip(shape.sayings, words, strict=True):
            self._heard(saying, (number,), (word,))
        return True

    def _split(self, number: int, wire: TapKey, text: str, key: tuple[object, ...]) -> ParsedFrame:
        """A frame without escapes: its strings are what stands between its quotes."""
        tokens = text.split('"')
        keys, values = _read(tokens)
        said = ParsedFrame(keys=keys, fixed=[tokens[0]])
        if "action" in keys:
            said.value = _json(text)
        texts = [(name, tokens[at]) for at, name in values]
        taken = self._take(number, wire, texts, said)
        sayings = {at: saying for (at, _), saying in zip(values, taken, strict=True) if saying is not None}
        for at in sayings:
            tokens[at] = ""
        clocks = [at for at, name in values if name.endswith(CLOCKS)]
        numbers = [at for at in (*range(2, len(tokens), 2), *clocks) if not tokens[at].strip(NUMBERS)]
        numbers = [at for at in numbers if any(map(str.isdigit, tokens[at]))]
        for at in numbers:
            tokens[at] = ""
        if not said.texts:
            said.shape = key
            others = set(numbers)
            fixed = [at for at, _ in values if at not in sayings and at not in others]
            self._shapes[key] = _Shape(
                skeleton=tokens, slots=list(sayings), sayings=list(sayings.values()), numbers=numbers, fixed=fixed
            )
        return said

    def _decoded(self, number: int, wire: TapKey, text: str) -> ParsedFrame:
        value = _json(text)
        if value is None:
            return ParsedFrame(keys=(), fixed=[text])
        keys: dict[str, None] = {}
        texts: list[Text] = []
        try:
            gather(value, "", keys, texts)
        except RecursionError:
            return ParsedFrame(keys=(), fixed=[text])
        said = ParsedFrame(keys=list(keys), fixed=[text[: text.find("{")]], value=value)
        self._take(number, wire, texts, said)
        return said

    def _take(self, number: int, wire: TapKey, texts: Sequence[Text], said: ParsedFrame) -> list[FieldText | None]:
        """Each text is heard at its place; None where it is a fixed word."""
        kind = next((text for key, text in texts if key in KINDS), "")
        call = "|".join([text for key, text in texts if key in CALLS])
        counts: dict[str, int] = {}
        sayings: list[FieldText | None] = []
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
                saying = self._places[place] = FieldText()
            self._heard(saying, (number,), (text,))
            sayings.append(saying)
        if any(counts.values()) and not _mirrored(texts, counts):
            said.texts = texts
        return sayings


def _key(wire: TapKey, tokens: Sequence[str]) -> tuple[object, ...]:
    """As what the shape of a frame is remembered, which is split at its quotes."""
    return (*wire, len(tokens), tokens[3] if len(tokens) > 3 else "")


def _mirrored(texts: Sequence[Text], counts: dict[str, int]) -> bool:
    """Whether what stands under one key twice or more is the same, as smooth says everything twice."""
    said: dict[str, str] = {}
    return all(said.setdefault(key, text) == text for key, text in texts if counts.get(key))


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


def _are_words(words: Sequence[str]) -> bool:
    """Whether all of it can stand in quotes, with no quote in it but escaped ones."""
    joined = "\n".join(words)
    if "\\" not in joined:
        return '"' not in joined
    quotes = joined.count('\\"')
    return "\\\\" not in joined and joined.count('"') == quotes == '"\n'.join((*words, "")).count('\\"')


def _without_escapes(words: Sequence[str]) -> Sequence[str]:
    """The words as they are meant."""
    array = '["' + '","'.join(words) + '"]'
    if "\\" not in array:
        return words
    try:
        return msgspec.json.decode(array, type=list[str])
    except msgspec.MsgspecError:  # what no decoder takes is looked through too
        return [unescaped(word) for word in words]
