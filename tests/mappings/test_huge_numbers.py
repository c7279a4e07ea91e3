"""Numbers that no float can hold, in opaque JSON: msgspec keeps it as Raw, and refuses them when it decodes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import MsgspecError, json

from dragoman.gateway import registry
from dragoman.mappings.dialect import Step
from tests.data_files import vectors

DIALECTS = registry.dialects()
VALUE = re.compile(r'(?<=[:,\[])("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|\{\}|\[\])(?=[,\]}])')


def with_a_huge_number(dialect: str) -> Iterator[bytes]:
    """Yield the vectors of a dialect, each with a number out of range in the place of one of its values."""
    for vector in vectors(dialect):
        for frame in vector.get("frames", [vector.get("wire")]):
            for found in VALUE.finditer(frame):
                yield f"{frame[: found.start()]}1e400{frame[found.end() :]}".encode()


def is_unreadable(item: Any) -> bool:
    try:
        json.decode(json.encode(item))
    except MsgspecError:
        return True
    return False


@pytest.mark.parametrize("direction", ["events", "commands"])
@pytest.mark.parametrize("source", ["codewhale", "pando", "pod"])
def test_a_message_with_a_number_out_of_range_is_translated_to_each_dialect(source: str, direction: str) -> None:
    step: Step[Any] = Step()
    for frame in with_a_huge_number(source):
        getattr(DIALECTS[source], direction).receive([frame], step)
    unreadable = [burst for burst in step.bursts if any(map(is_unreadable, burst.items))]
    for burst in unreadable:
        for target in DIALECTS.values():
            getattr(target, direction).write(burst)
    assert step.faults
