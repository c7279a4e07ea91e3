"""The pods of a directory: folders whose socket somebody listens at, and what their status.json tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.gateway.endpoint import parse
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
    assert [pod.name for pod in pods.live()] == ["atlas", "hermes"]
    assert str(pods.live()[0].endpoint) == f"pod@seed+unix:{tmp_path}/atlas/sock"


@pytest.mark.parametrize("name", ["dead", "nobody", "", "..", "../x/atlas", "pods.json"])
def test_what_is_no_live_pod_has_no_name(pods: Pods, name: str) -> None:
    assert pods.named(name) is None


def test_its_status_is_what_its_file_says(pods: Pods, tmp_path: Path) -> None:
    path = tmp_path / "atlas" / "status.json"
    path.write_text('{"pod_name":"atlas","segment_id":"x","state":"paused"}')
    os.utime(path, ns=(5, 7))
    pod = pods.named("atlas")
    assert pod is not None
    assert (pod.status, pod.updated_at) == ("paused", 7)


@pytest.mark.parametrize("text", [None, "", "{", '{"state":"dancing"}', "[]"])
def test_without_a_readable_status_it_is_taken_for_idle(pods: Pods, tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "atlas" / "status.json").write_text(text)
    os.utime(tmp_path / "atlas" / "sock", ns=(5, 9))
    pod = pods.named("atlas")
    assert pod is not None
    assert (pod.status, pod.updated_at) == ("idle", 9)


def test_a_directory_that_is_not_there_has_no_pods(tmp_path: Path) -> None:
    assert Pods(parse(f"pod+dir:{tmp_path}/none"), lambda _path: True).live() == []
