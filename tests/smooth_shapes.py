"""The strict shape of every event and reply of smooth, as facts in our own words.

A shape is a type, a tuple of the allowed values, a list of one shape, or a closed object: key -> shape, where `?`
marks an optional key. Strict clients drop a frame that has one key more or a value of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

Shape = Any  # a shape nests in itself


def anything(value: object) -> bool:
    """Accept any JSON."""
    return True


def an_object(value: object) -> bool:
    """Accept an object with any keys."""
    return isinstance(value, dict)


def object_or_null(value: object) -> bool:
    """Accept an object with any keys, or null."""
    return value is None or isinstance(value, dict)


def number(value: object) -> bool:
    """Accept any number; true is not one."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def score(value: object) -> bool:
    """Accept a number from 0 to 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def natural(value: object) -> bool:
    """Accept an integer from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def positive(value: object) -> bool:
    """Accept an integer from 1 on."""
    return natural(value) and value != 0


def uuid(value: object) -> bool:
    """Accept a UUID as text."""
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def time(value: object) -> bool:
    """Accept a time with its zone."""
    return isinstance(value, str) and TIME.fullmatch(value) is not None


def text_or_null(value: object) -> bool:
    """Accept text, or an explicit null."""
    return value is None or isinstance(value, str)


def one_or_more(shape: Shape) -> Callable[[object], bool]:
    """Accept a list that is not empty."""
    return lambda value: isinstance(value, list) and bool(value) and not any(faults([shape], value))


ENVELOPE: dict[str, Shape] = {"requestId?": str, "timestamp?": int}
CHANNEL = ("email", "sms")
ERROR = {"code": str, "message": str}


def _event(kind: str, data: Shape, **more: Shape) -> dict[str, Shape]:
    return {"type": (kind,), **ENVELOPE, "data": data, **{key.replace("_opt", "?"): s for key, s in more.items()}}


def _nested(kind: str, payload: Shape) -> dict[str, Shape]:
    return _event(kind, {"requestId": str, "data": payload})


def _token(kind: str) -> dict[str, Shape]:
    return _event(kind, {"requestId": str, "token": str}, token_opt=str)


ANSWER = {
    "messageId": str,
    "response": anything,
    "needsEscalation?": bool,
    "escalationReason?": str,
    "usage?": {"costUsd?": number, "promptTokens?": int, "completionTokens?": int},
    "citations?": [{"id": str, "title": str, "url?": str, "snippet": str, "score": number}],
    "directive?": object_or_null,
}

STATE = {
    "rawResponse?": anything,
    "structuredResponse?": anything,
    "pendingWriteConfirmation?": object_or_null,
    "pendingOtpVerification?": object_or_null,
}

SHAPES: dict[str, dict[str, Shape]] = {
    "immediate_response": _event("immediate_response", an_object, status_opt=int, message_opt=str),
    "stream_token": _token("stream_token"),
    "stream_reasoning": _token("stream_reasoning"),
    "stream_preamble": _token("stream_preamble"),
    "stream_chunk": _event(
        "stream_chunk", {"requestId": str, "node": str, "state": STATE, "done?": bool}, node_opt=str
    ),
    "eventual_response": _event("eventual_response", {"requestId": str, "status": int, "data": ANSWER}, status_opt=int),
    "cancelled": {"type": ("cancelled",), **ENVELOPE, "status": (499,), "data?": {"requestId?": str, "status": (499,)}},
    "error": _event("error", {"requestId?": str, "error": ERROR, "details?": anything}, error_opt=ERROR),
    "write_confirmation_required": _nested("write_confirmation_required", {"toolId": str, "actionDescription": str}),
    "otp_verification_required": _nested(
        "otp_verification_required",
        {"toolId": str, "actionDescription": str, "availableChannels": one_or_more(CHANNEL), "authLevel": str},
    ),
    "otp_sent": _nested("otp_sent", {"channel": CHANNEL, "maskedDestination": str}),
    "otp_verified": _nested("otp_verified", {"message": str}),
    "otp_invalid": _nested(
        "otp_invalid",
        {
            "error?": ("INVALID_CODE", "MAX_ATTEMPTS", "NOT_FOUND", "EXPIRED"),
            "attemptsRemaining": natural,
            "message": str,
        },
    ),
    "interaction_required": _nested(
        "interaction_required", {"interactionId": str, "kind": str, "spec": an_object, "reason": str}
    ),
    "interaction_invalid": _nested(
        "interaction_invalid",
        {
            "interactionId": str,
            "kind": str,
            "errors": one_or_more({"field": str, "message": str}),
            "message": str,
        },
    ),
    "keepalive": _event("keepalive", {"requestId": str}),
    "pong": {"type": ("pong",), **ENVELOPE, "data?": {"timestamp": int}},
}

