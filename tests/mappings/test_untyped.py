"""JSON without a type is read as msgspec reads it, also its numbers."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.mappings.untyped import decode_untyped


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_is_read_exactly(number: float) -> None:
    assert repr(decode_untyped(f"[{number!r}]")) == f"[{number!r}]"


@pytest.mark.parametrize("text", ["0", "-0", "-0.0", "1E5", "1.5e+3", "5e-400", "1" * 400, "1e308", '{"a":[null]}'])
def test_json_is_read_as_msgspec_reads_it(text: str) -> None:
    assert repr(decode_untyped(text)) == repr(msgspec.json.decode(text))


@pytest.mark.parametrize("text", ["1e309", "-1e400", "1.", "NaN", "[1e309]", "", "{"])
def test_json_that_msgspec_refuses_is_refused_with_its_error(text: str) -> None:
    with pytest.raises(msgspec.DecodeError) as expected:
        msgspec.json.decode(text)
    with pytest.raises(type(expected.value)) as refused:
        decode_untyped(text)
    assert str(refused.value).startswith(str(expected.value).partition(" - ")[0])
