"""The round trip of one message: it is read, and what it means is written again. Its values may be any JSON."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dragoman.mappings.dialect import Direction, Frame, Step

TEXTS = st.text(max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def back_and_forth(direction: Direction[Any], frame: Frame) -> tuple[Step[Any], list[bytes]]:
    """Read one message and write it again; return the step and the written frames."""
    step: Step[Any] = Step()
    direction.receive([frame], step)
    return step, [out for burst in step.bursts for out in direction.write(burst).frames]


def any_json(
    keys: st.SearchStrategy[str] = TEXTS, numbers: st.SearchStrategy[float] = NUMBERS
) -> st.SearchStrategy[Any]:
    """Return a strategy that makes all kinds of JSON values; the keys of objects and the numbers are of these."""
    return st.recursive(
        st.none() | st.booleans() | numbers | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=8,
    )