SESSION: dict[str, Shape] = {
    "sessionId": uuid,
    "conversationId": uuid,
    "agentName": str,
    "userParticipantId": uuid,
    "agentParticipantId": uuid,
}
PARTICIPANT = {"id": uuid, "type": str, "name?": str}

REPLIES: dict[str, dict[str, Shape]] = {
    "create": {**SESSION, "agentId?": uuid},
    "get_session": {**SESSION, "agentId": uuid, "threadId?": str, "status?": ("active", "idle", "ended")},
    "history": {
        "messages": [
            {
                "id": uuid,
                "direction": ("inbound", "outbound"),
                "content": {"text?": str, "structuredResponse?": object_or_null},
                "from?": PARTICIPANT,
                "to?": PARTICIPANT,
                "createdAt": time,
            }
        ],
        "nextCursor?": text_or_null,
        "hasMore": bool,
    },
    "conversations": {
        "conversations": [{"conversationId": str, "title": str, "updatedAt": time, "messageCount": positive}],
        "nextCursor?": text_or_null,
        "hasMore?": bool,
    },
    "response": {
        "responseParts": [str],
        "customerHappinessScore": score,
        "needsSatisfactionScore": score,
        "requestSummary": str,
        "resolutionStatus": ("resolved", "in_progress", "requires_escalation", "needs_more_info", "blocked"),
        "suggestedNextActions": [str],
    },
}
"""Action -> the form of `data` in its 200; `response` is the form of the answer in a terminal."""

MIRRORED = {
    "stream_token": ("token",),
    "stream_reasoning": ("token",),
    "stream_preamble": ("token",),
    "stream_chunk": ("node",),
    "eventual_response": ("status",),
    "cancelled": ("status",),
    "error": ("error",),
    "pong": ("timestamp",),
}


def faults(shape: Shape, value: object, path: str = "$") -> Iterator[str]:
    """Yield the faults of `value`, one text each."""
    if isinstance(shape, dict):
        yield from _object_faults(shape, value, path)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{path}: not a list"
            return
        for i, item in enumerate(value):
            yield from faults(shape[0], item, f"{path}[{i}]")
    elif isinstance(shape, tuple):
        if isinstance(value, bool) or value not in shape:
            yield f"{path}: {value!r} is none of {shape}"
    elif isinstance(shape, type):
        if type(value) is not shape:
            yield f"{path}: {value!r} is no {shape.__name__}"
    elif not shape(value):
        yield f"{path}: {value!r} is not {shape.__doc__}"


def _object_faults(shape: dict[str, Shape], value: object, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: not an object"
        return
    known = {key.rstrip("?"): member for key, member in shape.items()}
    for key in shape:
        if not key.endswith("?") and key not in value:
            yield f"{path}: lacks `{key}`"
    for key, member in value.items():
        if key in known:
            yield from faults(known[key], member, f"{path}.{key}")
        else:
            yield f"{path}: `{key}` is undocumented"


def assert_strict(frame: dict[str, Any]) -> None:
    """Assert that the strictest client accepts `frame` as an event."""
    kind = frame.get("type")
    assert kind in SHAPES, f"unknown type {kind!r}"
    found = list(faults(SHAPES[kind], frame))
    assert not found, f"{kind}: {found}"


def assert_emitted(frame: dict[str, Any]) -> None:
    """Assert that `frame` is strict, with its time and its mirrored fields as every real server writes them."""
    assert_strict(frame)
    assert "timestamp" in frame
    if frame["type"] == "immediate_response":
        return
    data = frame["data"]
    if frame["type"] != "pong":
        assert data.get("requestId") == frame.get("requestId", data.get("requestId")), "requestId is not mirrored"
    for key in MIRRORED.get(frame["type"], ()):
        assert data[key] == frame[key], f"{key} is not mirrored"


def assert_reply(kind: str, data: dict[str, Any]) -> None:
    """Assert that the strictest client accepts `data` of a 200 as the answer to `kind`."""
    found = list(faults(REPLIES[kind], data))
    assert not found, f"{kind}: {found}"
