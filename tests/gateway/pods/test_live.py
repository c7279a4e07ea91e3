"""The pods of a directory: folders whose socket somebody listens at, and what their status.json tells."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.gateway.endpoint import parse
from dragoman.gateway.pods import live
from dragoman.gateway.pods.live import Pods

LIVE = {"atlas", "hermes"}


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    for name in ("hermes", "atlas", "dead"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sock").touch()
    (tmp_path / "pods.json").touch()
    return Pods(parse(f"pod@seed+dir:{tmp_path}"), lambda path: Path(path).parent.name in LIVE and Path(path).exists())


def test_every_folder_with_a_live_socket_is_a_pod_by_its_name(pods: Pods, tmp_path: Path) -> None:
    assert [name for name in pods.names() if pods.find_pod(name) is not None] == ["atlas", "hermes"]
    assert str(pods.endpoint("atlas")) == f"pod@seed+unix:{tmp_path}/atlas/sock"


@pytest.mark.parametrize("name", ["dead", "nobody", "", "..", "../x/atlas", "pods.json"])
def test_what_is_no_live_pod_has_no_name(pods: Pods, name: str) -> None:
    assert pods.find_pod(name) is None


def test_its_status_is_what_its_file_says(pods: Pods, tmp_path: Path) -> None:
    path = tmp_path / "atlas" / "status.json"
    path.write_text('{"pod_name":"atlas","segment_id":"x","state":"paused"}')
    os.utime(path, ns=(5, 7))
    pod = pods.find_pod("atlas")
    assert pod is not None
    assert (pod.status, pod.updated_at) == ("paused", 7)


@pytest.mark.parametrize("text", [None, "", "{", '{"state":"dancing"}', "[]"])
def test_without_a_readable_status_it_is_taken_for_idle(pods: Pods, tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "atlas" / "status.json").write_text(text)
    os.utime(tmp_path / "atlas" / "sock", ns=(5, 9))
    pod = pods.find_pod("atlas")
    assert pod is not None
    assert (pod.status, pod.updated_at) == ("idle", 9)


def test_a_directory_that_is_not_there_has_no_pods(tmp_path: Path) -> None:
    assert Pods(parse(f"pod+dir:{tmp_path}/none"), lambda _path: True).names() == ()


def test_a_directory_is_listed_again_only_after_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Path] = []

    def listdir(path: Path) -> list[str]:
        listed.append(path)
        return os.listdir(path)

    monkeypatch.setattr(live, "os", SimpleNamespace(stat=os.stat, listdir=listdir))
    pods = Pods(parse(f"pod+dir:{tmp_path}"), lambda _path: True, clock=lambda: 1 << 62)
    first = pods.names()
    assert pods.names() is first
    assert len(listed) == 1
    (tmp_path / "atlas").mkdir()
    os.utime(tmp_path, ns=(5, 5))
    assert pods.names() == ("atlas",)
    assert len(listed) == 2


def test_a_pod_that_comes_within_one_tick_of_the_file_system_is_seen(tmp_path: Path) -> None:
    os.utime(tmp_path, ns=(1000, 1000))
    pods = Pods(parse(f"pod+dir:{tmp_path}"), lambda _path: True, clock=lambda: 2000)
    assert pods.names() == ()
    (tmp_path / "atlas").mkdir()
    os.utime(tmp_path, ns=(1000, 1000))
    assert pods.names() == ("atlas",)


def test_the_latest_pod_is_the_live_one_whose_status_changed_last(pods: Pods, tmp_path: Path) -> None:
    for name, at in (("atlas", 2), ("hermes", 1), ("dead", 3)):
        os.utime(tmp_path / name / "sock", ns=(at, at))
    latest = pods.latest()
    assert latest is not None
    assert latest.name == "atlas"
