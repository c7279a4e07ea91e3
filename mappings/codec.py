"""Codec of one direction of a dialect: frames to wire structs and back.

The usual path is one typed msgspec decode that refuses unknown fields; translators call it as `codec.decode(frame)`. A
refused frame goes to `mend`, which reads it untyped. An unknown message name becomes Unmapped. Undocumented keys are
removed and reported, because strict peers drop or die on extra keys. Any other problem is a PeerError. Both paths end
in the same typed decoder, so there is one definition of a message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, inspect

from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.errors import PeerError
from dragoman.mappings.reflection import Pruner, describe, structs
from dragoman.mappings.untyped import decode_untyped
from dragoman.mappings.value_count import VALUES_MAX, check_value_count, signs_outside_strings

M = TypeVar("M")

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)
"""The errors that `Codec.decode` raises on a frame that `Codec.mend` must read."""


class Format(Protocol):
    """The interface of a codec, as a Direction uses it.

    Codec implements it. Dialects whose messages do not have one key with the type have codecs of their own.
    """

    @property
    def dialect(self) -> str:
        """Return the name of the dialect."""

    @property
    def decode(self) -> Callable[[Any], Any]:
        """Decode a frame; raises the errors in MALFORMED, also for a frame that is not bytes, or PeerError."""

    @property
    def encode(self) -> Callable[[Any], bytes]:
        """Encode a message as a frame."""

    @property
    def watched(self) -> frozenset[type]:
        """Return the wire types whose decoded messages must be passed to `check`."""

    def check(self, frame: Any, message: Any) -> None:
        """Raise PeerError if a decoded frame is too deep, not UTF-8 or has a duplicate key.

        Raise an error in MALFORMED if `mend` must read it.
        """

    def mend(self, frame: bytes) -> tuple[Any, list[str]]:
        """Decode a refused frame and return the message and the removed keys; raises PeerError."""


class Codec(Generic[M]):
    """Decoder and encoder of the messages of one dialect in one direction.

    `union` is the union of the wire structs. `max_depth` is the deepest nesting that real peers accept. `reshape`
    rewrites another legal form of a message into the usual one. `unique_keys` refuses duplicate keys. With
    `reads_halves`, the escape of half a surrogate pair is read as U+FFFD; else such a frame is refused. With
    `sorts_keys`, opaque objects are written with sorted keys; else their keys stay in their order.
    """

    def __init__(
        self,
        dialect: str,
        union: object,
        *,
        max_depth: int,
        unique_keys: bool = False,
        reads_halves: bool = False,
        sorts_keys: bool = False,
        reshape: Callable[[object], object] | None = None,
    ) -> None:
        self.dialect = dialect
        self.max_depth = max_depth
        self.unique_keys = unique_keys
        self._reads_halves = reads_halves
        self._reshape = reshape
        self._union = union
        self.encode = msgspec.json.Encoder(order="deterministic" if sorts_keys else None).encode

    # Decoders are made when the first frame comes, because most links read only one direction of a dialect.

    @cached_property
    def decode(self) -> Callable[[bytes], M]:
        """Decode a frame; raises the errors in MALFORMED."""
        decoder: msgspec.json.Decoder[M] = msgspec.json.Decoder(self._union)
        return decoder.decode

    @cached_property
    def _structs(self) -> list[inspect.StructType]:
        return structs(describe(self._union))

    @cached_property
    def _variants(self) -> dict[object, inspect.StructType]:
        return {struct.tag: struct for struct in self._structs}

    @cached_property
    def _tag_field(self) -> str:
        return self._structs[0].tag_field or ""

    @cached_property
    def _uncounted(self) -> frozenset[type]:
        return frozenset(struct.cls for struct in self._structs if _hides(struct))

    @cached_property
    def watched(self) -> frozenset[type]:
        """Return the wire types with opaque JSON inside: only their messages can nest too deep."""
        return frozenset(struct.cls for struct in self._structs if self.unique_keys or _opaque(struct))

    def check(self, frame: bytes, message: M) -> None:
        """Raise PeerError `too_deep`, `not_utf8` or `duplicate_key` if a decoded frame is one of these.

        Most frames pass a count of a few characters. Only one that may have a duplicate key is decoded again.
        """
        if not (frame.isascii() or is_utf8(frame)):
            raise PeerError("not_utf8", "not UTF-8 text")
        may_repeat_a_key = self.unique_keys and (
            type(message) in self._uncounted
            or frame.count(b":") > self.encode(message).count(b":")
            or b"\\u003" in frame  # an escaped colon
        )
        may_be_deep = len(frame) > 2 * self.max_depth and frame.count(b"{") + frame.count(b"[") > self.max_depth
        if may_repeat_a_key or may_be_deep:
            check_value_count(frame)
            check_depth(frame, self.max_depth)
        if may_repeat_a_key:
            _check_keys(frame)

    def mend(self, frame: bytes) -> tuple[M | Unmapped, list[str]]:
        """Decode a frame that the typed decoder refused; return the message and the paths of the removed keys.

        Raises PeerError if the frame is not a message of this dialect. The error's `value` is the untyped JSON, if any.
        """
        if self._reads_halves:
            frame = without_halves(frame)
        value = read_json(frame, self.max_depth)
        if self.unique_keys:
            _check_keys(frame)
        if self._reshape is not None:
            value = self._reshape(value)
        if not isinstance(value, dict):
            raise PeerError("invalid", "expected a JSON object", value=value)
        tag = value.get(self._tag_field)
        if not isinstance(tag, str):
            raise PeerError("invalid", f"missing `{self._tag_field}`", value=value)
        variant = self._variants.get(tag)
        if variant is None:
            return Unmapped(dialect=self.dialect, tag=tag, raw=frame.decode()), []
        pruner = Pruner()
        pruned = pruner.prune_object(value, [variant], "$")
        try:
            return self.decode(msgspec.json.encode(pruned)), pruner.dropped
        except msgspec.DecodeError as error:
            raise PeerError("invalid", f"invalid `{tag}`: {error}", value=pruned) from error


def is_utf8(frame: bytes) -> bool:
    """Return True if a frame is UTF-8; msgspec does not look into opaque JSON."""
    try:
        frame.decode()
    except UnicodeDecodeError:
        return False
    return True


HALF = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
"""The escape of a surrogate without its partner, in JSON without escaped backslashes."""

ESCAPES_MAX = 16 * 1024
"""Maximum number of backslashes of a frame in which halves of pairs are replaced: as many halves take up to 15 ms."""


def without_halves(frame: bytes) -> bytes:
    """Return the frame with U+FFFD for each escape of half a surrogate pair, as of a text that JavaScript has cut.

    A frame with more than ESCAPES_MAX backslashes is returned as it is.
    """
    if (rb"\ud" not in frame and rb"\uD" not in frame) or b"\0" in frame or frame.count(b"\\") > ESCAPES_MAX:
        return frame  # NUL is in no JSON
    return HALF.sub(rb"\\ufffd", frame.replace(rb"\\", b"\0")).replace(b"\0", rb"\\")


def read_json(frame: bytes, max_depth: int) -> object:
    """Return the JSON of a frame as untyped values, or raise PeerError."""
    check_value_count(frame)
    try:
        value = decode_untyped(frame)
    except RecursionError as error:
        raise PeerError("too_deep", "nested too deep") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # it depends on the version of msgspec
        if not is_utf8(frame):
            raise PeerError("not_utf8", "not UTF-8 text") from error
        raise PeerError("not_json", f"not JSON: {error}") from error
    check_depth(frame, max_depth)
    return value


DEPTHS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # 1 and -1 as signed bytes


def check_depth(frame: bytes, max_depth: int, text: str = "") -> None:
    """Raise PeerError `too_deep` if the JSON of a frame nests too deep.

    The brackets outside of strings are added up. That takes 30 ns for each, while a walk over 500 levels takes 0.3 ms.
    Raise PeerError `too_large` after more than VALUES_MAX of them.
    """
    if len(frame) <= 2 * max_depth or frame.count(b"{") + frame.count(b"[") <= max_depth:
        return
    depth = opened = 0
    for piece in signs_outside_strings(frame):
        signs = memoryview(piece.translate(DEPTHS, b",")).cast("b")
        if max(accumulate(signs, initial=depth)) > max_depth:
            raise PeerError("too_deep", text or f"nested deeper than {max_depth} levels")
        grown = sum(signs)
        depth, opened = depth + grown, opened + (len(signs) + grown) // 2
        if opened > VALUES_MAX:
            raise PeerError("too_large", f"more than {VALUES_MAX} JSON values in one message")


def _inside(shape: inspect.Type, seen: set[type]) -> Iterator[inspect.Type]:
    """Yield `shape` and every type that may be inside it."""
    match shape:
        case inspect.StructType():
            if shape.cls in seen:
                return
            seen.add(shape.cls)
            members: tuple[inspect.Type, ...] = tuple(f.type for f in shape.fields)
        case inspect.UnionType():
            members = shape.types
        case inspect.ListType() | inspect.VarTupleType():
            members = (shape.item_type,)
        case _:
            members = ()
    yield shape
    for member in members:
        yield from _inside(member, seen)


def _opaque(shape: inspect.Type) -> bool:
    """Return True if `shape` can contain opaque JSON: any value, without a declared type."""
    anything = inspect.AnyType | inspect.RawType | inspect.CustomType | inspect.DictType
    return any(isinstance(member, anything) for member in _inside(shape, set()))


def _hides(shape: inspect.Type) -> bool:
    """Return True if counting characters can miss a duplicate key: in a field with a default value, or in Raw."""
    return any(
        isinstance(member, inspect.RawType)
        or (
            isinstance(member, inspect.StructType)
            and not member.cls.__struct_config__.omit_defaults
            and any(not field.required and field.default is not UNSET for field in member.fields)
        )
        for member in _inside(shape, set())
    )


def _check_keys(frame: bytes) -> None:
    """Raise PeerError `duplicate_key` if an object of a frame has a key twice."""
    json.loads(frame, object_pairs_hook=_unique, parse_int=str)  # Python reads no integer of over 640 digits here


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise PeerError("duplicate_key", "an object has the same key twice")
    return members


def part_size(command: type[Struct]) -> Callable[[bytes], int]:
    """Return a function that returns the size (bytes) of the large parts of a frame; 0 if it is another command.

    They are the parts that may make a command longer than `max_command`: attachments, stored messages, histories.
    `command` has the names of the commands as a Literal, and the large parts as fields of type Raw. So a word in the
    text of a message, or a field that the command does not have, does not raise the limit.
    """
    decoder = msgspec.json.Decoder(command)

    def size(frame: bytes) -> int:
        with suppress(*MALFORMED):
            return _size(decoder.decode(frame))
        return 0

    return size


def _size(value: object) -> int:
    if isinstance(value, Struct):
        return sum(map(_size, msgspec.structs.astuple(value)))
    return len(memoryview(value)) if isinstance(value, Raw) else 0
