"""Canonical events and commands without the secrets in them.

Every text of a value is looked through by itself, and every JSON of it as text; tags and fixed words are left alone.
What is no JSON any more after that, because a pattern of the user's took a quote with it, is done string by string.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.gateway.recording.redaction.assignments import is_secret_name
from dragoman.gateway.recording.redaction.finder import Finder
from dragoman.gateway.recording.redaction.ledger import Note
from dragoman.gateway.recording.redaction.paths import Keys, Paths
from dragoman.gateway.recording.redaction.rows import Text, across, gather, put_back
from dragoman.gateway.recording.redaction.spans import Mark, Span, merged, replaced
from dragoman.mappings.canonical.commands import AnswerOtp, SetConfig
from dragoman.mappings.canonical.events import ToolCallArguments

__all__ = ["Values", "place_of"]

AnyStruct = TypeVar("AnyStruct", bound=Struct)

WHOLE: dict[tuple[type, str], str] = {(AnswerOtp, "code"): "otp"}
"""What is a secret by what it means."""

AS_PATH: dict[tuple[type, str], str] = {(ToolCallArguments, "json"): "arguments"}
"""What a field is called in paths, where that is not its name."""


def place_of(value: Struct, field: str) -> str:
    """How the ledger calls a field."""
    tag = value.__struct_config__.tag
    return f"{tag if isinstance(tag, str) else type(value).__name__}.{field}"


class Values:
    """Redacts values, each by itself."""

    def __init__(self, finder: Finder, paths: Paths, mark: Mark, note: Note) -> None:
        self._finder = finder
        self._paths = paths
        self._mark = mark
        self._note = note

    def redact(self, value: AnyStruct) -> AnyStruct:
        """The value without its secrets; the same one if it has none."""
        changed: dict[str, Any] = {}
        for name in _fields(type(value)):
            old = getattr(value, name)
            if old is None or old == "" or old == ():
                continue
            new = self._field(value, name, old)
            if new is not old:
                changed[name] = new
        return structs.replace(value, **changed) if changed else value

    def text(self, text: str, place: str, keys: Keys = ()) -> str:
        """A text without its secrets."""
        return self._replaced(text, self.spans(text, keys), place)

    def spans(self, text: str, keys: Keys = ()) -> list[Span]:
        """The secrets of a text that is there as a whole."""
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
            return self._whole(old, "path", place) if self._paths.lead_to(keys) else self.text(old, place, keys)
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
        """A field of an ext; one that is named like a secret is none if it is a number (`context_tokens`)."""
        if isinstance(item, Raw) and is_secret_name(key.rpartition(".")[2]) and bytes(item)[:1] in b'"[{':
            return Raw(msgspec.json.encode(self._whole(bytes(item).decode(), "credential", f"{place}.{key}")))
        return self._any(item, f"{place}.{key}", (*keys, key))

    def _whole(self, old: str, kind: str, place: str) -> str:
        if old.startswith("[redacted:"):
            return old
        self._note(kind, place)
        return self._mark(kind, old)

    def _raw(self, raw: Raw, place: str, keys: Keys) -> Raw:
        text = bytes(raw).decode()
        if not text:
            return raw  # UNSET is no Raw, but an empty one may be
        if self._paths.lead_to(keys):
            return Raw(msgspec.json.encode(self._whole(text, "path", place)))
        new = self._row(self.text(text, place, keys), place)
        return raw if new is text else Raw(new.encode())

    def _row(self, text: str, place: str) -> str:
        """JSON without the secrets that stand in it piece by piece."""
        texts: list[Text] = []
        try:
            value = msgspec.json.decode(text)
            gather(value, "", {}, texts)
        except RecursionError:
            return text  # nobody streams as deep as that
        changed, kinds = across(self._finder, texts, self._mark)
        for kind in kinds:
            self._note(kind, place)
        return msgspec.json.encode(put_back(value, [], changed)).decode() if changed else text

    def _replaced(self, text: str, spans: list[Span], place: str) -> str:
        if not spans:
            return text
        for span in spans:
            self._note(span.kind, place)
        new = replaced(text, spans, self._mark)
        if not _is_json(text) or _is_json(new):
            return new
        if spans[0].end - spans[0].start == len(text):
            return msgspec.json.encode(new).decode()
        try:
            return msgspec.json.encode(self._leaves(msgspec.json.decode(text))).decode()
        except RecursionError:
            return msgspec.json.encode(self._mark(spans[0].kind, text)).decode()

    def _leaves(self, value: Any) -> Any:
        if isinstance(value, str):
            return replaced(value, self._finder.find(value), self._mark)
        if isinstance(value, list):
            return [self._leaves(item) for item in value]
        if isinstance(value, dict):
            return {key: self._leaves(item) for key, item in value.items()}
        return value


def _is_json(text: str) -> bool:
    if not text.startswith(("{", "[", '"')):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


@cache
def _fields(kind: type[Struct]) -> tuple[str, ...]:
    """The fields in which somebody's words may stand: not numbers, not fixed words."""
    return tuple(name for name, hint in get_type_hints(kind).items() if name in kind.__struct_fields__ and _free(hint))


def _free(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal or hint in (int, float, bool, type(None)):
        return False
    if origin is None or origin in (dict, tuple):
        return True
    return any(_free(arg) for arg in get_args(hint))
