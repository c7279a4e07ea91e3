"""The system calls of an open, a look-up and a list in a directory of 5,000 pods."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from dragoman.gateway import registry
from dragoman.gateway.backends.asking import Refused
from dragoman.gateway.backends.pods import PodsKind
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.link import Link
from dragoman.gateway.pods import live
from dragoman.gateway.pods.live import Pods
from dragoman.gateway.routing.ids import session_id
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import OpenSession
from tests.gateway.in_memory import ManualClock
from tests.services import services

MANY = 5000
LINK = cast("Link", SimpleNamespace(principal="ann", id="a"))


class Directory:
    """A directory of pods that counts `connect`, `stat` and `listdir`, and each `start` of a backend."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.calls, self.dead = folder, Counter[str](), set[str]()
        self.many = MANY
        self.written: dict[str, int] = {}  # times of the status.json of those pods that have one
        counted = SimpleNamespace(stat=self._stat, listdir=self._listdir)
        monkeypatch.setattr(live, "os", counted)
        upstream = parse(f"pod+dir:{folder}")
        self.time = ManualClock()
        self.sessions = Sessions(
            Route(name="test", listen=(), upstream=upstream),
            services(self.time),
            registry.upstream(upstream),
            lambda _link: None,
            None,
        )
        pods = Pods(upstream, self._is_alive, clock=lambda: 1 << 62)
        self.kind = PodsKind(self.sessions, lambda _session, _endpoint: self, pods)

    def _stat(self, path: Path) -> Any:
        self.calls["stat"] += 1
        written = self.written.get(path.parent.name)
        return os.stat(path) if written is None else SimpleNamespace(st_mtime_ns=written)

    def _listdir(self, path: Path) -> list[str]:
        self.calls["listdir"] += 1
        return [*(f"{number:04}" for number in range(self.many)), *os.listdir(path)]

    def _is_alive(self, path: str) -> bool:
        self.calls["connect"] += 1
        return Path(path).parent.name not in self.dead

    # -- as the backend of each session ----------------------------------------------------------------

    def start(self) -> None:
        self.calls["start"] += 1

    def send(self, commands: Sequence[Command]) -> None:
        raise AssertionError(f"{commands} were sent")

    def rest(self) -> None:
        pass

    def stop(self) -> None:
        pass

    # -- the test --------------------------------------------------------------------------------------

    def open(self, **fields: Any) -> str:
        """A client opens a session; return the name of the pod that it gets."""
        session = self.kind.open_session(LINK, OpenSession(**fields))
        assert session is not None
        self.sessions.claim(LINK, session)
        return session.state.title

    def list(self) -> None:
        self.kind.list_sessions(LINK, False, lambda _rows: None)
        self.time.passes(10)

    def id(self, name: str) -> str:
        return session_id("test", f"pod+unix:{self.folder}/{name}/sock")

    def session(self, name: str) -> Session:
        found = self.sessions.index.find_session(self.id(name))
        assert found is not None
        return found


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    return Directory(tmp_path, monkeypatch)


def test_each_open_connects_to_the_pod_that_it_gets_and_stats_the_directory(directory: Directory) -> None:
    assert [directory.open() for _ in range(100)] == [f"{number:04}" for number in range(100)]
    assert directory.calls == {"connect": 100, "stat": 100, "listdir": 1}


def test_a_named_pod_is_the_only_one_that_is_asked(directory: Directory) -> None:
    assert directory.open(agent="4321") == "4321"
    assert directory.open(agent=session_id("test", "4322")) == "4322"
    assert directory.kind.find_session(directory.id("4999")) is not None
    assert directory.calls == {"connect": 3, "stat": 3, "listdir": 1}


def test_an_unknown_name_connects_to_nothing(directory: Directory) -> None:
    for number in range(100):
        assert directory.kind.find_session(f"unknown {number}") is None
    assert directory.calls == {"stat": 100, "listdir": 1}


def test_dead_pods_are_asked_once_and_not_with_each_open(directory: Directory) -> None:
    directory.dead = {f"{number:04}" for number in range(MANY - 10)}
    assert directory.open() == f"{MANY - 10:04}"
    assert directory.calls["connect"] == MANY - 9
    for _ in range(9):
        directory.open()
    assert directory.calls["connect"] == MANY


def test_a_pod_that_was_dead_is_found_once_no_other_is_free(directory: Directory) -> None:
    directory.dead = {f"{number:04}" for number in range(1, MANY)}
    assert directory.open() == "0000"
    with pytest.raises(Refused):
        directory.open()
    directory.dead.discard("0777")
    directory.time.passes(2)
    assert directory.open() == "0777"


def test_a_pod_whose_owner_left_is_the_first_again(directory: Directory) -> None:
    for _ in range(3):
        directory.open()
    session = directory.session("0001")
    session.state.owner = ""
    directory.sessions.tell(session)
    assert directory.open() == "0001"


def test_a_pod_that_comes_last_is_found_by_its_name(directory: Directory, tmp_path: Path) -> None:
    directory.open()
    (tmp_path / "zeus").mkdir()
    assert directory.open(agent="zeus") == "zeus"
    assert directory.calls["listdir"] == 2


def test_a_second_list_connects_only_to_pods_whose_status_has_changed(directory: Directory) -> None:
    directory.many = 500
    directory.written = {f"{number:04}": 5 for number in range(500)}
    directory.list()
    assert directory.calls["start"] == 500
    directory.written["0042"] = 6
    directory.calls.clear()
    directory.list()
    assert directory.calls == {"connect": 1, "start": 1, "stat": 501}


@pytest.mark.parametrize(("dead", "why"), [(0, "no pod is free"), (MANY, "no pod is running")])
def test_a_refused_client_is_told_whether_any_pod_runs(directory: Directory, dead: int, why: str) -> None:
    directory.dead = {f"{number:04}" for number in range(dead)}
    with pytest.raises(Refused, match=why):
        directory.open(metadata=msgspec.Raw(b'{"pod":"nobody"}'))
