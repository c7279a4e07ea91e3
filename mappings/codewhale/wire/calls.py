"""The codec of what a client asks (docs/dialects/codewhale.md, section 1.1): every name of a method, arrays for objects
too.

What is wrong is told in three ways, by which a server answers: a fault without `value` is no request at all (-32700),
one whose value says another `jsonrpc` is not ours (-32600), in any other the params are wrong (-32602).
"""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, inspect
from msgspec.structs import replace

from dragoman.mappings.canonical.unmapped import Unmapped
from dragoman.mappings.codewhale.ids import heard
from dragoman.mappings.codewhale.wire import requests
from dragoman.mappings.codewhale.wire.requests import ForkParams, NoParams, ResumeParams
from dragoman.mappings.codewhale.wire.serde import in_words, said_as
from dragoman.mappings.codewhale.wire.shapes import depth, fitted
from dragoman.mappings.codewhale.wire.values import Wire
from dragoman.mappings.errors import PeerError
from dragoman.mappings.value_count import check_value_count

MAX_DEPTH = 128  # of its parser, serde_json

ENCODER = msgspec.json.Encoder()
MEMBERS = msgspec.json.Decoder(dict[str, Raw])
POSITIONS = ("jsonrpc", "id", "method", "params")
GROUPS = {requests.THREAD: "ThreadRequest", requests.APP: "AppRequest"}
NO_OBJECT = (Raw(b"null"), UNSET)


class Envelope(Wire, frozen=True, kw_only=True):
    """A request whose params were not looked into yet."""

    jsonrpc: str | UnsetType | None = UNSET
    id: Raw | UnsetType = UNSET
    method: str
    params: Raw | UnsetType = UNSET


class Spelled(Wire, frozen=True, kw_only=True):
    """A request as it is written."""

    jsonrpc: str | UnsetType | None
    id: Raw | UnsetType
    method: str
    params: Raw | UnsetType


ENVELOPE = msgspec.json.Decoder(Envelope)


class Form:
    """One meaning: its struct and how its params are read; None where they are ignored."""

    def __init__(self, kind: type[requests.RequestBase]) -> None:
        self.kind = kind
        shape = inspect.type_info(kind)
        assert isinstance(shape, inspect.StructType)  # noqa: S101  # of our own structs
        (said,) = (field for field in shape.fields if field.name == "params")
        types = said.type.types if isinstance(said.type, inspect.UnionType) else (said.type,)
        ignored = any(isinstance(t, inspect.RawType) for t in types)
        self.required = said.required
        self.params = None if ignored else next(t for t in types if isinstance(t, inspect.StructType))
        self.decoder: Any = None if self.params is None else msgspec.json.Decoder(self.params.cls)


FORMS = [Form(kind) for kind in get_args(requests.Request)]
BY_METHOD = {name: form for form in FORMS for name in form.kind.names}
BY_KIND = {(form.kind.group, form.kind.kind): form for form in FORMS if form.kind.kind}


class Requests:
    """What a client asks."""

    dialect = "codewhale"
    watched: frozenset[type] = frozenset(get_args(requests.Request))

    def decode(self, frame: bytes) -> Any:
        """A line as a message."""
        said = ENVELOPE.decode(frame)
        if said.jsonrpc not in (UNSET, None, "2.0"):
            raise msgspec.DecodeError("jsonrpc version must be 2.0")
        form, params = _found(said)
        own = UNSET if said.id is UNSET else Raw(bytes(said.id))
        make: Any = form.kind
        return make(jsonrpc=said.jsonrpc, id=own, method=said.method, params=params)

    def encode(self, message: Any) -> bytes:
        """A message as a line."""
        params: Any = message.params
        if message.method in GROUPS:
            body = ENCODER.encode(params) if isinstance(params, Struct) else b"{}"
            kind = b'{"kind":"%b"' % message.kind.encode()
            params = Raw(kind + (b"}" if body == b"{}" else b"," + body[1:]))
        elif params is not UNSET:
            params = Raw(ENCODER.encode(params))
        return ENCODER.encode(Spelled(jsonrpc=message.jsonrpc, id=message.id, method=message.method, params=params))

    def suspicious(self, frame: bytes, message: Any) -> bool:
        """Every request is looked at twice: two parsers must never read two different commands."""
        return True

    def check(self, frame: bytes) -> None:
        """PeerError `too_deep` or `duplicate_key`."""
        _untyped(frame)

    def mend(self, frame: bytes) -> tuple[Any, list[str]]:
        """What `decode` refused, as a codewhale reads it."""
        value = _object(_untyped(frame))
        method = value.get("method")
        if not isinstance(method, str):
            why = "missing field `method`" if method is None else "`method` is no string"
            raise PeerError("invalid", why)
        version = value.get("jsonrpc")
        if version is not None and not isinstance(version, str):
            raise PeerError("invalid", "`jsonrpc` is no string")
        if version not in (None, "2.0"):
            raise PeerError("invalid", "jsonrpc version must be 2.0", value=value)
        if method not in BY_METHOD and method not in GROUPS:
            said = msgspec.json.encode(value["id"]) if "id" in value else None
            request = "" if said is None else heard(Raw(said))
            return Unmapped(dialect="codewhale", tag=method, raw=frame.decode(), request=request), []
        dropped = [f"$.{name}" for name in value if name not in POSITIONS]
        known = {name: member for name, member in value.items() if name in POSITIONS}
        if "params" in known:
            known["params"] = _params(method, known["params"], value, dropped)
        try:
            return self.decode(msgspec.json.encode(known)), dropped
        except (msgspec.DecodeError, RecursionError) as error:
            raise PeerError("invalid", in_words(str(error), known.get("params")), value=value) from error


