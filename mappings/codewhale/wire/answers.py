"""The codec of what a server says: answers, and bare lines before them (docs/dialects/codewhale.md, sections 0 and 11).

A line is told by its members, never by how it begins: some builds sort all of them.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType, inspect

from dragoman.mappings.canonical.unmapped import Unmapped
from dragoman.mappings.codewhale.wire import lines, results
from dragoman.mappings.codewhale.wire.frames import EventFrame
from dragoman.mappings.codewhale.wire.shapes import depth, fitted
from dragoman.mappings.codewhale.wire.values import Wire
from dragoman.mappings.errors import PeerError
from dragoman.mappings.value_count import check_value_count

MAX_DEPTH = 128  # of its parser, serde_json

ENCODER = msgspec.json.Encoder()
LINES: msgspec.json.Decoder[lines.Line] = msgspec.json.Decoder(lines.Line)
FRAMES: msgspec.json.Decoder[EventFrame] = msgspec.json.Decoder(EventFrame)
NAMES = msgspec.json.Decoder(dict[str, Raw])
LINE_TYPES = {struct.__struct_config__.tag: struct for struct in get_args(lines.Line)}
RESULTS: dict[type[Wire], msgspec.json.Decoder[Any]] = {
    shape: msgspec.json.Decoder(shape) for shape in get_args(results.Result)
}


class Envelope(Wire, frozen=True, kw_only=True):
    """An answer whose result was not looked into yet."""

    jsonrpc: str | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: results.Problem | UnsetType | None = UNSET


ENVELOPE = msgspec.json.Decoder(Envelope)


class Events:
    """What a server says."""

    dialect = "codewhale"
    watched: frozenset[type] = frozenset((results.Answer, *get_args(lines.Line)))

    def decode(self, frame: bytes) -> Any:
        """A line as a message."""
        try:
            return LINES.decode(frame)
        except msgspec.ValidationError:
            return _answer(ENVELOPE.decode(frame))

    def encode(self, message: Any) -> bytes:
        """A message as a line."""
        return ENCODER.encode(message)

    def suspicious(self, frame: bytes, message: Any) -> bool:
        """Whether a frame that decoded may still be nested too deep, in JSON that nobody looked into."""
        return len(frame) > 2 * MAX_DEPTH and frame.count(b"{") + frame.count(b"[") > MAX_DEPTH

    def check(self, frame: bytes) -> None:
        """PeerError `too_deep`."""
        _untyped(frame)

    def mend(self, frame: bytes) -> tuple[Any, list[str]]:
        """What `decode` refused: a line with members that are not documented, an unknown one, or none."""
        value = _untyped(frame)
        if not isinstance(value, dict):
            raise PeerError("invalid", "expected a JSON object", value=value)
        tag = value.get("type")
        if isinstance(tag, str) and "jsonrpc" not in value:
            kind = LINE_TYPES.get(tag)
            if kind is None:
                return Unmapped(dialect="codewhale", tag=tag, raw=frame.decode()), []
        elif "result" not in value and "error" not in value:
            raise PeerError("invalid", "neither an answer nor a bare line", value=value)
        else:
            kind = results.Answer
        dropped: list[str] = []
        inside = value.get("result")
        shape = results.shape_of(inside) if kind is results.Answer and isinstance(inside, dict) else None
        if shape is not None:
            value = value | {"result": fitted(inside, inspect.type_info(shape), "$.result", dropped)}
        fitting = fitted(value, inspect.type_info(Envelope if kind is results.Answer else kind), "$", dropped)
        try:
            return self.decode(msgspec.json.encode(fitting)), dropped
        except (msgspec.DecodeError, RecursionError) as error:
            raise PeerError("invalid", f"no answer of a codewhale: {error}", value=value) from error


def _answer(said: Envelope) -> results.Answer:
    error, result = said.error or UNSET, said.result
    if (error is UNSET) is (result is UNSET):
        raise msgspec.DecodeError("an answer has a result or an error")
    if said.jsonrpc not in (UNSET, "2.0"):
        raise msgspec.DecodeError("not JSON-RPC 2.0")
    inside: Any = result
    if result is not UNSET and bytes(result).lstrip()[:1] == b"{":
        shape = results.shape_of(NAMES.decode(result))
        inside = result if shape is None else RESULTS[shape].decode(result)
    return results.Answer(id=results.NULL if said.id is UNSET else Raw(bytes(said.id)), result=inside, error=error)


def typed(result: Raw) -> Any:
    """A result in the struct of its shape, as it is if it has none."""
    try:
        return _answer(Envelope(result=result)).result
    except msgspec.DecodeError:
        return result


def _untyped(frame: bytes) -> object:
    """Return the JSON of a frame, or raise PeerError."""
    check_value_count(frame)
    try:
        frame.decode()
        value = msgspec.json.decode(frame)
    except UnicodeDecodeError as error:
        raise PeerError("not_utf8", "not UTF-8 text") from error
    except RecursionError as error:
        raise PeerError("too_deep", "nested too deep") from error
    except msgspec.DecodeError as error:
        raise PeerError("not_json", f"not JSON: {error}") from error
    if depth(value) > MAX_DEPTH:
        raise PeerError("too_deep", f"nested deeper than {MAX_DEPTH} levels")
    return value


EVENTS = Events()
