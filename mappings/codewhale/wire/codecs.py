"""The two codecs of codewhale: EVENTS (answers and bare lines) and REQUESTS
(docs/dialects/codewhale.md, sections 0, 1 and 11).

A server's line is recognised by the names of its members, not by their order, because some builds sort them. A request
may use any alias of its method, and an array of values in place of an object.

The `value` of a PeerError decides the error code of the answer. Without `value` the line is not a request (-32700). A
value with another `jsonrpc` version is an invalid request (-32600). Any other value has wrong params (-32602).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, inspect
from msgspec.structs import replace

from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.codec import check_depth, is_utf8, read_json
from dragoman.mappings.codewhale.ids import read_id
from dragoman.mappings.codewhale.wire import lines, requests, results
from dragoman.mappings.codewhale.wire.values import Wire
from dragoman.mappings.errors import ERROR_TEXT_MAX, PeerError
from dragoman.mappings.jsonrpc import Envelope, decode_envelope
from dragoman.mappings.reflection import Pruner, alternatives, struct_field, struct_type, structs
from dragoman.mappings.untyped import decode_untyped
from dragoman.mappings.value_count import check_value_count

MAX_DEPTH = 127  # levels; the real parser, serde_json, refuses 128

ENCODER = msgspec.json.Encoder()

# Decoders are made when the first message of their type comes: most links read only one direction of a dialect.
decoder_of: Callable[[Any], msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)
"""Return the decoder of a type."""


# -- messages of a server ---------------------------------------------------------------------------


NAMES = msgspec.json.Decoder(dict[str, Raw])
LINE_TYPES = {struct.__struct_config__.tag: struct for struct in get_args(lines.Line)}


class Events:
    """The codec of a server's messages: bare lines and answers."""

    dialect = "codewhale"
    watched: frozenset[type] = frozenset((results.Answer, lines.ToolHook, lines.FrameHook))  # with opaque JSON inside

    @cached_property
    def decode_line(self) -> Callable[[bytes], lines.Line]:
        """Decode a bare line; raises the errors in MALFORMED for anything else."""
        decoder: msgspec.json.Decoder[lines.Line] = decoder_of(lines.Line)
        return decoder.decode

    def decode(self, frame: bytes) -> Any:
        """Decode a line as a bare line or an answer; raises DecodeError if `mend` must read the line."""
        try:
            return self.decode_line(frame)
        except msgspec.ValidationError:
            return _decode_answer(decode_envelope(frame))

    def encode(self, message: Any) -> bytes:
        return ENCODER.encode(message)

    def check(self, frame: bytes, _message: Any) -> None:
        """Raise PeerError `too_deep` or `not_utf8` if opaque JSON in a decoded line is one of these."""
        may_be_deep = len(frame) > 2 * MAX_DEPTH and frame.count(b"{") + frame.count(b"[") > MAX_DEPTH
        if may_be_deep or not (frame.isascii() or is_utf8(frame)):
            read_json(frame, MAX_DEPTH)

    def mend(self, frame: bytes) -> tuple[Any, list[str]]:
        """Decode a line that `decode` refused, without its undocumented members, or as Unmapped."""
        value = read_json(frame, MAX_DEPTH)
        if not isinstance(value, dict):
            raise PeerError("invalid", "expected a JSON object", value=value)
        tag = value.get("type")
        if isinstance(tag, str) and "jsonrpc" not in value:
            kind = LINE_TYPES.get(tag)
            if kind is None:
                return Unmapped(dialect="codewhale", tag=tag, raw=frame.decode()), []
        elif "result" not in value and "error" not in value:
            raise PeerError("invalid", "neither a response with `result` or `error` nor a bare line", value=value)
        else:
            kind = results.Answer
        pruner = CodewhalePruner()
        inside = value.get("result")
        shape = results.shape_of(inside) if kind is results.Answer and isinstance(inside, dict) else None
        if shape is not None:
            value = value | {"result": pruner.prune(inside, struct_type(shape), "$.result")}
        try:
            return self.decode(msgspec.json.encode(pruner.prune(value, struct_type(kind)))), pruner.dropped
        except (msgspec.DecodeError, RecursionError) as error:
            raise PeerError("invalid", f"invalid answer of a codewhale: {error}", value=value) from error


