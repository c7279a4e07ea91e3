"""The two codecs of pando: EVENTS (published messages and replies) and REQUESTS
(docs/dialects/pando.md, sections 2, 3 and 5).

A published message is its topic, 0x00 and a JSON envelope. JSON never contains 0x00, so that byte distinguishes a
published message from a reply. The common path is one typed decode, chosen by the topic or the method. A refused frame
is read again as Go reads it, and goes through the same typed decoder: names in any case, null and absent members as the
zero value, and the last of two equal names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct, inspect

from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.codec import check_depth, is_utf8
from dragoman.mappings.errors import PeerError
from dragoman.mappings.jsonrpc import decode_envelope
from dragoman.mappings.pando.wire import requests, topics
from dragoman.mappings.pando.wire.replies import Reply
from dragoman.mappings.pando.wire.values import nanoseconds
from dragoman.mappings.reflection import Pruner, alternatives, struct_field, struct_type
from dragoman.mappings.untyped import decode_untyped
from dragoman.mappings.value_count import check_value_count

MAX_DEPTH = 500  # Go reads 10,000 levels; this limit is below Python's own recursion limit

ENCODER = msgspec.json.Encoder()
TOKEN = b"llm.token"  # the topic of a piece of text, the only message that comes often
READ_TOKEN = msgspec.json.Decoder(topics.LlmToken).decode
HALF_SURROGATE = re.compile("[\ud800-\udfff]")


class Form:
    """A type of message, which is decoded strictly, or as Go reads it if the strict decoder refuses the frame."""

    def __init__(self, kind: type[Struct]) -> None:
        self._kind = kind

    @cached_property
    def decode(self) -> Callable[[bytes], Any]:
        """Decode a frame; the decoder is made when the first frame of this type comes."""
        return msgspec.json.Decoder(self._kind).decode

    def mend(self, value: dict[str, object], name: str) -> tuple[Any, list[str]]:
        """Return the untyped message as a struct, and the paths of dropped members; `name` is its topic or method."""
        pruner = GoPruner()
        pruned = pruner.prune_object(value, [struct_type(self._kind)], "$")
        try:
            return self.decode(ENCODER.encode(pruned)), pruner.dropped
        except msgspec.DecodeError as error:
            raise PeerError("invalid", f"invalid `{name}`: {error}", value=value) from error


class GoPruner(Pruner):
    """Finds members by their names in any case, and reads null as the zero value, as Go does."""

    def prune_object(self, value: dict[str, Any], known: Sequence[inspect.StructType], path: str) -> dict[str, Any]:
        """Return the documented members of an object under the names of its struct."""
        if not known:
            return value
        fields = {field.encode_name.lower(): field for field in known[0].fields}
        members: dict[str, Any] = {}
        for name, member in value.items():
            field = fields.get(name.lower())
            if field is None:
                self.dropped.append(f"{path}.{name}")
            elif member is None and field.required and isinstance(field.type, inspect.StructType | inspect.StrType):
                members[field.encode_name] = {} if isinstance(field.type, inspect.StructType) else ""
            elif member is not None or _takes_null(field.type):
                members[field.encode_name] = self.prune(member, field.type, f"{path}.{field.encode_name}")
        return members


def _takes_null(shape: inspect.Type) -> bool:
    nullable = inspect.NoneType | inspect.RawType | inspect.AnyType
    return any(isinstance(member, nullable) for member in alternatives(shape))


def _constant(name: str) -> object:
    raise PeerError("not_json", f"not JSON: {name}")


def as_go_reads(frame: bytes) -> object:
    """Return JSON as Go's parser reads it, with U+FFFD for invalid UTF-8 and lone surrogates; raises PeerError."""
    check_value_count(frame)
    try:
        return _read_shallow(frame)
    except msgspec.DecodeError as error:
        _check_text(frame, error)
    except (UnicodeDecodeError, RecursionError):
        pass
    try:
        value = json.loads(frame.decode(errors="replace"), parse_constant=_constant)
        text = HALF_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False))
        return _read_shallow(text.encode())
    except RecursionError as error:
        raise PeerError("too_deep", "nested too deep") from error
    except (ValueError, msgspec.DecodeError) as error:  # json raises ValueError, also for too many digits
        raise PeerError("not_json", f"not JSON: {error}") from error


def _check_text(frame: bytes, error: msgspec.DecodeError) -> None:
    """Raise PeerError unless Go may read the text: it accepts escaped lone surrogates and invalid UTF-8."""
    if b"\\u" not in frame and (frame.isascii() or is_utf8(frame)):
        raise PeerError("not_json", f"not JSON: {error}") from error


def _read_shallow(frame: bytes) -> object:
    value: object = decode_untyped(frame)
    check_depth(frame, MAX_DEPTH)
    return value


def _named(value: dict[str, object], name: str) -> object:
    """Return the last member whose name matches in any case."""
    return next((value[key] for key in reversed(value) if key.lower() == name), None)


class Shared:
    """The parts that both codecs share."""

    dialect = "pando"

    def check(self, frame: bytes, _message: Any) -> None:
        """Raise PeerError `too_deep` if opaque JSON in a decoded frame is nested too deep.

        Raise UnicodeDecodeError if it is not UTF-8: then `mend` reads it as Go does.
        """
        if not frame.isascii():
            frame.decode()
        check_depth(frame, MAX_DEPTH)  # a topic in front has no brackets