def _found(said: Envelope) -> tuple[Form, Any]:
    """The meaning of a request and its params."""
    raw = said.params
    if said.method in GROUPS:
        if raw in NO_OBJECT:
            raise msgspec.DecodeError(f"invalid type: null, expected internally tagged enum {GROUPS[said.method]}")
        members = MEMBERS.decode(raw)
        if "kind" not in members:
            raise msgspec.DecodeError("missing field `kind`")
        kind = msgspec.json.decode(members.pop("kind"))
        if not isinstance(kind, str):
            raise msgspec.DecodeError(f"invalid type: {said_as(kind)}, expected variant identifier")
        found = BY_KIND.get((said.method, kind))
        if found is None:
            raise msgspec.DecodeError(unknown_kind(said.method, kind))
        if found.params is None:
            return found, NoParams()
        return found, _without_null(found.decoder.decode(ENCODER.encode(members)))
    form = BY_METHOD.get(said.method)
    if form is None:
        raise msgspec.DecodeError("a method that is not known")
    if form.params is None:
        return form, UNSET if raw is UNSET else Raw(bytes(raw))
    if raw not in NO_OBJECT:
        return form, _without_null(form.decoder.decode(raw))
    if form.kind is requests.Prompt:
        raise msgspec.DecodeError("invalid type: null, expected struct PromptRequest")
    if form.required:
        return form, form.decoder.decode(b"{}")  # says which member is missing
    return form, UNSET if raw is UNSET else None


def _without_null(params: Any) -> Any:
    """An option of any JSON that is null is none, like every other."""
    null = isinstance(params, ResumeParams | ForkParams) and params.config == Raw(b"null")
    return replace(params, config=UNSET) if null else params


def unknown_kind(method: str, kind: str, *, seed: bool = False) -> str:
    """What a server says of a kind that it does not know."""
    known = [form.kind for form in FORMS if form.kind.group == method and not (seed and form.kind.later)]
    names = ", ".join(f"`{known_kind.kind}`" for known_kind in known)
    return f"unknown variant `{kind}`, expected one of {names}"


def _object(value: object) -> dict[str, Any]:
    """A request as an object; an array of its members in their order is one too, a batch is not."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            raise PeerError("invalid", "invalid type: map, expected a string")
        if not 3 <= len(value) <= len(POSITIONS):
            raise PeerError("invalid", f"invalid length {len(value)}, expected struct JsonRpcRequest with 4 elements")
        return dict(zip(POSITIONS, value, strict=False))
    if not isinstance(value, dict):
        raise PeerError("invalid", "invalid type: expected struct JsonRpcRequest")
    return value


def _params(method: str, params: object, value: dict[str, Any], dropped: list[str]) -> object:
    """Params with the members that their struct documents, from an array in its order too."""
    tagged = method in GROUPS and isinstance(params, dict)
    kind = params.get("kind") if isinstance(params, dict) else None
    form = BY_KIND.get((method, str(kind))) if tagged else BY_METHOD.get(method)
    if form is None:
        return params
    if form.params is None:
        if tagged and isinstance(params, dict):
            dropped += [f"$.params.{name}" for name in params if name != "kind"]
            return {"kind": kind}
        return params
    if isinstance(params, list):
        names = [field.encode_name for field in form.params.fields]
        if len(params) > len(names):
            raise PeerError("invalid", f"invalid length {len(params)}, expected fewer elements in array", value=value)
        return dict(zip(names, params, strict=False))
    if not isinstance(params, dict):
        return params
    members = {name: member for name, member in params.items() if not (tagged and name == "kind")}
    fitting = fitted(members, form.params, "$.params", dropped)
    return {"kind": kind, **fitting} if tagged and isinstance(fitting, dict) else fitting


def _untyped(frame: bytes) -> object:
    """Return the JSON of a frame, or raise PeerError."""
    check_value_count(frame)
    try:
        frame.decode()
        msgspec.json.decode(frame)
        value: object = json.loads(frame, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise PeerError("not_utf8", "stream did not contain valid UTF-8", can_continue=False) from error
    except RecursionError as error:
        raise PeerError("too_deep", "recursion limit exceeded") from error
    except ValueError as error:
        raise PeerError("not_json", str(error)) from error
    if depth(value) > MAX_DEPTH:
        raise PeerError("too_deep", "recursion limit exceeded")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, member in pairs:
        if name in members:
            raise PeerError("duplicate_key", f"duplicate field `{name}`")
        members[name] = member
    return members


REQUESTS = Requests()
