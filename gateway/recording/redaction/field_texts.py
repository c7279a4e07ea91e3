"""Join the texts in frames by field, so that a secret which is split over frames is found.

Texts of two frames belong to one field if the frames are of one tap and kind and the texts have the same key. If a
frame has several such keys, their order decides. A frame without escapes is split at its quotes. So every string is
seen, also in a frame that is cut off or repeats a key. A frame with escapes is decoded. Frames that differ in one word
only are parsed once for all of their words.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct, field

from dragoman.gateway.recording.redaction.finder import KNOWN_MOST, LEAST
from dragoman.gateway.recording.redaction.values import KeyedText, gather_texts, read_json

FIELDS_MAX = 4096  # fields of all taps of a recording; above this number all are forgotten
UNFINISHED_MAX = 64  # fields whose text may be a long secret that goes on: at most 64 KiB each
LONG = 1024  # characters that are remembered of any other text

FIXED = frozenset(("type", "event", "action", "method", "topic", "kind", "channel", "role", "status", "jsonrpc"))
NAMES = ("_id", "Id")
CLOCKS = ("timestamp", "_at", "At")
"""Keys, and ends of keys, whose values are names or times: each is searched alone, and not as a part of a longer text.
"""

CALLS = frozenset(("id", "call", "call_id", "callId", "tool_call_id", "toolCallId", "item_id"))
"""Keys that distinguish the texts of calls that run at the same time."""

KINDS = frozenset(("type", "event", "topic"))
"""Keys whose value is the kind of a frame."""

NUMBERS = "0123456789:,{}[]. -+TZ"

OPENING = "{[ \t\r\n"
"""The characters that may stand before the first quote of JSON."""

ANY_WORD = f"\ufdd0{os.urandom(8).hex()}"  # stands for the word in which frames differ; no peer can guess it

EMPTIED = ("[redacted:frame:00000000]",)
"""The word that stands for a frame which was emptied before."""

TapKey = tuple[str, str]
"""Link and direction of the frames at one tap point."""

Part = tuple[Sequence[int], Sequence[str]]
"""Numbers of frames, and the word of each frame."""


class FieldText(Struct, eq=False):
    """The text of one field of a tap: its new parts, and the end of the text before them (`behind`)."""

    tap: TapKey
    behind: str = ""
    parts: list[Part] = field(default_factory=list)


class ParsedFrame(Struct):
    """A frame that was parsed as a whole: its keys, the text of each field, and words that are searched alone.

    `rows` are all its texts if several differ under one key, else none. `value` is set for JSON with escapes or an
    action.
    """

    keys: Sequence[str]
    fixed: list[str]
    texts: list[tuple[FieldText, str]] = field(default_factory=list)
    rows: Sequence[KeyedText] = ()
    value: Any = None


class FieldTexts:
    """The fields of all frames of one recording."""

    __slots__ = ("_alone", "_fields", "_gaps", "_going_on", "_touched", "_unfinished", "has_new")

    def __init__(self) -> None:
        self.has_new = False
        """True if texts came since the last call of `take`."""
        self._touched: list[FieldText] = []  # the fields with new parts
        self._going_on: dict[TapKey, list[FieldText]] = {}  # fields with new parts since a frame of the tap was emptied
        self._alone: dict[str, list[int]] = {}  # words that are searched alone, and the numbers of their frames
        self._fields: dict[int, FieldText] = {}  # by the hash of their places
        self._gaps: Counter[TapKey] = Counter()
        self._unfinished: set[FieldText] = set()

    def begin_anew(self, tap: TapKey, number: int) -> None:
        """End all texts of this tap, because the frame `number` was emptied before.

        They end in a placeholder, because the end of a text may turn its last word into a value.
        """
        self._gaps[tap] += 1
        self.has_new = True
        for field_text in self._going_on.pop(tap, ()):
            field_text.parts.append(((number,), EMPTIED))

    def parse(self, tap: TapKey, text: str) -> ParsedFrame:
        """Return a frame of this tap, parsed. Nothing of it is gathered before `add`."""
        keys: dict[str, None] = {}
        texts: list[KeyedText] = []
        value, before = None, text
        if "\\" not in text:
            before, *tokens = text.split('"')
            if before.rpartition("\0")[2].strip(OPENING):
                return ParsedFrame(keys=(), fixed=[text])  # no JSON: what stands before a quote may be its name
            key = ""
            for string, behind in zip_longest(tokens[::2], tokens[1::2], fillvalue=""):
                if behind.lstrip().startswith(":"):
                    key = string
                    keys[key] = None
                else:
                    texts.append((key, string))
            value = _json(text) if "action" in keys else None
        else:
            value = _json(text)
            try:
                gather_texts(value, "", keys, texts)
            except RecursionError:
                return ParsedFrame(keys=(), fixed=[text])
            if value is not None:
                before = text[: text.find("{")]
        parsed = ParsedFrame(keys=list(keys), fixed=[before], value=value)
        self._find_fields(tap, texts, parsed)
        return parsed

    def add(self, parsed: ParsedFrame, numbers: Sequence[int], words: Sequence[str] = ()) -> None:
        """Gather the texts of frames: of one, or of alike ones, each with one of `words` instead of ANY_WORD.

        A text may be a secret only as long as nothing is joined to it, so it is searched alone as well.
        """
        self.has_new = True
        for field_text, text in parsed.texts:
            if not field_text.parts:
                self._touched.append(field_text)
                self._going_on.setdefault(field_text.tap, []).append(field_text)
            field_text.parts.append((numbers, words if text == ANY_WORD else [text] * len(numbers)))
            if text != ANY_WORD and LEAST <= len(text) <= KNOWN_MOST:  # a larger one is searched alone anyway
                self._alone.setdefault(text, []).extend(numbers)
        for word in parsed.fixed:
            self._alone.setdefault(word, []).extend(numbers)

    def take(self) -> tuple[dict[str, list[int]], list[FieldText]]:
        """Return the texts since the last call: words to search alone, with the numbers of their frames, and fields."""
        taken, self._alone, self._touched, self._going_on = (self._alone, self._touched), {}, [], {}
        self.has_new = False
        return taken

    def note_unfinished(self, field_text: FieldText) -> None:
        """Note that this text may end in an unfinished secret, which is then remembered from its beginning."""
        self._unfinished.add(field_text)

    def forget_excess(self) -> bool:
        """Forget all fields if there are more than FIELDS_MAX, and return True then."""
        if len(self._unfinished) > UNFINISHED_MAX:
            self._unfinished = {one for one in self._unfinished if len(one.behind) > LONG}
        if len(self._fields) + len(self._gaps) <= FIELDS_MAX and len(self._unfinished) <= UNFINISHED_MAX:
            return False
        self._fields.clear()
        self._gaps.clear()
        self._unfinished.clear()
        return True

    def _find_fields(self, tap: TapKey, texts: Sequence[KeyedText], parsed: ParsedFrame) -> None:
        """Assign each text of a frame to its field, or to the fixed words."""
        kind = call = ""
        for key, text in texts:
            if key in KINDS:
                kind = kind or text
            elif key in CALLS:
                call += f"|{text}"
        counts: dict[str, int] = {}
        gap = self._gaps.get(tap, 0)
        for key, text in texts:
            if key in FIXED or key in CALLS or key.endswith(NAMES) or key.endswith(CLOCKS):
                if not key.endswith(CLOCKS) or text.strip(NUMBERS):
                    parsed.fixed.append(text)
                continue
            nth = counts[key] = counts.get(key, -1) + 1
            place = hash((*tap, gap, kind, call, key, nth))  # peers choose the length of keys and ids
            field_text = self._fields.get(place)
            if field_text is None:
                field_text = self._fields[place] = FieldText(tap)
            parsed.texts.append((field_text, text))
        if any(counts.values()) and not _mirrored(texts, counts):
            parsed.rows = texts


def _mirrored(texts: Sequence[KeyedText], counts: dict[str, int]) -> bool:
    """Return True if all texts under one key are equal, as smooth sends everything twice."""
    first: dict[str, str] = {}
    return all(first.setdefault(key, text) == text for key, text in texts if counts.get(key))


def _json(text: str) -> dict[str, Any] | None:
    """Return the object in a frame, without the topic that precedes it in a pando event."""
    value = read_json(text[max(0, text.find("{")) :])
    return value if isinstance(value, dict) else None
