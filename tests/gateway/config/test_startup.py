"""Problems of a configuration that show on this machine without any connection."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import pytest

from dragoman.gateway.config.model import Config, Recording, Route
from dragoman.gateway.config.startup import find_hazards
from dragoman.gateway.endpoint import parse


def hazards(listen: str = "pod+unix:/l", upstream: str = "pod+unix:/u", record: str = "") -> list[str]:
    route = Route(name="a", listen=(parse(listen),), upstream=parse(upstream))
    return list(find_hazards(Config(routes=(route,), recording=Recording(path=record) if record else None)))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_a_listener_on_loopback_is_no_hazard(host: str) -> None:
    assert hazards(listen=f"smooth+ws://{host}:0/ws") == []


@pytest.mark.parametrize("listen", ["smooth+ws://0.0.0.0:0/ws", "smooth+ws://[::]:0/ws", "pando+tcp://192.0.2.7:40000"])
def test_a_listener_for_other_machines_is_a_hazard(listen: str) -> None:
    assert hazards(listen=listen) == [f"{listen} accepts clients from other machines without authentication"]


@pytest.mark.parametrize("command", ["sh -c x", sys.executable, "./relative --stdio", "'sh' -c x"])
def test_a_program_that_can_be_found_is_no_hazard(command: str) -> None:
    assert hazards(upstream=f"codewhale+stdio:{command}") == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-program", "no such program in PATH; install it, or write its full path"),
        ("'no such program' -x", "no such program in PATH; install it, or write its full path"),
        ("/no/such/program", "no such program; check its path"),
        (__file__, "not executable; use chmod +x"),
    ],
)
def test_a_program_that_cannot_be_found_is_a_hazard(command: str, why: str) -> None:
    (line,) = hazards(upstream=f"codewhale+stdio:{command}")
    assert line.endswith(f": {why}")


def test_a_program_is_searched_in_the_path_of_its_child(tmp_path: Path) -> None:
    (tmp_path / "agent").touch(mode=0o755)
    for path, found in ((str(tmp_path), True), ("/nowhere", False)):
        route = Route(name="a", listen=(), upstream=parse("codewhale+stdio:agent"), env=(f"PATH={path}",))
        assert (list(find_hazards(Config(routes=(route,)))) == []) is found


@pytest.mark.parametrize(
    ("upstreams", "share", "mode", "warned"),
    [
        (("pod+unix:/u", "pod+unix:/x/../u"), "owner", "busy", True),
        (("pod+dir:/u", "pod+dir:/u"), "owner", "busy", True),
        (("pod+unix:/u", "pod+unix:/other"), "owner", "busy", False),
        (("pod+unix:/u", "pod+unix:/u"), "all", "busy", False),
        (("pod+unix:/u", "pod+unix:/u"), "owner", "attach", False),
        (("smooth+ws://127.0.0.1:1/ws", "smooth+ws://127.0.0.1:1/ws"), "owner", "busy", False),
    ],
    ids=["two spellings", "a directory", "two pods", "shared by all", "open to all", "sessions with ids of their own"],
)
def test_two_routes_to_one_pod_are_a_hazard_if_its_session_has_an_owner(
    upstreams: tuple[str, str], share: Literal["all", "owner"], mode: Literal["busy", "attach"], warned: bool
) -> None:
    routes = [
        Route(name=name, listen=(), upstream=parse(upstream), share=share, open=mode)
        for name, upstream in zip("ab", upstreams, strict=True)
    ]
    lines = list(find_hazards(Config(routes=tuple(routes))))
    assert [line.partition(",")[0] for line in lines] == ["routes 'a' and 'b' lead to one pod"] * warned


@pytest.mark.parametrize("name", ["", "new/", "new/deeper/", "one.jsonl", "new/one.jsonl"])
def test_a_writable_folder_for_recordings_is_accepted_and_not_changed(tmp_path: Path, name: str) -> None:
    assert hazards(record=f"{tmp_path}/{name}") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/proc/nowhere/", "/proc/one.jsonl"])
def test_an_unwritable_folder_for_recordings_is_a_hazard(path: str) -> None:
    (line,) = hazards(record=path)
    assert line.startswith(f"recordings cannot be written to {path}: ")
