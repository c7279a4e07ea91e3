"""What every frame that we send to a smooth client must pass: our strict shapes, and the schemas where they are at
hand.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from tests.shared import SHARED
from tests.smooth_shapes import assert_strict

__all__ = ["check"]


def check(frame: dict[str, Any]) -> None:
    """AssertionError when a strict client would drop this frame."""
    assert_strict(frame)
    if SHARED is None:
        return  # the shapes are held against the schemas where both are: tests/mappings/smooth/test_shapes.py
    form = _form(frame) if frame["type"] == "stream_token" else None
    if form is not None and form in TAKEN:
        return
    problem = next(_validator(frame["type"]).iter_errors(frame), None)
    assert problem is None, f"{problem.message} at {problem.json_path}"
    TAKEN.add(form)


TAKEN: set[Any] = set()
"""Forms of tokens that their schema takes: it says which keys there are and of which types, and no more."""


def _form(value: Any) -> Any:
    """Its keys, and the types of what they hold."""
    return tuple((key, _form(held)) for key, held in value.items()) if isinstance(value, dict) else type(value)


@cache
def _validator(kind: str) -> Any:
    assert SHARED is not None
    file = SHARED / "smooth-operator" / "spec" / "events" / f"{kind.replace('_', '-')}.schema.json"
    return jsonschema.Draft202012Validator(json.loads(file.read_text("utf-8")))
