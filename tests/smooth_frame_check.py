"""A check of every frame that we send to a smooth peer: against our strict shapes, and the schemas if they are
available.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from tests.shared import SHARED
from tests.smooth_shapes import assert_strict


def check(frame: dict[str, Any]) -> None:
    """Raise AssertionError if a strict client would drop this frame."""
    assert_strict(frame)
    if SHARED is None:
        return  # the shapes are held against the schemas where both are: tests/mappings/smooth/test_shapes.py
    form = _form(frame) if frame["type"] == "stream_token" else None
    if form is not None and form in TAKEN:
        return
    problem = next(_validator(f"events/{frame['type'].replace('_', '-')}").iter_errors(frame), None)
    assert problem is None, f"{problem.message} at {problem.json_path}"
    TAKEN.add(form)


TAKEN: set[Any] = set()
"""Forms of tokens that their schema takes: it says which keys there are and of which types, and no more."""


def _form(value: Any) -> Any:
    """Return the keys of an object and the types of their values."""
    return tuple((key, _form(held)) for key, held in value.items()) if isinstance(value, dict) else type(value)


def check_action(frame: dict[str, Any]) -> None:
    """Raise AssertionError if an action breaks the schema of its request, as far as the schema knows the action."""
    file = ACTIONS.get(frame["action"])
    if SHARED is None or file is None:
        return
    known = {key: value for key, value in frame.items() if key != "conversationId"}  # servers know it, no schema does
    problem = next(_validator(f"actions/{file}", "Request").iter_errors(known), None)
    assert problem is None, f"{problem.message} at {problem.json_path}"


ACTIONS = {
    "create_conversation_session": "create-conversation-session",
    "send_message": "send-message",
    "get_session": "get-session",
    "get_conversation_messages": "get-messages",
    "confirm_tool_action": "confirm-tool-action",
    "verify_otp": "verify-otp",
    "submit_interaction": "submit-interaction",
    "cancel": "cancel",
    "ping": "ping",
}
"""Actions -> the file of their schema."""


@cache
def _validator(name: str, part: str = "") -> Any:
    assert SHARED is not None
    file = SHARED / "smooth-operator" / "spec" / f"{name}.schema.json"
    schema = json.loads(file.read_text("utf-8"))
    return jsonschema.Draft202012Validator(schema["$defs"][part] if part else schema)