def _decode_answer(envelope: Envelope) -> results.Answer:
    if envelope.kind != "response":
        raise msgspec.DecodeError("not an answer")
    error, result = UNSET if envelope.error == results.NULL else envelope.error, envelope.result
    if (error is UNSET) is (result is UNSET):
        raise msgspec.DecodeError("an answer has a result or an error")
    if envelope.jsonrpc not in (UNSET, "2.0"):
        raise msgspec.DecodeError("not JSON-RPC 2.0")
    own = results.NULL if envelope.id is UNSET else Raw(bytes(envelope.id))
    if error is not UNSET:
        return results.Answer(id=own, error=decoder_of(results.Problem).decode(error))
    inside: Any = result
    if result is not UNSET and bytes(result).lstrip()[:1] == b"{":
        shape = results.shape_of(NAMES.decode(result))
        inside = result if shape is None else decoder_of(shape).decode(result)
    return results.Answer(id=own, result=inside)


def typed(result: Raw) -> Any:
    """Return a result as the struct that has its members, or unchanged if there is no such struct."""
    try:
        return _decode_answer(Envelope(result=result)).result
    except msgspec.DecodeError:
        return result


# -- requests of a client ---------------------------------------------------------------------------


POSITIONS = ("jsonrpc", "id", "method", "params")
GROUPS = {requests.THREAD: "ThreadRequest", requests.APP: "AppRequest"}
NO_OBJECT = (Raw(b"null"), UNSET)


class Form:
    """A type of request: its struct, and the type of its params (None if params are ignored)."""

    def __init__(self, kind: type[requests.RequestBase]) -> None:
        self.kind = kind

    @property
    def required(self) -> bool:
        """True if the request must have params."""
        return struct_field(self.kind, "params").required

    @cached_property
    def params(self) -> inspect.StructType | None:
        shape = struct_field(self.kind, "params").type
        ignored = any(isinstance(member, inspect.RawType) for member in alternatives(shape))
        return None if ignored else structs(shape)[0]

    def decode(self, params: Raw | bytes) -> Any:
        """Return params as a struct; servers read a `config` of null as absent, like every other optional param."""
        assert self.params is not None  # noqa: S101  # params that are ignored are not decoded
        decoded = decoder_of(self.params.cls).decode(params)
        null = isinstance(decoded, requests.Resume.Params | requests.Fork.Params) and decoded.config == results.NULL
        return replace(decoded, config=UNSET) if null else decoded


FORMS = [Form(kind) for kind in requests.REQUESTS]
BY_METHOD = {name: form for form in FORMS for name in form.kind.spelling.methods}
BY_KIND = {(form.kind.spelling.group, form.kind.spelling.kind): form for form in FORMS if form.kind.spelling.kind}


