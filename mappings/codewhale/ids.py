"""Conversion of request ids (any JSON on the wire, text in dragoman) and of thread ids.

The text of an id is its JSON. A string id stands for itself, unless it looks like the JSON of another id. "" means no
id. So every id can be written exactly as it was read. On a live link, a suffix after MARK makes the text unique: each
client counts its ids from 1, and dragoman identifies requests by this text.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.untyped import decode_untyped

MARK = "\n"  # JSON on one line never contains it


def read_id(id: Raw | UnsetType) -> str:
    """Return the text for an id on the wire; "" if it is absent."""
    if id is UNSET:
        return ""
    raw = echo_id(id)
    value = decode_untyped(raw)
    return value if isinstance(value, str) and _stands_for_itself(value) else bytes(raw).decode()


def write_id(request: str) -> Raw | UnsetType:
    """Return the id on the wire for a text; UNSET for ""."""
    if not request:
        return UNSET
    text, mark, _ = request.partition(MARK)
    if _is_json(text) if mark else _is_id(text):
        return Raw(text.encode())
    return Raw(msgspec.json.encode(request))


def answer_id(request: str) -> Raw:
    """Return the id on the wire of the answer to a request: null for ""."""
    own = write_id(request)
    return Raw(b"null") if own is UNSET else own


def mark_id(request: str, own: str, thread: str = "") -> str:
    """Return a unique text for a request: its id text, MARK, the unique part `own`, and the thread it names."""
    return MARK.join((bytes(answer_id(request)).decode(), own, thread))


def named_thread(request: str) -> str:
    """Return the thread id that a request named, exactly as its client wrote it."""
    return request.split(MARK, 2)[2] if request.count(MARK) >= 2 else ""


def echo_id(id: Raw) -> Raw:
    """Return an id as a server echoes it: compact, integers over 64 bits as floats (docs/dialects/codewhale.md, section
    1.1).
    """
    try:
        value = decode_untyped(id)
    except msgspec.DecodeError:
        value = None
    return Raw(msgspec.json.encode(_echoed(value)))


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
    """Return a float as servers write it, with a sign in the exponent; None if it is too large."""
    try:
        return Raw(repr(float(value)).encode())
    except OverflowError:
        return None


def _stands_for_itself(text: str) -> bool:
    return bool(text) and MARK not in text and not _is_id(text)


def _is_id(text: str) -> bool:
    """Return True if the text is the JSON of an id, not a string that stands for itself."""
    try:
        return read_id(Raw(text.encode())) == text
    except (ValueError, RecursionError):
        return False


def _is_json(text: str) -> bool:
    try:
        decode_untyped(text)
    except (ValueError, RecursionError):
        return False
    return True


THREAD = re.compile(r"thread-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def thread_id(session: str) -> str:
    """Return the thread id of a session: `thread-` and its UUID, or an id that is not a UUID unchanged.

    The source is docs/translation.md, rule 3.1.
    """
    return name if THREAD.fullmatch(name := f"thread-{session}") else session


def session_id(thread: str) -> str:
    """Return the session id of a thread id: the UUID after `thread-`, or any other id unchanged."""
    found = THREAD.fullmatch(thread)
    return found[1] if found else thread
