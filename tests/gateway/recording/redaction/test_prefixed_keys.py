"""Keys with a fixed prefix: which texts are keys, and which are not."""

from __future__ import annotations

import pytest

from dragoman.gateway.recording.redaction.prefixed_keys import ALPHABETS, CHARACTERS, LEAST, PrefixedKeys, key_formats
from dragoman.gateway.recording.redaction.spans import KIND
from tests.gateway.recording.redaction.measured import characters, keys

TABLE = """
long_key    alnum        20     ab-
exact_key   hex          =12    cd-
parts_key   lower        4.6    ef-
digit_key   alnum+digit  12     ab-x-
signed_key  alnum        12     *:gh
"""
KEYS = PrefixedKeys(TABLE)


def kinds(text: str) -> list[tuple[str, str]]:
    return [(kind, found["secret"]) for kind, found in KEYS.matches(text, text)]


@pytest.mark.parametrize(
    ("text", "kind", "secret"),
    [
        ("ab-" + "x" * 20, "long_key", "ab-" + "x" * 20),
        ("a ab-" + "x" * 30 + "!", "long_key", "ab-" + "x" * 30),
        ("cd-" + "0a" * 6 + " ", "exact_key", "cd-" + "0a" * 6),
        ("(ef-abcd.abcdef)", "parts_key", "ef-abcd.abcdef"),
        ("=ab-x-" + "y" * 12 + "7", "digit_key", "ab-x-" + "y" * 12 + "7"),
        ("12345:gh" + "z" * 12, "signed_key", "gh" + "z" * 12),
    ],
)
def test_a_key_of_each_form_is_found_as_a_whole(text: str, kind: str, secret: str) -> None:
    assert kinds(text) == [(kind, secret)]


@pytest.mark.parametrize(
    "text",
    [
        "ab-" + "x" * 19,
        "cab-" + "x" * 20,
        "_ab-" + "x" * 20,
        "cd-" + "0a" * 7,
        "ef-abcd-abcdef",
        "ab-x-" + "y" * 13,
        "gh" + "z" * 12,
        " :gh" + "z" * 12,
    ],
)
def test_a_text_that_only_resembles_a_key_is_not_a_secret(text: str) -> None:
    assert kinds(text) == []


def test_two_keys_with_one_character_between_them_are_both_found() -> None:
    one = "ab-" + "x" * 20
    assert [secret for _, secret in kinds(f"{one},{one}")] == [one, one]


@pytest.mark.parametrize("length", range(3, 23))
def test_a_key_that_is_cut_off_is_open_from_its_start(length: int) -> None:
    text = "see " + ("ab-" + "x" * 20)[:length]
    found = KEYS.match_open(text, text, 4)
    assert found is not None
    assert found[1].span("secret") == (4, len(text))


@pytest.mark.parametrize("text", ["see ab-xxx!", "see xab-xxx", "see ab", 'see "ab-x"}'])
def test_a_text_that_cannot_become_a_key_is_not_open(text: str) -> None:
    assert KEYS.match_open(text, text, 4) is None


def test_a_table_with_a_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="not a length"):
        PrefixedKeys("a_key alnum many ab-")


def test_each_kind_can_stand_in_a_placeholder_and_each_key_is_long_enough() -> None:
    assert [one.kind for one in key_formats() if KIND.fullmatch(one.kind) is None] == []
    assert [kind for kind, key in keys() if len(key) < LEAST] == []
    used = {char for name in ALPHABETS for char in characters(ALPHABETS[name])}
    used |= {char for one in key_formats() for char in one.prefix + "".join(one.separators)}
    assert used - set(CHARACTERS) == set()  # the finder looks for a run of these characters first