class Requests:
    """The codec of a client's requests."""

    dialect = "codewhale"
    watched: frozenset[type] = frozenset(requests.REQUESTS)

    def decode(self, frame: bytes) -> Any:
        """Decode a line as a request; raises DecodeError if `mend` must read the line."""
        envelope = decode_envelope(frame)
        if envelope.kind == "response":
            raise msgspec.DecodeError("missing field `method`")
        if envelope.jsonrpc not in (UNSET, None, "2.0"):
            raise msgspec.DecodeError("jsonrpc version must be 2.0")
        form, params = _decode_params(envelope)
        own = UNSET if envelope.id is UNSET else Raw(bytes(envelope.id))
        make: Any = form.kind
        return make(jsonrpc=envelope.jsonrpc, id=own, method=envelope.method, params=params)

    def encode(self, message: Any) -> bytes:
        params: Any = message.params
        if message.method in GROUPS:
            body = ENCODER.encode(params) if isinstance(params, Struct) else b"{}"
            kind = b'{"kind":"%b"' % message.spelling.kind.encode()
            params = Raw(kind + (b"}" if body == b"{}" else b"," + body[1:]))
        elif params is not UNSET:
            params = Raw(ENCODER.encode(params))
        return ENCODER.encode(Envelope(jsonrpc=message.jsonrpc, id=message.id, method=message.method, params=params))

    def check(self, frame: bytes, _message: Any) -> None:
        """Raise PeerError `too_deep` or `duplicate_key` if a request is one of these.

        Every request is read again, because two parsers could read a duplicate key differently.
        """
        _read_request(frame)

    def mend(self, frame: bytes) -> tuple[Any, list[str]]:
        """Decode a request that `decode` refused, as a codewhale server reads it; raises PeerError."""
        value = _object(_read_request(frame))
        if "method" not in value:
            raise PeerError("invalid", "missing field `method`")
        method, version = value["method"], value.get("jsonrpc")
        for member in (method, "" if version is None else version):
            if not isinstance(member, str):
                raise PeerError("invalid", f"invalid type: {rust_kind_of(member)}, expected a string")
        if version not in (None, "2.0"):
            raise PeerError("invalid", "jsonrpc version must be 2.0", value=value)
        if method not in BY_METHOD and method not in GROUPS:
            own = msgspec.json.encode(value["id"]) if "id" in value else None
            request = "" if own is None else read_id(Raw(own))
            return Unmapped(dialect="codewhale", tag=method, raw=frame.decode(), request=request), []
        pruner = CodewhalePruner()
        pruner.dropped.extend(f"$.{name}" for name in value if name not in POSITIONS)
        known = {name: member for name, member in value.items() if name in POSITIONS}
        if "params" in known:
            known["params"] = _prune_params(method, known["params"], value, pruner)
        try:
            return self.decode(msgspec.json.encode(known)), pruner.dropped
        except (msgspec.DecodeError, RecursionError) as error:
            raise PeerError("invalid", rust_error(str(error), known.get("params")), value=value) from error


def _decode_params(envelope: Envelope) -> tuple[Form, Any]:
    """Return the form of a request and its decoded params."""
    raw = envelope.params
    if envelope.method in GROUPS:
        if raw is UNSET:
            raise msgspec.DecodeError(f"invalid type: null, expected internally tagged enum {GROUPS[envelope.method]}")
        members = NAMES.decode(raw)
        if "kind" not in members:
            raise msgspec.DecodeError("missing field `kind`")
        kind = decode_untyped(members.pop("kind"))
        if not isinstance(kind, str):
            raise msgspec.DecodeError(f"invalid type: {rust_kind_of(kind)}, expected variant identifier")
        found = BY_KIND.get((envelope.method, kind))
        if found is None:
            raise msgspec.DecodeError(unknown_kind(envelope.method, kind))
        if found.params is None:
            return found, requests.NoParams()
        return found, found.decode(ENCODER.encode(members))
    form = BY_METHOD.get(str(envelope.method))
    if form is None:
        raise msgspec.DecodeError("a method that is not known")
    if form.params is None:
        return form, UNSET if raw is UNSET else Raw(bytes(raw))
    if raw not in NO_OBJECT:
        return form, form.decode(raw)
    if form.kind is requests.Prompt:
        raise msgspec.DecodeError("invalid type: null, expected struct PromptRequest")
    if form.required:
        return form, form.decode(b"{}")  # raises the error that names the missing member
    return form, UNSET if raw is UNSET else None


