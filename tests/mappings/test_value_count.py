from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import pytest

from dragoman.gateway import registry
from dragoman.mappings.errors import PeerError
from dragoman.mappings.value_count import PIECE, VALUES_MAX, check_value_count
from tests.step_counter import GROWTH, growth

MANY = VALUES_MAX + 1


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
        b'{"text":"' + b',\\\\\\"' * MANY + b'"}',
        b'{"text":"\\\\",' + b'"more":"' + b"[" * MANY + b'"}',
        b"[" + b"1," * (VALUES_MAX - 1) + json.dumps("," * MANY).encode() + b"]",
    ],
)
def test_signs_in_strings_are_not_counted(frame: bytes) -> None:
    check_value_count(frame)


@pytest.mark.parametrize("end", [b'"a\\\\",', b'"\\\\\\"",'])
def test_a_value_after_an_escaped_backslash_at_the_end_of_a_string_is_counted(end: bytes) -> None:
    check_value_count(b"[" + end * 99 + b"0]", 100)
    with pytest.raises(PeerError):
        check_value_count(b"[" + end * 100 + b"0]", 100)


@pytest.mark.parametrize("shift", range(8))
@pytest.mark.parametrize("text", ['\\",', "\\\\,", '",', "\\,"])
def test_signs_in_a_string_of_several_pieces_are_not_counted(text: str, shift: int) -> None:
    frame = json.dumps(["x" * shift + text * PIECE, 0]).encode()
    check_value_count(frame, 2)
    with pytest.raises(PeerError):
        check_value_count(frame, 1)


def test_values_behind_the_beginning_of_a_long_message_are_counted() -> None:
    text = b'["' + b"x" * PIECE + b'"'
    check_value_count(text + b",0" * 99 + b"]", 100)
    with pytest.raises(PeerError):
        check_value_count(text + b",0" * 100 + b"]", 100)


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


def test_counting_takes_memory_for_a_piece_of_the_message_only() -> None:
    frame = b'"' + b"x" * (64 * PIECE) + b'"'
    tracemalloc.start()
    try:
        check_value_count(frame)
        assert tracemalloc.get_traced_memory()[1] < 8 * PIECE
    finally:
        tracemalloc.stop()
