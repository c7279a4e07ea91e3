"""The codecs of smooth: ACTIONS (client to server) and EVENTS (server to client).

Frames that the strict decoder refused may have another legal spelling (docs/dialects/smooth.md, sections 2, 3 and
11.2). They are rewritten to the usual spelling, and the result goes through the strict decoder again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.mappings.canonical.values import COUNT_MAX
from dragoman.mappings.codec import Codec
from dragoman.mappings.smooth.wire.actions import AnyAction, AuthContext, File, Image
from dragoman.mappings.smooth.wire.events import AnyEvent
from dragoman.mappings.smooth.wire.values import ActionBase, Closed, EventBase

MAX_DEPTH = 512  # no server has a documented limit; tool arguments nest a few levels, Python's parser ends near 1000

JsonObject = dict[str, object]

MIRRORED: dict[str, tuple[str, ...]] = {
    "stream_token": ("token",),
    "stream_reasoning": ("token",),
    "stream_preamble": ("token",),
    "stream_chunk": ("node",),
    "eventual_response": ("status",),
    "cancelled": ("status",),
    "error": ("error",),
}
"""Events -> the fields that they repeat inside of `data`, beside their requestId."""

STATUS = {"eventual_response": 200, "cancelled": 499}
FALLBACK_CODE = "INTERNAL_ERROR"
"""The code of an error without one, as in the reference clients (docs/dialects/smooth.md, section 8)."""

OPTIONAL_ID = ("cancelled", "error")
"""Events whose `data.requestId` may be absent; the others need one, "" if it is unknown."""


def usual_event(value: object) -> object:
    """Return an event with its mirrors filled in, its times as integers, and no optional part of a wrong type."""
    if not isinstance(value, dict):
        return value
    _drop_unless(value, "requestId", str)
    _drop_unless_whole(value, "timestamp")
    kind = value.get("type")
    data = value.get("data")
    if kind == "pong":
        if isinstance(data, dict):
            _drop_unless_whole(data, "timestamp")
        if not isinstance(data, dict) or "timestamp" not in data:  # it only repeats the time of the frame
            value.pop("data", None)
    elif kind == "immediate_response":
        value["data"] = {} if data is None else data
    elif isinstance(kind, str):
        _mirrors(value, kind)
    return value


def _mirrors(value: JsonObject, kind: str) -> None:
    data = value.get("data")
    if data is None:
        data = value["data"] = {}
    if not isinstance(data, dict):
        return
    _drop_unless(data, "requestId", str)
    if kind == "error":
        _errors(value, data)
    if kind in STATUS:
        _drop_unless(value, "status", int)
        _drop_unless(data, "status", int)
    for key in ("requestId", *MIRRORED.get(kind, ())):
        if data.get(key) is None and value.get(key) is not None:
            data[key] = value[key]
        elif value.get(key) is None and data.get(key) is not None:
            value[key] = data[key]
    if "requestId" not in data and kind not in OPTIONAL_ID:
        data["requestId"] = ""
    if kind in STATUS and value.get("status") is None:
        value["status"] = data["status"] = STATUS[kind]
    answer = data.get("data")
    if kind == "eventual_response" and isinstance(answer, dict):
        _answer(answer)


def _errors(value: JsonObject, data: JsonObject) -> None:
    """Rewrite the error in the frame and in `data` as a code and a text.

    Without an error, use the `message` of the frame.
    """
    errors = [place for place in (value, data) if place.get("error") is not None]
    for place in errors:
        place["error"] = _error(place["error"])
    if not errors:
        value["error"] = _error(value.get("message"))


def _error(error_value: object) -> JsonObject:
    error = error_value if isinstance(error_value, dict) else {"message": error_value}
    code, message = error.get("code"), error.get("message")
    error["code"] = code if isinstance(code, str) else str(code) if type(code) is int else FALLBACK_CODE
    error["message"] = message if isinstance(message, str) else "the server gave no reason"
    return error


def _answer(answer: JsonObject) -> None:
    """Drop the parts of a final answer that are of a wrong type and that a turn can end without."""
    if not isinstance(answer.get("messageId"), str):
        answer["messageId"] = ""
    _drop_unless(answer, "needsEscalation", bool)
    _drop_unless(answer, "escalationReason", str)
    _drop_unless(answer, "usage", dict)
    usage = answer.get("usage")
    if isinstance(usage, dict):
        _drop_unless(usage, "costUsd", int, float)
        for key in ("promptTokens", "completionTokens"):
            _drop_unless_whole(usage, key)
    _keep(answer, "citations", lambda source: isinstance(source, dict) and isinstance(source.get("id"), str))
    sources = answer.get("citations")
    for source in sources if isinstance(sources, list) else ():
        _drop_unless(source, "url", str)
        for key, kinds, default in CITED:
            _drop_unless(source, key, *kinds)
            source.setdefault(key, default)


CITED: tuple[tuple[str, tuple[type, ...], object], ...] = (
    ("title", (str,), ""),
    ("snippet", (str,), ""),
    ("score", (int, float), 0),
)
"""The required keys of a citation beside its id: name, types, and value if a server gives none."""


OF_NO_QUESTION = "not a string"
"""An interactionId in place of one of a wrong type: servers compare it with that of the open form."""


def usual_action(value: object) -> object:
    """Return an action without the optional members of a wrong type, which every server ignores."""
    if not isinstance(value, dict):
        return value
    _drop_unless(value, "requestId", str)
    match value.get("action"):
        case "create_conversation_session":
            for key in ("userName", "userEmail", "browserFingerprint", "conversationId"):
                _drop_unless(value, key, str)
            _drop_unless(value, "metadata", dict)
            if not _fits(value.get("authContext"), AuthContext):
                _set_aside(value, "authContext", value.pop("authContext", None))
            _keep(value, "supports", lambda item: isinstance(item, str))
        case "send_message":
            if value.get("message") is None:
                value["message"] = ""  # legal beside an attachment; the translator checks that
            _drop_unless(value, "stream", bool)
            for key in ("model", "skill"):
                _drop_unless(value, key, str)
            _keep(value, "images", lambda item: _fits(item, Image))
            _keep(value, "files", lambda item: _fits(item, File))
        case "get_conversation_messages" | "list_conversations":
            _clamp(value, "limit")
            for key in ("cursor", "query"):
                _drop_unless(value, key, str)
        case "submit_interaction":
            _keep_text(value, "interactionId", OF_NO_QUESTION)
            _drop_unless(value, "kind", str)
            _drop_unless(value, "values", dict)
            _drop_unless(value, "declined", bool)
        case "cancel":
            _drop_unless(value, "sessionId", str)
    return value


def _drop_unless(value: JsonObject, key: str, *kinds: type) -> None:
    if key in value and type(value[key]) not in kinds:  # True is an int to isinstance
        _set_aside(value, key, value.pop(key))


def _set_aside(value: JsonObject, key: str, bad: object) -> None:
    """Move a value of a wrong type to a key that is then counted and removed as undocumented; drop an empty one."""
    if bad:
        value[f"{key} of a wrong type"] = bad


def _keep_text(value: JsonObject, key: str, other: str) -> None:
    """Put `other` in place of a value that is neither a string nor null."""
    if not isinstance(value.get(key), str | None):
        value[key] = other


def _drop_unless_whole(value: JsonObject, key: str) -> None:
    """Make a number an integer; drop any other value, and a number that is no Count."""
    number = value.get(key)
    if isinstance(number, float):
        value[key] = number = int(number)
    _drop_unless(value, key, int)
    if isinstance(number, int) and not 0 <= number <= COUNT_MAX:
        _set_aside(value, key, value.pop(key, None))


def _clamp(value: JsonObject, key: str) -> None:
    """Replace an integer by the nearest Count; drop any other value."""
    _drop_unless(value, key, int)
    number = value.get(key)
    if isinstance(number, int):
        value[key] = min(max(number, 0), COUNT_MAX)


def _keep(value: JsonObject, key: str, good: Callable[[object], bool]) -> None:
    _drop_unless(value, key, list)
    items = value.get(key)
    if isinstance(items, list):
        value[key] = [item for item in items if good(item)]
        _set_aside(value, key, [item for item in items if not good(item)])


def _fits(item: object, kind: type[Closed]) -> bool:
    """Return True if an item has the members of a struct; further members do not matter."""
    if not isinstance(item, dict):
        return False
    try:
        msgspec.convert({key: item[key] for key in kind.__struct_encode_fields__ if key in item}, kind)
    except msgspec.ValidationError:
        return False
    return True


ACTIONS: Codec[ActionBase] = Codec("smooth", AnyAction, max_depth=MAX_DEPTH, reads_halves=True, reshape=usual_action)
EVENTS: Codec[EventBase] = Codec("smooth", AnyEvent, max_depth=MAX_DEPTH, reads_halves=True, reshape=usual_event)
