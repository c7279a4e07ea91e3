"""A check of the form of every message that we send to a pando client (docs/dialects/pando.md, sections 2 to
6).

A Go client would take more than this: an absent member is its zero value. It would not survive a number where a text
stands, and what we emit is what a primary emits, member for member.
"""

from __future__ import annotations

import json
import re
from typing import Any

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
DURATION = re.compile(r"(\d+h\d+m\d+s|\d+m\d+s|\d+s)?")

SESSION = {"id": str, "title": str, "updated_at": TIME, "message_count": int}
MESSAGE = {"id": str, "role": str, "content": str, "created_at": TIME}
ROW = {
    "id": str,
    "parent_session_id": {"String": str, "Valid": bool},
    "title": str,
    "message_count": int,
    "prompt_tokens": int,
    "completion_tokens": int,
    "cost": (int, float),
    "updated_at": int,
    "created_at": int,
    "summary_message_id": {"String": str, "Valid": bool},
}

TOPICS: dict[str, dict[str, Any]] = {
    "session.update": SESSION,
    "session.activated": SESSION,
    "session.deleted": SESSION,
    "message.append": {"session_id": str, "message_id": str, "role": str, "content": str},
    "llm.start": {"session_id": str},
    "llm.token": {"session_id": str, "token": str},
    "llm.end": {"session_id": str, "tokens_in": int, "tokens_out": int},
    "tool.start": {"session_id": str, "tool_name": str, "call_id": str, "params": str},
    "tool.end": {"session_id": str, "tool_name": str, "call_id": str, "is_error": bool, "result": str},
    "instance.heartbeat": {
        "instance_id": str,
        "active_session_id?": str,
        "session_count": int,
        "uptime": DURATION,
        "started_at": TIME,
    },
    "instance.shutdown": {"instance_id": str, "reason?": str},
}
"""Topic -> the members of its payload; `?` may be left out (section 4)."""

RESULTS: dict[str, Any] = {
    "instance.ping": {"status": str, "instance_id": str, "uptime": DURATION},
    "session.list": [SESSION],
    "session.get": SESSION,
    "session.activate": {"ok": bool},
    "message.list": [MESSAGE],
    "message.send": {"ok": bool},
    "session.interrupt": {"ok": bool},
    "state.sync": {"sessions": [SESSION], "active_session_id?": str, "instance_id": str},
    "CreateSession": ROW,
    "UpdateSession": ROW,
    "DeleteSession": None,
}
"""Method, or the write method of a `db.write` -> its result (sections 6 and 7)."""

ENVELOPE = ["instanceId", "projectId", "topic", "timestamp", "payload"]


def check_published(frames: list[bytes]) -> dict[str, Any]:
    """Return the envelope of a published message; raise AssertionError if a primary would not publish it in
    this form.
    """
    assert len(frames) == 1, f"topic and envelope are one frame, not {len(frames)}"
    topic, zero, text = frames[0].partition(b"\0")
    assert zero, "0x00 stands behind the topic"
    envelope = json.loads(text)
    assert [key for key in envelope if key != "sessionId"] == ENVELOPE, f"members of an envelope: {list(envelope)}"
    assert envelope["topic"] == topic.decode(), "the topic in the envelope is the prefix"
    assert all(isinstance(envelope[key], str) for key in ENVELOPE[:-1])
    assert envelope["timestamp"].endswith("Z"), "in UTC"
    _check(envelope["timestamp"], TIME, "timestamp")
    assert envelope["topic"] in TOPICS, f"no topic of a gateway: {envelope['topic']}"
    _check(envelope["payload"], TOPICS[envelope["topic"]], envelope["topic"])
    return dict(envelope)


def check_reply(frames: list[bytes], method: str) -> dict[str, Any]:
    """Check the reply to a call of `method`; raise AssertionError if a primary would not send it in this form."""
    assert len(frames) == 2, f"an empty frame and the body, not {len(frames)} frames"
    assert frames[0] == b"", "the delimiter"
    reply = json.loads(frames[1])
    assert isinstance(reply, dict)
    assert set(reply) <= {"jsonrpc", "id", "result", "error"}, f"members of a reply: {list(reply)}"
    assert reply["jsonrpc"] == "2.0"
    assert isinstance(reply["id"], str), "a number makes the real client fail (section 5)"
    assert not {"result", "error"} <= set(reply), "a result or an error"
    if "error" in reply:
        _check(reply["error"], {"code": int, "message": str}, f"error of {method}")
    elif RESULTS.get(method) is None:
        assert "result" not in reply, "void: neither result nor error (section 5)"
    else:
        _check(reply["result"], RESULTS[method], f"result of {method}")
    return reply


def _check(value: Any, shape: Any, where: str) -> None:
    if isinstance(shape, dict):
        assert isinstance(value, dict), f"{where}: {value!r} is no object"
        wanted = {key.rstrip("?"): (kind, key.endswith("?")) for key, kind in shape.items()}
        missing = {key for key, (_, optional) in wanted.items() if not optional} - set(value)
        assert not missing, f"{where}: no {sorted(missing)}"
        assert set(value) <= set(wanted), f"{where}: {sorted(set(value) - set(wanted))} is not documented"
        for key, member in value.items():
            _check(member, wanted[key][0], f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where}: {value!r} is no list"
        for number, member in enumerate(value):
            _check(member, shape[0], f"{where}[{number}]")
    elif isinstance(shape, re.Pattern):
        assert isinstance(value, str), f"{where}: {value!r} is no text"
        assert shape.fullmatch(value), f"{where}: {value!r} is not {shape.pattern}"
    else:
        right = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
        assert right, f"{where}: {value!r} is no {shape}"
