"""The folders in which pods are looked for, and the names of pods (docs/dialects/pod.md, section 2)."""

from __future__ import annotations

import pytest

from dragoman.gateway.pods.folder import check_name, runtime_directory, sessions_directory
from dragoman.mappings.errors import ConfigError

ORDER = [
    ("INSOMNIA_RUNTIME_DIR", "/v"),
    ("INSOMNIA_HOME", "/v/run"),
    ("YOI_RUNTIME_DIR", "/v"),
    ("YOI_HOME", "/v/run"),
    ("XDG_RUNTIME_DIR", "/v/insomnia"),
    ("HOME", "/v/.insomnia/run"),
]


@pytest.mark.parametrize(("first", "directory"), ORDER)
def test_the_first_variable_that_is_set_and_not_empty_decides(first: str, directory: str) -> None:
    at = [name for name, _ in ORDER].index(first)
    environment = {name: "" for name, _ in ORDER[:at]} | {first: "/v"} | {name: "/w" for name, _ in ORDER[at + 1 :]}
    assert str(runtime_directory(environment)) == directory


def test_the_error_without_any_variable_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match="set INSOMNIA_RUNTIME_DIR"):
        runtime_directory({})


SESSIONS = [
    ("INSOMNIA_DATA_DIR", "/v/sessions"),
    ("INSOMNIA_HOME", "/v/sessions"),
    ("YOI_DATA_DIR", "/v/sessions"),
    ("YOI_HOME", "/v/sessions"),
    ("HOME", "/v/.insomnia/sessions"),
]


@pytest.mark.parametrize(("first", "directory"), SESSIONS)
def test_sessions_are_kept_in_the_first_data_directory_that_is_set(first: str, directory: str) -> None:
    at = [name for name, _ in SESSIONS].index(first)
    environment = {name: "" for name, _ in SESSIONS[:at]} | {first: "/v"} | {n: "/w" for n, _ in SESSIONS[at + 1 :]}
    assert str(sessions_directory(environment)) == directory


def test_the_error_without_a_data_directory_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match="set INSOMNIA_DATA_DIR"):
        sessions_directory({})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "x" * 256])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="invalid pod name"):
        check_name(name)


@pytest.mark.parametrize("name", ["atlas", "a b", "木", "..."])
def test_any_other_name_is_accepted(name: str) -> None:
    assert check_name(name) == name
