"""Each parser of tests/fuzz/parsers.py reads or refuses all bytes, and never raises anything else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.parsers import PARSERS, seeds

FRAGMENTS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\n",
    b"\0",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"\xff",
    b"\\ud800",
    b"[" * 3000,
)
DEEP = b"[" * 1500  # more levels than a decoder takes
MUTATIONS = 4
LONGER = int(os.environ.get("DRAGOMAN_EXAMPLES", "0"))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Return real messages with some bytes cut out, or replaced by fragments of syntax."""
    data = bytearray(b"\n".join(draw(st.lists(st.sampled_from(seeds()), min_size=1, max_size=2))))
    for _ in range(draw(st.integers(0, MUTATIONS))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 8))] = draw(st.sampled_from((*FRAGMENTS, DEEP)) | st.binary(max_size=4))
    return bytes(data)


# Without DRAGOMAN_EXAMPLES, each parser would get the same examples, and making them takes longer than reading them.
PARTS = {name: [parser] for name, parser in PARSERS.items()} if LONGER else {"all": [*PARSERS.values()]}


@pytest.mark.parametrize("parsers", PARTS.values(), ids=PARTS)
@settings(max_examples=LONGER or 100)
@given(data=mutated() | st.binary(max_size=200))
def test_a_parser_reads_or_refuses_any_bytes(parsers: Sequence[Callable[[bytes], None]], data: bytes) -> None:
    for parser in parsers:
        parser(data)
