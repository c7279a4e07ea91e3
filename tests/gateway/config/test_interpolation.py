"""References to variables and files in the strings of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.config.interpolation import Interpolation

ENVIRONMENT = {"PORT": "8787", "EMPTY": "", "TRICKY": '"]\nname = "${PORT}"'}


@pytest.fixture
def interpolation(tmp_path: Path) -> Interpolation:
    (tmp_path / "secret").write_text("s3cret\n", "utf-8")
    (tmp_path / "empty").write_text("\n", "utf-8")
    (tmp_path / "latin").write_bytes(b"\xe9")
    return Interpolation(tmp_path, ENVIRONMENT)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no reference", "no reference"),
        ("${PORT}", "8787"),
        ("//h:${PORT}/${PORT}", "//h:8787/8787"),
        ("${NONE:-1}", "1"),
        ("${EMPTY:-1}", "1"),
        ("${NONE:-}", ""),
        ("${PORT:-1}", "8787"),
        ("${file:secret}", "s3cret"),
        ("$${PORT}", "${PORT}"),
        ("$$$$", "$$"),
        ("$.a.b and ^x$", "$.a.b and ^x$"),
        ("${TRICKY}", '"]\nname = "${PORT}"'),
    ],
)
def test_a_reference_is_replaced_once(interpolation: Interpolation, text: str, value: str) -> None:
    assert interpolation.expand(text) == value
    assert interpolation.faults == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NONE}", "the environment variable NONE is not set"),
        ("${EMPTY}", "the environment variable EMPTY is empty"),
        ("${file:missing}", "missing cannot be read: No such file or directory"),
        ("${file:empty}", "empty is empty"),
        ("${file:latin}", "latin is not UTF-8"),
        ("${file:.}", "cannot be read: Is a directory"),
        ("${}", "is not followed by a valid reference"),
        ("${PORT", "is not followed by a valid reference"),
        ("${1A}", "is not followed by a valid reference"),
        ("${file:}", "is not followed by a valid reference"),
    ],
)
def test_a_reference_without_a_value_is_an_error_at_its_key(
    interpolation: Interpolation, text: str, words: str
) -> None:
    assert interpolation.expand({"a": ["x", text]}) == {"a": ["x", text]}
    ((path, said),) = interpolation.faults
    assert path == ("a", 1)
    assert words in said


def test_values_of_other_types_and_keys_stay_as_they_are(interpolation: Interpolation) -> None:
    table = {"${PORT}": 1, "b": [True, 2.5, {"c": None}]}
    assert interpolation.expand(table) == table


def test_a_value_from_a_file_counts_as_secret(interpolation: Interpolation) -> None:
    interpolation.expand({"a": "${file:secret}", "b": "${PORT}"})
    assert interpolation.secrets == {("a",)}


def test_an_error_shows_the_reference_in_place_of_its_value(interpolation: Interpolation) -> None:
    interpolation.expand(["${file:secret}", "${PORT}"])
    assert interpolation.hide_values("s3cret at 8787") == "${file:secret} at ${PORT}"