def unknown_kind(method: str, kind: str, *, seed: bool = False) -> str:
    """Return the server's error text for an unknown `kind`."""
    spellings = [kind.spelling for kind in requests.REQUESTS]
    known = [one.kind for one in spellings if one.group == method and not (seed and one.later)]
    names = ", ".join(f"`{name}`" for name in known)
    return f"unknown variant `{kind}`, expected one of {names}"


def _object(value: object) -> dict[str, Any]:
    """Return a request as an object: an array of its values in order is accepted, a JSON-RPC batch is not."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            raise PeerError("invalid", "invalid type: map, expected a string")
        if not 3 <= len(value) <= len(POSITIONS):
            raise PeerError("invalid", f"invalid length {len(value)}, expected struct JsonRpcRequest with 4 elements")
        return dict(zip(POSITIONS, value, strict=False))
    if not isinstance(value, dict):
        raise PeerError("invalid", f"invalid type: {rust_kind_of(value)}, expected struct JsonRpcRequest")
    return value


def _prune_params(method: str, params: object, value: dict[str, Any], pruner: CodewhalePruner) -> object:
    """Return params without undocumented members; an array is converted to an object by the struct's order."""
    if method in GROUPS and not isinstance(params, dict | list):
        text = f"invalid type: {rust_kind_of(params)}, expected internally tagged enum {GROUPS[method]}"
        raise PeerError("invalid", text, value=value)
    tagged = method in GROUPS and isinstance(params, dict)
    kind = params.get("kind") if isinstance(params, dict) else None
    form = BY_KIND.get((method, str(kind))) if tagged else BY_METHOD.get(method)
    if form is None:
        return params
    if form.params is None:
        return params  # servers ignore them
    if isinstance(params, list):
        names = [field.encode_name for field in form.params.fields]
        if len(params) > len(names):
            raise PeerError("invalid", f"invalid length {len(params)}, expected fewer elements in array", value=value)
        return dict(zip(names, params, strict=False))
    if not isinstance(params, dict):
        if params is not None:
            text = f"invalid type: {rust_kind_of(params)}, expected struct {form.kind.spelling.struct}"
            raise PeerError("invalid", text, value=value)
        return params
    members = {name: member for name, member in params.items() if not (tagged and name == "kind")}
    pruned = pruner.prune_object(members, [form.params], "$.params")
    return {"kind": kind, **pruned} if tagged else pruned


def _read_request(frame: bytes) -> object:
    """Return the JSON of a request, or raise PeerError with the error text of the real parser."""
    check_value_count(frame)
    try:
        text = frame.decode()
        decode_untyped(frame)
        value: object = _UNIQUE.decode(text)
    except UnicodeDecodeError as error:
        raise PeerError("not_utf8", "stream did not contain valid UTF-8", can_continue=False) from error
    except RecursionError as error:
        raise PeerError("too_deep", "recursion limit exceeded") from error
    except ValueError as error:
        raise PeerError("not_json", str(error)) from error
    check_depth(frame, MAX_DEPTH, "recursion limit exceeded")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, member in pairs:
        if name in members:
            raise PeerError("duplicate_key", f"duplicate field `{name}`")
        members[name] = member
    return members


_UNIQUE = json.JSONDecoder(object_pairs_hook=_unique)  # made once: json.loads would make one for each request


# -- error texts of the real parser (docs/dialects/codewhale.md, section 1.2) -----------------------