class Events(Shared):
    """The codec of a primary's messages: publications and replies."""

    watched: frozenset[type] = frozenset((topics.StoreChange, Reply))

    def __init__(self) -> None:
        self._reply = Form(Reply)
        change = Form(topics.StoreChange)
        others = [kind for kind in get_args(topics.Topic) if kind is not topics.StoreChange]
        self._forms: dict[str, Form] = dict.fromkeys(get_args(topics.ChangeTopic), change)
        self._forms |= {kind().topic: Form(kind) for kind in others}
        self._by_prefix = {topic.encode(): form for topic, form in self._forms.items()}

    def decode(self, frame: bytes) -> Any:
        """Decode a frame as a published message or a reply.

        Raises PeerError if the frame is not JSON. This check is cheap, because a peer may send many such frames.
        Raises another error of MALFORMED if `mend` must read the frame.
        """
        topic, nul, body = frame.partition(b"\0")
        try:
            if not nul:
                return self._reply.decode(frame)
            message = self._by_prefix[topic].decode(body) if topic in self._by_prefix else _refuse("an unknown topic")
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError as error:
            _check_text(frame, error)
            raise
        if nanoseconds(message.timestamp) is None:
            _refuse("an invalid timestamp")
        if message.topic.encode() != topic:  # two topics that share one struct
            _refuse("an envelope with another topic")
        return message

    def encode(self, message: Any) -> bytes:
        """Return a message as a frame; bytes are already a frame and are returned unchanged."""
        if isinstance(message, bytes):
            return message
        body = ENCODER.encode(message)
        return body if type(message) is Reply else b"%b\0%b" % (message.topic.encode(), body)

    def mend(self, frame: bytes) -> tuple[Any, list[str]]:
        """Decode a frame that `decode` refused, as Go reads it."""
        prefix, nul, body = frame.partition(b"\0")
        if not nul:
            value = _object(as_go_reads(frame))
            return self._reply.mend(value, "reply")
        value = _object(as_go_reads(body))
        topic = _named(value, "topic")
        if topic is None:
            topic = prefix.decode(errors="replace")
        if not isinstance(topic, str):
            raise PeerError("invalid", "`topic` is not a string", value=value)
        form = self._forms.get(topic)
        if form is None:
            return Unmapped(dialect="pando", tag=topic, raw=frame.decode(errors="replace")), []
        message, dropped = form.mend(
            {key: v for key, v in value.items() if key.lower() != "topic"} | {"topic": topic}, topic
        )
        if nanoseconds(message.timestamp) is None:
            raise PeerError("invalid", "`timestamp` is not a time", value=value)
        return message, dropped


def _refuse(why: str) -> Any:
    raise msgspec.ValidationError(why)


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise PeerError("invalid", "expected a JSON object", value=value)
    return value


class Head(Struct, frozen=True, gc=False):
    """The method within the params of `db.write`."""

    method: str = ""


WRITES: dict[str, type[Struct]] = {
    "CreateSession": requests.CreateSession,
    "UpdateSession": requests.UpdateSession,
    "DeleteSession": requests.DeleteSession,
}


class Requests(Shared):
    """The codec of a client's requests."""

    watched: frozenset[type] = frozenset(
        (requests.InstancePing, requests.InstanceInfo, requests.SessionList, requests.Write)
    )

    def __init__(self) -> None:
        self._head = msgspec.json.Decoder(Head).decode
        self._writes = {method: Form(kind) for method, kind in WRITES.items()}
        self._write = Form(requests.Write)
        self._forms: dict[str, Form] = {}
        for kind in get_args(requests.Request):
            method = struct_field(kind, "method").default
            if method != "db.write":
                self._forms[str(method)] = Form(kind)

    def decode(self, frame: bytes) -> Any:
        """Decode a frame as a request; raises DecodeError if `mend` must read the frame."""
        envelope = decode_envelope(frame)
        form = None if envelope.kind == "response" else self._forms.get(str(envelope.method))
        if envelope.method == "db.write" and envelope.params is not UNSET:
            form = self._writes.get(self._head(envelope.params).method, self._write)
        return form.decode(frame) if form is not None else _refuse("an unknown method")

    def encode(self, message: Any) -> bytes:
        return ENCODER.encode(message)

    def mend(self, frame: bytes) -> tuple[Any, list[str]]:
        """Decode a frame that `decode` refused, as Go reads it.

        Raises PeerError, with a `value` if the request has an id for the error reply.
        """
        value = as_go_reads(frame)
        value = {} if value is None else value  # Go reads null as a request without members
        if not isinstance(value, dict):
            raise PeerError("invalid", "a request is one JSON object")
        request, method, version = (_named(value, name) for name in ("id", "method", "jsonrpc"))
        if not all(isinstance(member, str | None) for member in (request, method, version)):
            raise PeerError("invalid", "`id`, `method` and `jsonrpc` are strings")
        name = method if isinstance(method, str) else ""
        known = {"id": request or "", "method": name} | ({"jsonrpc": version} if version is not None else {})
        if any(key.lower() == "params" for key in value):
            known["params"] = _named(value, "params")
        form = self._forms.get(name)
        if name == "db.write":
            inner = known.get("params")
            written = _named(inner, "method") if isinstance(inner, dict) else None
            form = self._writes.get(written, self._write) if isinstance(written, str) else self._write
        if form is None:
            raw = frame.decode(errors="replace")
            return Unmapped(dialect="pando", tag=name, raw=raw, request=str(request or "")), []
        message, dropped = form.mend(known, name)
        return message, dropped + [f"$.{key}" for key in value if key.lower() not in FIELDS]


FIELDS = frozenset(("jsonrpc", "id", "method", "params"))

EVENTS = Events()
REQUESTS = Requests()
