"""Request ids, which are any JSON on a codewhale's wire and text elsewhere; and the ids of threads.

The text of an id is its JSON. A string that is not the text of another id stands for itself, and "" means no id, so
every id comes back as it was. On a live link a mark makes the text unique, because clients count from 1 and dragoman
tells requests apart by it.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

MARK = "\n"  # JSON on one line never contains it


def read_id(id: Raw | UnsetType) -> str:
    """Return the text of an id."""
    if id is UNSET:
        return ""
    raw = echo_id(id)
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) and _stands_for_itself(value) else bytes(raw).decode()


def write_id(request: str) -> Raw | UnsetType:
    """Return the id of a text, or UNSET if it has none."""
    if not request:
        return UNSET
    text, mark, _ = request.partition(MARK)
    if _is_json(text) if mark else _is_id(text):
        return Raw(text.encode())
    return Raw(msgspec.json.encode(request))


def mark_id(request: str, own: str, thread: str = "") -> str:
    """Return a text of an id that no other request has, with the thread that the request names."""
    known = write_id(request)
    return MARK.join(("null" if known is UNSET else bytes(known).decode(), own, thread))


def named_thread(request: str) -> str:
    """Return the thread that a request named, as its client called it."""
    return request.split(MARK, 2)[2] if request.count(MARK) >= 2 else ""


def echo_id(id: Raw) -> Raw:
    """Return an id as a server echoes it: compact, integers over 64 bits as floats (docs/dialects/codewhale.md, section
    1.1).
    """
    return Raw(msgspec.json.encode(_echoed(msgspec.json.decode(id))))


def _echoed(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int() if not -(1 << 63) <= value < 1 << 64:
            return _float(value)
        case float():
            return _float(value)
        case dict():
            return {key: _echoed(member) for key, member in value.items()}
        case list():
            return [_echoed(member) for member in value]
    return value


def _float(value: float) -> Raw | None:
    """Return a float as servers write it: an exponent has its sign."""
    try:
        return Raw(repr(float(value)).encode())
    except OverflowError:
        return None


def _stands_for_itself(text: str) -> bool:
    return bool(text) and MARK not in text and not _is_id(text)


def _is_id(text: str) -> bool:
    """Return True for the text of an id that is no string, or of a string that does not stand for itself."""
    try:
        return read_id(Raw(text.encode())) == text
    except (ValueError, RecursionError):
        return False


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


THREAD = re.compile(r"thread-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def thread_id(session: str) -> str:
    """Return the thread of a session: `thread-` and a UUID, else the backend's name for it (docs/translation.md, rule
    3.1).
    """
    return name if THREAD.fullmatch(name := f"thread-{session}") else session


def session_id(thread: str) -> str:
    """Return the session of a thread: the UUID after `thread-`, else the name itself."""
    found = THREAD.fullmatch(thread)
    return found[1] if found else thread