MISSING = re.compile(r"Object missing required field `(\w+)`")
WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `[^`]+`(?: - at `\$([^`]*)`)?")
OUT_OF_RANGE = re.compile(r"Expected `int` (?:>=|<=|<) \d+ - at `\$([^`]*)`")
UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`")
STEP = re.compile(r"\.(\w+)|\[(\d+)\]")

EXPECTED = {"str": "a string", "bool": "a boolean", "int": "i64", "array": "a sequence", "object": "a map"}

OF_MEMBER = {
    "limit": "usize",
    "maxOutputTokens": "a nonzero u32",
    "max_output_tokens": "a nonzero u32",
    "cwd": "path string",
    "path": "path string",
}
"""Params for which the real parser's error text names the expected type in its own way."""

OF_ITEM = {"images": "struct RuntimeImageInput"}
"""Lists of objects among the params -> what the real parser expects of each item."""

IMAGE_FIELDS = "`mime` or `dataBase64`"  # images are the only object that may have no unknown field


def rust_error(error: str, params: object) -> str:
    """Return the real parser's error text for msgspec's `error` about `params`."""
    if found := MISSING.search(error):
        return f"missing field `{found[1]}`"
    if found := UNKNOWN_FIELD.search(error):
        return f"unknown field `{found[1]}`, expected {IMAGE_FIELDS}"[:ERROR_TEXT_MAX]
    if found := OUT_OF_RANGE.search(error):
        return _rust_type_error(params, found[1], "value", "i64")
    if found := WRONG_TYPE.search(error):
        expected = found[1].removesuffix(" | null")
        return _rust_type_error(params, found[2] or "", "type", EXPECTED.get(expected, expected))
    return error[:ERROR_TEXT_MAX]


def _rust_type_error(params: object, path: str, fault: str, expected: str) -> str:
    """Return the error text for the member at a path of names and indices, for example `.images[0].mime`."""
    value, name, index = params, "", ""
    for name, index in STEP.findall(path):
        owner = value
        value = owner.get(name) if isinstance(owner, dict) else owner[int(index)] if isinstance(owner, list) else None
    expected = OF_ITEM.get(path.partition("[")[0][1:], expected) if index else OF_MEMBER.get(name, expected)
    kind = rust_kind_of(value)
    fault = "type" if kind.startswith("floating") else fault
    return f"invalid {fault}: {kind}, expected {expected}"[:ERROR_TEXT_MAX]


def rust_kind_of(value: object) -> str:
    """Return the description of a value of a wrong type, as the real parser writes it in errors."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{json.dumps(value)}`"
        case int() if -(1 << 63) <= value < 1 << 64:
            return f"integer `{value}`"
        case int() | float():  # as the real parser reads an integer above 64 bits
            return f"floating point `{float(value)!r}`"
        case str():
            return f"string {json.dumps(value, ensure_ascii=False)}"
        case list():
            return "sequence"
        case _:
            return "map"


# -- untyped JSON, as real peers read it (docs/dialects/codewhale.md, section 7) --------------------


class CodewhalePruner(Pruner):
    """Removes also EventFrames with an unknown name, so that the answer that contains them can still be read.

    An enum variant without content may be written as `{"ready": null}`.
    """

    def prune(self, value: object, shape: inspect.Type, path: str = "$") -> Any:
        """Return the documented part of a value, or the name of an enum variant without content."""
        if isinstance(value, dict) and [*value.values()] == [None]:
            (name,) = value
            if any(isinstance(kind, inspect.LiteralType) and name in kind.values for kind in alternatives(shape)):
                return name
        return super().prune(value, shape, path)

    def prune_items(self, values: list[Any], shape: inspect.Type, path: str) -> list[Any]:
        """Return the documented part of each item, without unknown EventFrames."""
        tags = {struct.tag for struct in structs(shape) if struct.tag_field == "event"}
        known = []
        for value in values:
            tag = value.get("event") if isinstance(value, dict) else None
            if tags and isinstance(tag, str) and tag not in tags:
                self.dropped.append(f"{path}.{tag}")
            else:
                known.append(self.prune(value, shape, path))
        return known

    def prune_object(self, value: dict[str, Any], known: Sequence[inspect.StructType], path: str) -> dict[str, Any]:
        """Return the documented members of an object, but all members if real peers refuse unknown ones."""
        if any(issubclass(struct.cls, Wire) and struct.cls.closed for struct in known):
            return value
        return super().prune_object(value, known, path)


EVENTS = Events()
REQUESTS = Requests()
