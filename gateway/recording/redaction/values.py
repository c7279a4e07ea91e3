"""Redact canonical events and commands: every text of a value, and every JSON value in it as text.

Tags and fixed words are left alone. A user's pattern may take a quote with it, so that a text is no JSON any more; such
a value is redacted string by string. Texts under one JSON key form a row, because a result may repeat the deltas of its
turn piece by piece: a secret that is spread over the pieces is found only in their row.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.gateway.recording.format import CommandLine, EventLine
from dragoman.gateway.recording.redaction.finder import KNOWN_MOST, Finder
from dragoman.gateway.recording.redaction.paths import JsonPaths, Keys
from dragoman.gateway.recording.redaction.shapes import is_secret_name
from dragoman.gateway.recording.redaction.spans import PREFIX, Mark, Span, merged, replaced, replaced_in_pieces
from dragoman.mappings.canonical.commands import AnswerOtp, SetConfig
from dragoman.mappings.canonical.events import ToolCallArguments
from dragoman.mappings.untyped import decode_untyped

AnyStruct = TypeVar("AnyStruct", bound=Struct)

KeyedText = tuple[str, str]
"""A pair of a JSON key and a text under it."""

WHOLE: dict[tuple[type, str], str] = {(AnswerOtp, "code"): "otp"}
"""Fields that are secrets by their meaning, and their kinds."""

AS_PATH: dict[tuple[type, str], str] = {(ToolCallArguments, "json"): "arguments"}
"""Names of fields in JSON paths, where they differ from the name of the field."""


NOT_READ = (msgspec.MsgspecError, RecursionError)
"""The errors of a text that is no JSON, is too deep, or has a number out of range, which only Raw can hold."""

STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_encode_lines = msgspec.json.Encoder().encode_lines
_decode_texts = msgspec.json.Decoder(list[str]).decode


def place_of(value: Struct, field: str) -> str:
    """Return the name of a field in reports: `TAG.FIELD`, with the tag of the struct."""
    tag = value.__struct_config__.tag
    return f"{tag if isinstance(tag, str) else type(value).__name__}.{field}"


class ValueRedactor:
    """Redacts values one by one. `note` is called with the kind and place of each secret."""

    __slots__ = ("_finder", "_mark", "_note", "_paths")

    def __init__(self, finder: Finder, paths: JsonPaths, mark: Mark, note: Callable[[str, str], None]) -> None:
        self._finder = finder
        self._paths = paths
        self._mark = mark
        self._note = note

    def are_clean(self, lines: Sequence[EventLine | CommandLine]) -> bool:
        """Return True if a search of all texts of these lines together finds no secret, which is nearly always.

        False may also mean that they must be redacted one by one.
        """
        kinds = {type(line.event if isinstance(line, EventLine) else line.command) for line in lines}
        if self._paths or False in map(_is_plain, kinds):
            return False
        encoded = _encode_lines(lines)
        if len(encoded) > KNOWN_MOST or b'"ext":' in encoded:
            return False
        text = encoded.decode()
        if "\\" not in text:
            return self._finder.is_clean(text.split('"')[1::2])
        return self._finder.is_clean(_decode_texts("[" + ",".join(STRING.findall(text)) + "]"))

    def redact(self, value: AnyStruct, fields: Sequence[str] | None = None) -> AnyStruct:
        """Return the value without the secrets in `fields`, or in all, or the same object if it has none."""
        changed: dict[str, Any] = {}
        for name in _fields(type(value)) if fields is None else fields:
            old = getattr(value, name)
            if old is None or old == "" or old == ():
                continue
            new = self._field(value, name, old)
            if new is not old:
                changed[name] = new
        return structs.replace(value, **changed) if changed else value

    def finds(self, text: str, keys: Keys) -> bool:
        """Return True if a text that stands at `keys` is a secret, or holds one."""
        return self._paths.lead_to(keys) or bool(self.spans(text, keys))

    def spans(self, text: str, keys: Keys = ()) -> list[Span]:
        """Return the secrets of a complete text that stands at `keys`."""
        found = self._paths.find(text, keys)
        return merged([*self._finder.find(text), *found]) if found else self._finder.find(text)

    def _field(self, value: Struct, name: str, old: Any) -> Any:
        place = place_of(value, name)
        if kind := WHOLE.get((type(value), name)):
            return self._whole(old, kind, place)
        if isinstance(value, SetConfig) and name == "value" and is_secret_name(value.key):
            return self._whole(old, "credential", place)
        return self._any(old, place, (AS_PATH.get((type(value), name), name),))

    def _any(self, old: Any, place: str, keys: Keys) -> Any:
        if isinstance(old, str):
            if self._paths.lead_to(keys):
                return self._whole(old, "path", place)
            return self._replaced(old, self.spans(old, keys), place)
        if isinstance(old, Raw):
            return self._raw(old, place, keys)
        if isinstance(old, Struct):
            return self.redact(old)
        if isinstance(old, tuple):
            new = tuple(self._any(item, place, keys) for item in old)
            return new if any(one is not other for one, other in zip(new, old, strict=True)) else old
        if isinstance(old, dict):
            mapped = {key: self._under(key, item, place, keys) for key, item in old.items()}
            return mapped if any(mapped[key] is not item for key, item in old.items()) else old
        return old

    def _under(self, key: str, item: Any, place: str, keys: Keys) -> Any:
        """Redact a field of an ext. A number is no secret, whatever its name (`context_tokens`)."""
        if isinstance(item, Raw) and is_secret_name(key.rpartition(".")[2]) and bytes(item)[:1] in b'"[{':
            return Raw(msgspec.json.encode(self._whole(bytes(item).decode(), "credential", f"{place}.{key}")))
        return self._any(item, f"{place}.{key}", (*keys, key))

    def _whole(self, old: str, kind: str, place: str) -> str:
        if old.startswith(PREFIX):
            return old
        self._note(kind, place)
        return self._mark(kind, old)

    def _raw(self, raw: Raw, place: str, keys: Keys) -> Raw:
        text = bytes(raw).decode()
        if not text:
            return raw  # UNSET is no Raw, but an empty one may be
        if self._paths.lead_to(keys):
            return Raw(msgspec.json.encode(self._whole(text, "path", place)))
        new = self._rows_redacted(self._replaced(text, self.spans(text, keys), place), place)
        return raw if new is text else Raw(new.encode())

    def _rows_redacted(self, text: str, place: str) -> str:
        """Return JSON without the secrets that are split over several of its texts."""
        try:
            value, texts = _decoded(text)
        except NOT_READ:
            return text  # no stream is nested as deep as that
        changed, kinds = find_in_rows(self._finder, texts, self._mark)
        for kind in kinds:
            self._note(kind, place)
        return msgspec.json.encode(replace_texts(value, [], changed)).decode() if changed else text

    def _replaced(self, text: str, spans: list[Span], place: str) -> str:
        if not spans:
            return text
        for span in spans:
            self._note(span.kind, place)
        new = replaced(text, spans, self._mark)
        if not text.startswith(("{", "[", '"')) or read_json(text) is None or read_json(new) is not None:
            return new
        if spans[0].end - spans[0].start == len(text):
            return msgspec.json.encode(new).decode()
        try:
            value, texts = _decoded(text)
            changed = {n: replaced(one, self._finder.find(one), self._mark) for n, (_, one) in enumerate(texts)}
            return msgspec.json.encode(replace_texts(value, [], changed)).decode()
        except NOT_READ:
            return msgspec.json.encode(self._mark(spans[0].kind, text)).decode()


# -- JSON values and the rows of texts in them ------------------------------------------------------------


def gather_texts(value: Any, key: str, keys: dict[str, None], texts: list[KeyedText]) -> None:
    """Add all keys and texts of a JSON value that stands under `key`, in its order."""
    kind = type(value)
    if kind is str:
        texts.append((key, value))
    elif kind is dict:
        for name, item in value.items():
            keys[name] = None
            gather_texts(item, name, keys, texts)
    elif kind is list:
        for item in value:
            gather_texts(item, key, keys, texts)


def find_in_rows(finder: Finder, texts: Sequence[KeyedText], mark: Mark) -> tuple[dict[int, str], list[str]]:
    """Find secrets that are spread over several texts under one key.

    Return the texts (by their index) without their parts of such secrets, and the kinds of these secrets.
    """
    rows: dict[str, list[int]] = {}
    for number, (key, text) in enumerate(texts):
        if text:
            rows.setdefault(key, []).append(number)
    changed: dict[int, str] = {}
    kinds: list[str] = []
    for numbers in rows.values():
        pieces = [texts[number][1] for number in numbers]
        if len(pieces) < 2 or len(set(pieces)) == 1:  # one text sent twice, as smooth does
            continue
        joined = "".join(pieces)
        places = list(pairwise(accumulate(map(len, pieces), initial=0)))
        ends = [end for _, end in places]
        spans = [s for s in finder.find(joined) if ends[bisect_right(ends, s.start)] < s.end]
        if spans:
            kinds += [span.kind for span in spans]
            cleaned = replaced_in_pieces(joined, places, spans, mark)
            new = {number: text for number, (text, _) in zip(numbers, cleaned, strict=True)}
            changed |= {number: text for number, text in new.items() if text != texts[number][1]}
    return changed, kinds


def replace_texts(value: Any, seen: list[None], changed: dict[int, str]) -> Any:
    """Return the JSON value with these texts instead, by their index; `seen` counts the texts on the way."""
    kind = type(value)
    if kind is str:
        seen.append(None)
        return changed.get(len(seen) - 1, value)
    if kind is dict:
        return {name: replace_texts(item, seen, changed) for name, item in value.items()}
    if kind is list:
        return [replace_texts(item, seen, changed) for item in value]
    return value


def read_json(text: str) -> Any:
    """Return the JSON value of a text; None if it is null, no JSON, or too deep."""
    try:
        return decode_untyped(text)
    except NOT_READ:
        return None


def _decoded(text: str) -> tuple[Any, list[KeyedText]]:
    """Return a JSON value and the texts in it. Raise an error of NOT_READ if it cannot be read."""
    texts: list[KeyedText] = []
    value = decode_untyped(text)
    gather_texts(value, "", {}, texts)
    return value, texts


@cache
def _fields(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields that may hold free text: not numbers, not fixed words."""
    return tuple(name for name, hint in get_type_hints(kind).items() if name in kind.__struct_fields__ and _free(hint))


@cache
def _is_plain(kind: type[Struct]) -> bool:
    """Return True if each free text of such a value is searched alone: only an `ext` may hold JSON."""
    if kind is SetConfig or any(owner is kind for owner, _ in WHOLE):
        return False
    return not any(_may_hold_json(hint) for name, hint in get_type_hints(kind).items() if name != "ext")


def _may_hold_json(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return not _is_plain(hint)
    return hint in (Raw, Any) or any(map(_may_hold_json, get_args(hint)))


def _free(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal or hint in (int, float, bool, type(None)):
        return False
    if origin is None or origin in (dict, tuple):
        return True
    return any(_free(arg) for arg in get_args(hint))
