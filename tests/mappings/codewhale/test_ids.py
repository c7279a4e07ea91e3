"""Ids of requests, which are any JSON, and ids of threads."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from dragoman.mappings.codewhale.ids import echo_id, mark_id, named_thread, read_id, session_id, thread_id, write_id
from tests.mappings.round_trip import any_json

UUID = "00000000-0000-4000-8000-000000000001"

JSON = any_json(numbers=st.integers(-(1 << 63), (1 << 64) - 1))


@given(JSON)
def test_an_id_comes_back_from_its_text_also_if_marked(value: object) -> None:
    known = Raw(msgspec.json.encode(value))
    text = read_id(known)
    for request in (text, mark_id(text, "own", "thread")):
        back = write_id(request)
        assert back is not UNSET
        assert msgspec.json.decode(back) == value


@given(st.text(min_size=1).filter(lambda text: "\n" not in text) | JSON.map(json.dumps))
@example("20000000000000000001")
@example('"a"')
@example("1e2")
@example("[ 1 ]")
@example('{"a":1,"a":1}')
def test_the_request_id_of_another_dialect_comes_back(text: str) -> None:
    known = write_id(text)
    assert known is not UNSET
    assert read_id(known) == text
    back = write_id(mark_id(text, "own"))
    assert back is not UNSET
    assert bytes(back) == bytes(known)


def test_a_text_with_a_line_break_is_a_string() -> None:
    assert write_id("a\nb") == Raw(b'"a\\nb"')


def test_ids_that_are_strings_and_numbers_differ() -> None:
    assert [read_id(Raw(raw)) for raw in (b"7", b'"7"', b'"req-1"', b"null", b'""', b"1.0")] == [
        "7",
        '"7"',
        "req-1",
        "null",
        '""',
        "1.0",
    ]
    assert (read_id(UNSET), write_id("")) == ("", UNSET)


@pytest.mark.parametrize(
    ("id", "back"),
    [
        (b"1.0", b"1.0"),
        (b"18446744073709551615", b"18446744073709551615"),
        (b"12345678901234567890123", b"1.2345678901234568e+22"),
        (b'{ "a" : [ 1, null ] }', b'{"a":[1,null]}'),
        (b"1" + b"0" * 400, b"null"),
    ],
)
def test_an_id_is_echoed_as_the_real_server_echoes_it(id: bytes, back: bytes) -> None:
    assert bytes(echo_id(Raw(id))) == back


def test_two_requests_with_one_id_have_different_texts_with_their_threads() -> None:
    one, other = mark_id("7", "a", f"thread-{UUID}"), mark_id("7", "b")
    assert one != other
    assert (named_thread(one), named_thread(other), named_thread("7")) == (f"thread-{UUID}", "", "")


def test_only_a_uuid_gets_the_prefix_of_a_thread() -> None:
    assert (thread_id(UUID), session_id(f"thread-{UUID}")) == (f"thread-{UUID}", UUID)
    assert (thread_id("ghost"), session_id("thread-ghost"), thread_id("")) == ("ghost", "thread-ghost", "")
    assert thread_id(f"thread-{UUID}") == f"thread-{UUID}"
