"""The pods of a directory: folders with a socket that accepts connections, and the content of their status.json."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.gateway.endpoint import parse
from dragoman.gateway.pods.live import Pod, Pods

LIVE = {"atlas", "hermes"}


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    for name in ("hermes", "atlas", "dead"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sock").touch()
    (tmp_path / "pods.json").touch()
    return Pods(parse(f"pod@seed+dir:{tmp_path}"), lambda path: Path(path).parent.name in LIVE and Path(path).exists())


def probed(pods: Pods, name: str) -> Pod:
    (pod,) = pods.probe([name])
    return pod


def test_every_folder_with_a_live_socket_is_a_pod_of_that_name(pods: Pods, tmp_path: Path) -> None:
    assert [name for name in pods.list_names() if probed(pods, name).listens] == ["atlas", "hermes"]
    assert str(pods.endpoint("atlas")) == f"pod@seed+unix:{tmp_path}/atlas/sock"


def test_a_folder_whose_name_is_not_utf_8_is_no_pod(pods: Pods, tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/b\xff")
    (tmp_path / "é").mkdir()
    assert pods.list_names() == ("atlas", "dead", "hermes", "pods.json", "é")


@pytest.mark.parametrize("name", ["dead", "nobody", "", "..", "pods.json"])
def test_other_folders_and_files_do_not_listen(pods: Pods, name: str) -> None:
    assert not probed(pods, name).listens


def test_the_status_of_a_pod_is_read_from_its_file(pods: Pods, tmp_path: Path) -> None:
    path = tmp_path / "atlas" / "status.json"
    path.write_text('{"pod_name":"atlas","segment_id":"x","state":"paused"}')
    os.utime(path, ns=(5, 7))
    pod = probed(pods, "atlas")
    assert (pod.status, pod.updated_at, pod.silent) == ("paused", 7, False)


def test_a_pod_whose_file_names_no_segment_has_no_conversation(pods: Pods, tmp_path: Path) -> None:
    (tmp_path / "atlas" / "status.json").write_text('{"pod_name":"atlas","segment_id":null,"state":"idle"}')
    assert probed(pods, "atlas").silent


@pytest.mark.parametrize("text", [None, "", "{", '{"state":"dancing"}', "[]"])
def test_a_pod_without_a_readable_status_counts_as_idle(pods: Pods, tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "atlas" / "status.json").write_text(text)
        os.utime(tmp_path / "atlas" / "status.json", ns=(5, 9))
    os.utime(tmp_path / "atlas" / "sock", ns=(5, 9))
    pod = probed(pods, "atlas")
    assert (pod.status, pod.updated_at, pod.silent) == ("idle", 9, False)


def test_a_status_that_is_a_named_pipe_blocks_nobody(pods: Pods, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "atlas" / "status.json")
    assert probed(pods, "atlas").status == "idle"


def test_pods_are_asked_until_as_many_are_found_as_are_wanted(pods: Pods, tmp_path: Path) -> None:
    (tmp_path / "atlas" / "status.json").write_text('{"state":"running"}')
    names = ["dead", "atlas", "hermes", "nobody"]
    assert [pod.name for pod in pods.probe(names, idle=True)] == ["dead", "atlas", "hermes"]
    assert [pod.name for pod in pods.probe(names)] == ["dead", "atlas"]
    assert [pod.name for pod in pods.probe(names, wanted=2)] == ["dead", "atlas", "hermes"]
    assert [pod.name for pod in pods.probe(names, wanted=2, idle=True)] == names


def test_a_missing_directory_has_no_pods(tmp_path: Path) -> None:
    pods = Pods(parse(f"pod+dir:{tmp_path}/none"), lambda _path: True)
    assert not pods.is_changed()
    assert pods.list_names() == ()


def test_a_directory_that_has_gone_has_changed(tmp_path: Path) -> None:
    (tmp_path / "pods" / "atlas").mkdir(parents=True)
    pods = Pods(parse(f"pod+dir:{tmp_path}/pods"), lambda _path: True)
    pods.list_names()
    (tmp_path / "pods").rename(tmp_path / "elsewhere")
    assert pods.is_changed()
    assert pods.list_names() == ()


def test_a_directory_is_unchanged_until_its_modification_time_is_another(tmp_path: Path) -> None:
    pods = Pods(parse(f"pod+dir:{tmp_path}"), lambda _path: True, clock=lambda: 1 << 62)
    assert pods.is_changed()
    pods.list_names()
    assert not pods.is_changed()
    (tmp_path / "atlas").mkdir()
    os.utime(tmp_path, ns=(5, 5))
    assert pods.is_changed()
    assert pods.list_names() == ("atlas",)


def test_the_same_names_are_the_same_object(pods: Pods) -> None:
    first = pods.list_names()
    assert pods.list_names() is first


def test_a_pod_that_comes_within_one_tick_of_the_file_system_is_seen(tmp_path: Path) -> None:
    os.utime(tmp_path, ns=(1000, 1000))
    pods = Pods(parse(f"pod+dir:{tmp_path}"), lambda _path: True, clock=lambda: 2000)
    assert pods.list_names() == ()
    assert pods.is_changed()


def test_a_folder_that_changed_just_now_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "atlas").mkdir()
    pods = Pods(parse(f"pod+dir:{tmp_path}"), lambda _path: True)
    assert pods.read_changed([("atlas", 0)]) == [Pod(name="atlas", modified=0)]
