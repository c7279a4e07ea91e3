"""The relative paths of a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.config.references import resolve_paths


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("pod+unix:s", "pod+unix:/etc/s"),
        ("pod+unix:../s?session=latest", "pod+unix:/etc/../s?session=latest"),
        ("pando+dir:p", "pando+dir:/etc/p"),
        ("replay+file:r.jsonl?speed=instant", "replay+file:/etc/r.jsonl?speed=instant"),
        ("smooth+wss://h/ws?token=file:t", "smooth+wss://h/ws?token=file:/etc/t"),
        ("smooth+wss://h/ws?cert=c&key=/k&client_ca=a", "smooth+wss://h/ws?cert=/etc/c&key=/k&client_ca=/etc/a"),
        ("smooth+wss://h/ws?ca=a", "smooth+wss://h/ws?ca=/etc/a"),
        ("pod+unix:/run/s", "pod+unix:/run/s"),
        ("pod+name:n", "pod+name:n"),
        ("codewhale+stdio:bin/x a -- ?model=m", "codewhale+stdio:bin/x a -- ?model=m"),
        ("codewhale+stdio:x -- ?cwd=src", "codewhale+stdio:x -- ?cwd=/etc/src"),
        ("smooth+wss://h/ws?token=env:t", "smooth+wss://h/ws?token=env:t"),
        ("pod+unix:~/s", "pod+unix:/home/ann/s"),
        ("no endpoint", "no endpoint"),
    ],
)
def test_a_relative_path_in_an_endpoint_starts_at_the_configurations_folder(
    text: str, resolved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert resolve_paths({"route": [{"upstream": text}]}, Path("/etc")) == {"route": [{"upstream": resolved}]}


@pytest.mark.parametrize(
    ("text", "resolved"),
    [("unix:o", "unix:/etc/o"), ("unix:/run/o", "unix:/run/o"), ("unix:", "unix:"), ("http://h:1", "http://h:1")],
)
def test_a_relative_socket_of_the_ops_port_starts_at_the_configurations_folder(text: str, resolved: str) -> None:
    assert resolve_paths({"ops": {"listen": text}}, Path("/etc")) == {"ops": {"listen": resolved}}


@pytest.mark.parametrize(
    "table",
    [
        {"route": 3},
        {"route": [4]},
        {"route": [{"listen": [5]}]},
        {"route": [{"listen": "pod+unix:s", "file_roots": "f"}]},
        {"recording": "r"},
        {"recording": {"path": ["r"]}},
    ],
)
def test_a_value_of_another_type_stays_as_it_is(table: dict[str, Any]) -> None:
    assert resolve_paths(table, Path("/etc")) == table


@pytest.mark.parametrize(
    ("text", "resolved"),
    [("r/", "/etc/r/"), ("~/r/", "/home/ann/r/"), ("~", "/home/ann"), ("~nobody-at-all/r", "/etc/~nobody-at-all/r")],
)
def test_the_folder_of_a_user_is_written_as_in_a_shell(
    text: str, resolved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    table = {"recording": {"path": text}, "route": [{"file_roots": [text]}]}
    wanted = {"recording": {"path": resolved}, "route": [{"file_roots": [resolved]}]}
    assert resolve_paths(table, Path("/etc")) == wanted
