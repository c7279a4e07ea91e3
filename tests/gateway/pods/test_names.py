"""The folders in which pods are looked for, and the names of pods (docs/dialects/pod.md, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dragoman.gateway.pods.folder import check_name, runtime_directory, sessions_directory
from dragoman.mappings.errors import ConfigError

RUNTIME = [
    ("INSOMNIA_RUNTIME_DIR", "/v"),
    ("INSOMNIA_HOME", "/v/run"),
    ("YOI_RUNTIME_DIR", "/v"),
    ("YOI_HOME", "/v/run"),
    ("XDG_RUNTIME_DIR", "/v/insomnia"),
    ("HOME", "/v/.insomnia/run"),
]


SESSIONS = [
    ("INSOMNIA_DATA_DIR", "/v/sessions"),
    ("INSOMNIA_HOME", "/v/sessions"),
    ("YOI_DATA_DIR", "/v/sessions"),
    ("YOI_HOME", "/v/sessions"),
    ("HOME", "/v/.insomnia/sessions"),
]


@pytest.mark.parametrize(
    ("find", "order", "at"),
    [
        *((runtime_directory, RUNTIME, at) for at in range(len(RUNTIME))),
        *((sessions_directory, SESSIONS, at) for at in range(len(SESSIONS))),
    ],
)
def test_the_first_variable_that_is_set_and_not_empty_decides(
    find: Callable[[Mapping[str, str]], Path], order: list[tuple[str, str]], at: int
) -> None:
    names = [name for name, _ in order]
    environment = dict.fromkeys(names[:at], "") | {names[at]: "/v"} | dict.fromkeys(names[at + 1 :], "/w")
    assert str(find(environment)) == order[at][1]


@pytest.mark.parametrize(
    ("find", "variable"), [(runtime_directory, "INSOMNIA_RUNTIME_DIR"), (sessions_directory, "INSOMNIA_DATA_DIR")]
)
def test_the_error_without_any_variable_says_what_to_set(
    find: Callable[[Mapping[str, str]], Path], variable: str
) -> None:
    with pytest.raises(ConfigError, match=f"set {variable}"):
        find({})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "x" * 256])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="invalid pod name"):
        check_name(name)


@pytest.mark.parametrize("name", ["atlas", "a b", "木", "..."])
def test_any_other_name_is_accepted(name: str) -> None:
    assert check_name(name) == name
