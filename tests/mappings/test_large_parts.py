"""The large parts of a client's command are found by its name, and by their own names."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec import Raw, Struct

from dragoman.mappings.large_parts import part_size


class Params(Struct, frozen=True):
    large: Raw = Raw(b"")


class Command(Struct, frozen=True):
    name: Literal["store"]
    params: Params = Params()
    more: Raw = Raw(b"")


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        (b'{"name":"store","params":{"large":"abc","small":1}}', 5),
        (b'{"params":{"large":[1, 2]},"more":{},"name":"store"}', 8),
        (b'{"name":"store"}', 0),
        (b'{"name":"ping","params":{"large":"abc"}}', 0),
        (b'{"params":{"large":"abc"}}', 0),
        (b'{"name":"store","params":7}', 0),
        (b'{"name":"store","more":"abc"', 0),
        (b'{"name":"store","more":' + b"[" * 100_000, 0),
        (b"", 0),
    ],
)
def test_the_size_is_that_of_the_large_parts_of_this_command(frame: bytes, size: int) -> None:
    assert part_size(Command)(frame) == size
