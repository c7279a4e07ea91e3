from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dragoman.gateway import registry
from dragoman.mappings.errors import PeerError
from dragoman.mappings.value_count import STEP, VALUES_MAX, check_value_count
from tests.step_counter import GROWTH, growth

MANY = VALUES_MAX + STEP


@pytest.mark.parametrize("frame", [b"[" + b"1," * MANY, b"[" * MANY, b'{"a":' * MANY, b'["",' + b'"a",' * MANY])
def test_more_values_than_the_limit_are_refused(frame: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        check_value_count(frame)
    assert caught.value.code == "too_large"


@pytest.mark.parametrize(
    "frame",
    [
        json.dumps("[{," * MANY).encode(),
        json.dumps({"text": '\\",[' * MANY}).encode(),
        b'{"open":"' + b"," * MANY,
        b"[" + b"1," * (VALUES_MAX - STEP) + json.dumps("," * MANY).encode() + b"]",
    ],
)
def test_signs_in_strings_are_not_counted(frame: bytes) -> None:
    check_value_count(frame)


@pytest.mark.parametrize("name", [name for name, dialect in registry.dialects().items() if name != "pando"])
def test_a_message_of_too_many_values_is_refused_before_it_is_built(name: str) -> None:
    codec = registry.dialects()[name].commands.codec
    with pytest.raises(PeerError, match=f"more than {VALUES_MAX} JSON values"):
        codec.mend(b'{"undocumented":[' + b"{}," * MANY + b"{}]}")


def test_the_values_of_a_frame_are_counted_in_proportion_to_its_size() -> None:
    def work(frame: bytes) -> Callable[[], object]:
        return lambda: check_value_count(frame)

    frames = [b"[" + b"1," * (VALUES_MAX * times // 4) + b"1]" for times in (1, 1, 2)]
    assert growth(work, frames, ("check_value_count",)) <= GROWTH
