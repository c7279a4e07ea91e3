"""A codec of a small test dialect: what it accepts and mends, and the sizes of large parts."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, Struct, json

from dragoman.mappings import codec as codecs
from dragoman.mappings.canonical import Unmapped
from dragoman.mappings.codec import ESCAPES_MAX, MALFORMED, Codec, check_depth, part_size, without_halves
from dragoman.mappings.errors import PeerError
from dragoman.mappings.value_count import PIECE, VALUES_MAX
from tests.mappings.round_trip import any_json
from tests.step_counter import count_steps

DEPTH = 6


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="part"):
    text: str
    more: list[Inner] = []


class Inner(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    n: int


class Say(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="say"):
    text: str
    parts: list[Part] = []


class Tell(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="tell"):
    text: str
    to: str


class Show(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="show"):
    anything: Raw


def codec(**options: Any) -> Codec[Say | Show | Tell]:
    return Codec("small", Say | Show | Tell, max_depth=DEPTH, **options)


PLAIN, UNIQUE = codec(), codec(unique_keys=True)
SAY = b'{"type":"say","text":"x"}'


def refused(frame: bytes, by: Codec[Say | Show | Tell] = PLAIN) -> PeerError:
    with pytest.raises(PeerError) as caught:
        by.mend(frame)
    return caught.value


def nested(levels: int) -> bytes:
    inner = levels - 1
    return b'{"type":"show","anything":' + b"[" * inner + b"]" * inner + b"}"


# -- the common path --------------------------------------------------------------------------------


def test_a_message_is_decoded_by_its_tag() -> None:
    assert PLAIN.decode(SAY) == Say(text="x")


def test_keys_are_written_as_declared_and_those_of_dicts_in_their_order_or_sorted() -> None:
    assert PLAIN.encode(Say(text="x")) == b'{"type":"say","text":"x","parts":[]}'
    keys = {"b": 1, "a": {"d": 1, "c": 2}}
    assert PLAIN.encode(keys) == b'{"b":1,"a":{"d":1,"c":2}}'
    assert codec(sorts_keys=True).encode(keys) == b'{"a":{"c":2,"d":1},"b":1}'


def test_only_types_with_opaque_json_inside_are_watched() -> None:
    assert PLAIN.watched == {Show}


def test_every_type_is_watched_if_keys_must_be_unique() -> None:
    assert UNIQUE.watched == {Say, Show, Tell}


@pytest.mark.parametrize("frame", [b"", b"{", b"7", b"\xff", b'{"type":"say"}', b'{"type":"say","text":"x","y":1}'])
def test_the_decoder_refuses_with_a_malformed_error(frame: bytes) -> None:
    with pytest.raises(MALFORMED):
        PLAIN.decode(frame)


# -- what is looked at again ------------------------------------------------------------------------


def code_of_check(codec: Codec[Any], frame: bytes) -> str:
    with pytest.raises(PeerError) as caught:
        codec.check(frame, codec.decode(frame))
    return caught.value.code


def test_opaque_json_that_is_no_utf8_is_refused() -> None:
    assert code_of_check(PLAIN, b'{"type":"show","anything":"\xff"}') == "not_utf8"


def test_a_frame_with_deep_opaque_json_is_too_deep() -> None:
    assert code_of_check(PLAIN, nested(DEPTH + 1)) == "too_deep"


def test_the_deepest_frame_that_is_allowed_passes() -> None:
    PLAIN.check(nested(DEPTH), PLAIN.decode(nested(DEPTH)))
    assert PLAIN.mend(nested(DEPTH))[1] == []


def test_many_brackets_side_by_side_are_not_too_deep() -> None:
    frame = b'{"type":"show","anything":[' + b"[]," * 20 + b"[]]}"
    PLAIN.check(frame, PLAIN.decode(frame))


@pytest.mark.parametrize(
    "frame",
    [
        b'{"type":"say","text":"x","text":"y"}',
        b'{"type":"say","text":"x","t\\u0065xt":"y"}',
        b'{"type":"say","text":"x","parts":[{"kind":"part","text":"a","text":"b"}]}',
        b'{"type":"tell","text":"b:c","to":"d","to":"e"}',
        b'{"type":"tell","text":"b","t\\u006f":"e","to":"d"}',
        b'{"type":"show","anything":{"a":1,"a":2}}',
    ],
)
def test_a_duplicate_key_is_refused(frame: bytes) -> None:
    assert code_of_check(UNIQUE, frame) == "duplicate_key"


def test_a_plain_frame_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.mappings.codec.read_json", lambda *_: pytest.fail("it was read again"))
    frame = b'{"type":"tell","text":"b:c","to":"d"}'
    UNIQUE.check(frame, UNIQUE.decode(frame))


def test_a_long_integer_in_opaque_json_is_no_error() -> None:
    frame = b'{"type":"show","anything":' + b"1" * 5_000 + b"}"
    UNIQUE.check(frame, UNIQUE.decode(frame))


def test_without_unique_keys_the_last_one_counts() -> None:
    frame = b'{"type":"say","text":"x","text":"y"}'
    assert PLAIN.decode(frame) == Say(text="y")
    PLAIN.check(frame, Say(text="y"))


# -- mending ----------------------------------------------------------------------------------------


def test_undocumented_keys_are_removed_at_every_level_and_named() -> None:
    frame = (
        b'{"type":"say","x":1,"text":"t","parts":[{"kind":"part","text":"p","y":{},"more":[{"n":1,"z":2}]},'
        b'{"kind":"part","text":"q"}]}'
    )
    message, dropped = PLAIN.mend(frame)
    assert message == Say(text="t", parts=[Part(text="p", more=[Inner(n=1)]), Part(text="q")])
    assert sorted(dropped) == ["$.parts[].more[].z", "$.parts[].y", "$.x"]


def test_keys_of_opaque_json_are_not_touched() -> None:
    message, dropped = PLAIN.mend(b'{"type":"show","anything":{"x":{"type":"say"}},"y":1}')
    assert isinstance(message, Show)
    assert (bytes(message.anything), dropped) == (b'{"x":{"type":"say"}}', ["$.y"])


def test_an_unknown_name_is_unmapped_with_the_whole_frame() -> None:
    frame = b'{"type":"dance","text":"\xc3\xbc"}'
    assert PLAIN.mend(frame) == (Unmapped(dialect="small", tag="dance", raw=frame.decode()), [])


def test_mend_reshapes_another_spelling_before_it_decodes() -> None:
    def named(value: object) -> object:
        return {"type": value[0], "text": value[1]} if isinstance(value, list) else value

    assert codec(reshape=named).mend(b'["say","x"]')[0] == Say(text="x")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\xff", "not_utf8"),
        (b'"\xff"', "not_utf8"),
        (b"nonsense", "not_json"),
        (b"", "not_json"),
        (SAY + SAY, "not_json"),
        (b"[1]", "invalid"),
        (b"null", "invalid"),
        (b"{}", "invalid"),
        (b'{"type":7}', "invalid"),
        (b'{"type":"say"}', "invalid"),
        (b'{"type":"say","text":7}', "invalid"),
        (nested(DEPTH + 1), "too_deep"),
        (b"[" * 100_000, "too_deep"),
    ],
)
def test_the_error_code_says_what_is_wrong_with_a_frame(frame: bytes, code: str) -> None:
    assert refused(frame).code == code


def test_the_error_of_an_invalid_message_names_it_and_has_its_value() -> None:
    error = refused(b'{"type":"say","text":7,"id":"r"}')
    assert error.text.startswith("invalid `say`: ")
    assert error.value == {"type": "say", "text": 7}  # undocumented keys are out already


def test_mending_refuses_duplicate_keys_too() -> None:
    assert refused(b'{"type":"say","text":"x","y":1,"y":2}', UNIQUE).code == "duplicate_key"


def fine_or_refused(by: Codec[Say | Show | Tell], frame: bytes) -> None:
    """Check that an accepted frame can be written and read again, and that only PeerError is raised."""
    with contextlib.suppress(PeerError):
        message, _ = by.mend(frame)
        assert isinstance(message, Unmapped) or same(by.decode(by.encode(message)), message)


def same(one: Say | Show | Tell, other: Say | Show | Tell) -> bool:
    return PLAIN.encode(one) == PLAIN.encode(other)


@given(st.binary(max_size=40) | st.sampled_from([b"[", b'{"type":', b'"say"', b'"text":"', b"}"]))
def test_reading_garbage_gives_a_message_or_a_peer_error(frame: bytes) -> None:
    for each in (PLAIN, UNIQUE):
        fine_or_refused(each, frame)


JSON = any_json(keys=st.sampled_from(["type", "text", "parts", "kind", "more", "n", "x"]))


@given(JSON, JSON, st.dictionaries(st.sampled_from(["x", "text", "anything"]), JSON))
def test_reading_any_json_gives_a_message_or_a_peer_error(parts: Any, text: Any, more: dict[str, Any]) -> None:
    for tag in ("say", "show", "dance"):
        fine_or_refused(PLAIN, json.encode({"type": tag, "text": text, "parts": parts, **more}))


@pytest.mark.parametrize(
    ("frame", "depth"),
    [
        (b"1", 0),
        (b"[[], [], [1]]", 2),
        (b'{"a": [{"b": []}, 1], "c": {}}', 4),
        (rb'["[[[", "\"[[", "\\", [1]]', 2),
        (rb'{"\\\"[": {"]": 1}}', 2),
        (b"[" * 5_000 + b"]" * 5_000, 5_000),
        (b"[" + b" " * PIECE + b"[1," + b" " * PIECE + b"[]]]", 3),
        (b'["' + b"[" * PIECE + b'", [' + b"1," * PIECE + b'["]"]]]', 3),
        (b"[" + b"[]," * PIECE + b"[[]]]", 3),
    ],
)
def test_the_depth_of_a_frame_is_that_of_its_brackets_outside_of_strings(frame: bytes, depth: int) -> None:
    check_depth(frame, depth)
    if depth:
        with pytest.raises(PeerError, match="nested deeper"):
            check_depth(frame, depth - 1)


def test_more_brackets_than_values_are_allowed_are_not_added_up() -> None:
    with pytest.raises(PeerError, match="values"):
        check_depth(b"[" + b"[]," * (VALUES_MAX + 1) + b"0]", 100)


def test_a_message_with_many_brackets_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> object:
        raise AssertionError("it was decoded twice")

    monkeypatch.setattr(codecs, "read_json", refuse)
    frame = b'{"type":"show","anything":[%s0]}' % (b"[]," * 100)
    PLAIN.check(frame, PLAIN.decode(frame))


def test_the_depth_of_a_frame_takes_as_many_steps_for_any_depth() -> None:
    def steps(depth: int) -> int:
        frame = b"[" * depth + b"]" * depth

        def check() -> None:
            with contextlib.suppress(PeerError):
                check_depth(frame, 100)

        return count_steps(check)

    steps(200)  # the first call loads what later ones find
    assert steps(2_000) == steps(200)


@pytest.mark.parametrize(
    ("frame", "read"),
    [
        (rb'"a\ud83d"', rb'"a\ufffd"'),
        (rb'"\uDE00\uD83D"', rb'"\ufffd\ufffd"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
        (rb'"\\ud83d\\\ud83d"', rb'"\\ud83d\\\ufffd"'),
        (rb'"\ud7ff\ue000\"\n"', rb'"\ud7ff\ue000\"\n"'),
        (b'"\\', b'"\\'),
    ],
)
def test_halves_of_surrogate_pairs_are_replaced_and_other_escapes_kept(frame: bytes, read: bytes) -> None:
    assert without_halves(frame) == read


def test_halves_of_surrogate_pairs_are_kept_among_too_many_escapes() -> None:
    frame = rb"\n" * (ESCAPES_MAX - 1) + rb"\ud83d"
    assert without_halves(frame).endswith(rb"\ufffd")
    assert without_halves(rb"\n" + frame) == rb"\n" + frame


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
