"""References to variables and files in the strings of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.config.references import FileSecrets, Interpolation

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


def test_a_nul_character_is_an_error_at_its_key_and_reaches_nothing_behind(interpolation: Interpolation) -> None:
    assert interpolation.expand({"a": "~\0/r"}) == {"a": "~/r"}
    assert interpolation.faults == [(("a",), "a value must not contain a NUL character")]


def test_values_of_other_types_and_keys_stay_as_they_are(interpolation: Interpolation) -> None:
    table = {"${PORT}": 1, "b": [True, 2.5, {"c": None}]}
    assert interpolation.expand(table) == table


def test_a_file_in_the_folder_of_a_user_is_read(
    interpolation: Interpolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert interpolation.expand("${file:~/secret}") == "s3cret"


def test_a_value_from_a_file_counts_as_secret(interpolation: Interpolation) -> None:
    interpolation.expand({"a": "${file:secret}", "b": "${PORT}"})
    assert interpolation.secrets == {("a",)}


def of_tokens(secret: Any) -> dict[str, Any]:
    return {"auth": {"tokens": {"alice": secret}, "jwt": {"secret": "", "audience": "a"}}}


def of_jwt(secret: Any) -> dict[str, Any]:
    return {"auth": {"jwt": {"secret": secret}}}


def of_ops(secret: Any) -> dict[str, Any]:
    return {"ops": {"listen": "env:NOT_A_SECRET", "tokens": [secret]}}


def of_salt(secret: Any) -> dict[str, Any]:
    return {"recording": {"path": "file:r", "redact": {"salt": secret}}, "route": [{"name": "env:NOT_A_SECRET"}]}


PLACES = [
    (of_tokens, ("auth", "tokens", "alice")),
    (of_jwt, ("auth", "jwt", "secret")),
    (of_ops, ("ops", "tokens", 0)),
    (of_salt, ("recording", "redact", "salt")),
]


@pytest.mark.parametrize(("place", "key"), PLACES)
def test_a_secret_is_read_from_a_variable_or_a_file_beside_the_configuration(
    place: Callable[[Any], dict[str, Any]], key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_TEST_SECRET", "from a variable")
    (tmp_path / "secret").write_text("from a file\n")
    secrets = FileSecrets(tmp_path)
    assert secrets.read(place("env:DRAGOMAN_TEST_SECRET")) == place("from a variable")
    assert secrets.read(place("file:secret")) == place("from a file")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert FileSecrets(Path("/")).read(place("file:~/secret")) == place("from a file")
    assert (secrets.faults, secrets.literal) == ([], [])
    assert secrets.read(place("itself")) == place("itself")
    assert secrets.literal == [key]


@pytest.mark.parametrize(("place", "key"), PLACES)
def test_a_secret_that_cannot_be_read_is_an_error_with_its_key(
    place: Callable[[Any], dict[str, Any]], key: Any, tmp_path: Path
) -> None:
    secrets = FileSecrets(tmp_path)
    secrets.read(place("env:DRAGOMAN_TEST_NOT_SET"))
    assert secrets.faults == [(key, "the environment variable DRAGOMAN_TEST_NOT_SET is not set")]


@pytest.mark.parametrize("table", [{}, {"auth": 3}, {"ops": {"tokens": 5}}, of_salt(["x", 7]), of_tokens(None)])
def test_a_table_of_another_shape_stays_as_it_is(table: dict[str, Any], tmp_path: Path) -> None:
    assert FileSecrets(tmp_path).read(table) == table
