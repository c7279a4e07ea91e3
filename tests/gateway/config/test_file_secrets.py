"""Secrets in the tables of a configuration file: from a variable, from a file, or written there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.config.file_secrets import FileSecrets


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
