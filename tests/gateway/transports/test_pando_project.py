"""Lock, registry and ports of a pando project, also against other processes and damaged files."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.transports.pando_project import Project, derive_ports, find_ports
from dragoman.mappings.errors import ConfigError

ID = "3f0c9a52-6a1e-4c55-9d0b-8a4f0e7d1c11"
AT = 1_778_362_100_123_456_780  # 2026-05-09T21:28:20.12345678Z
NOBODY = 4_194_304  # above pid_max: no process has it

HOLDER = """
import fcntl, os, sys, time
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def instances(tmp_path: Path) -> Path:
    return tmp_path / "instances"


@contextmanager
def claimed(folder: Path) -> Iterator[Project]:
    project = Project.claim(str(folder), ID, AT)
    try:
        yield project
    finally:
        project.release()


@contextmanager
def other_process(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds the lock as a pando does."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


def lock_of(folder: Path) -> Path:
    return folder / ".pando" / "ipc.lock"


def record(**changed: object) -> dict[str, Any]:
    return {"instance_id": "x", "pid": os.getpid(), "pub_port": 41000, "rpc_port": 42000, "started_at": "", **changed}


def entry(folder: Path, **changed: object) -> dict[str, Any]:
    return record(path=str(folder), mode="tui", is_primary=True) | changed


def put(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("/", 48254),
        ("/tmp/workspace", 47481),
        ("/home/user/projects/my-project", 58615),
        ("/home/josé/proj", 47352),
        ("/home/user/proj/", 43438),
    ],
)
def test_the_ports_of_a_path_are_those_of_a_real_pando(path: str, first: int) -> None:
    assert derive_ports(path) == (first, first + 1)


def test_the_lock_file_describes_us_in_the_form_of_a_pando(folder: Path) -> None:
    with claimed(folder) as project:
        first, second = derive_ports(str(folder))
        assert (project.publish_port, project.call_port) == (first, second)
        assert lock_of(folder).read_text() == (
            "{\n"
            f'  "instance_id": "{ID}",\n'
            f'  "pid": {os.getpid()},\n'
            f'  "pub_port": {first},\n'
            f'  "rpc_port": {second},\n'
            '  "started_at": "2026-05-09T21:28:20.12345678Z"\n'
            "}\n"
        )
        assert lock_of(folder).stat().st_mode & 0o777 == 0o600
        assert lock_of(folder).parent.stat().st_mode & 0o777 == 0o700


def test_a_whole_second_has_no_fraction(folder: Path) -> None:
    project = Project.claim(str(folder), ID, 1_778_362_100_000_000_000)
    assert json.loads(lock_of(folder).read_text())["started_at"] == "2026-05-09T21:28:20Z"
    project.release()


def test_the_registry_entry_names_our_process_and_repeats_the_lock(folder: Path, instances: Path) -> None:
    with claimed(folder) as project:
        project.register(instances)
        path = instances / f"{ID}.json"
        said = json.loads(path.read_text())
        assert list(said) == [
            "instance_id",
            "path",
            "pid",
            "pub_port",
            "rpc_port",
            "started_at",
            "mode",
            "is_primary",
        ]
        lock = json.loads(lock_of(folder).read_text())
        for key in ("instance_id", "pid", "pub_port", "rpc_port"):
            assert said[key] == lock[key]
        assert (said["path"], said["is_primary"]) == (str(folder), True)
        assert path.stat().st_mode & 0o777 == 0o644
        assert os.listdir(instances) == [path.name]


def test_release_removes_lock_and_entry_and_may_be_called_again(folder: Path, instances: Path) -> None:
    project = Project.claim(str(folder), ID, AT)
    project.register(instances)
    for _ in range(2):
        project.release()
        assert not lock_of(folder).exists()
        assert os.listdir(instances) == []


def test_a_second_primary_is_refused_with_the_owner_of_the_lock(folder: Path) -> None:
    with claimed(folder):
        with pytest.raises(OSError, match=f"process {os.getpid()} is the primary") as refusal:
            Project.claim(str(folder), "another", AT)
        assert refusal.value.errno == errno.EADDRINUSE
        assert json.loads(lock_of(folder).read_text())["instance_id"] == ID


def test_a_lock_held_by_another_process_is_respected_whatever_its_content(folder: Path) -> None:
    lock_of(folder).parent.mkdir()
    lock_of(folder).write_text('{"instance_id": "half')
    with other_process(lock_of(folder)):
        with pytest.raises(OSError, match="another process is the primary"):
            Project.claim(str(folder), ID, AT)
        assert lock_of(folder).read_text() == '{"instance_id": "half'


def test_the_lock_of_a_killed_process_is_taken_over(folder: Path) -> None:
    put(lock_of(folder), record(pid=NOBODY) | {"more": "x" * 1000})
    with other_process(lock_of(folder)) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with claimed(folder):
        assert json.loads(lock_of(folder).read_text())["instance_id"] == ID


def test_another_process_takes_the_lock_once_we_have_released_it(folder: Path) -> None:
    with claimed(folder):
        pass
    lock_of(folder).touch()
    with other_process(lock_of(folder)) as process:
        assert process.poll() is None


def test_a_lock_deleted_while_we_take_it_is_created_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that releases the lock deletes the file that we have just opened."""
    flock = fcntl.flock
    deleted: list[int] = []

    def late(descriptor: int, operation: int) -> None:
        if not deleted:
            deleted.append(lock_of(folder).stat().st_ino)
            lock_of(folder).unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with claimed(folder):
        assert deleted
        assert json.loads(lock_of(folder).read_text())["instance_id"] == ID


def test_taking_a_lock_that_is_always_deleted_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda _descriptor, _operation: lock_of(folder).unlink())
    with pytest.raises(OSError, match="keep deleting") as refusal:
        Project.claim(str(folder), ID, AT)
    assert refusal.value.errno == errno.EBUSY


def test_the_file_of_a_successor_is_not_deleted(folder: Path) -> None:
    project = Project.claim(str(folder), ID, AT)
    lock_of(folder).unlink()
    lock_of(folder).write_text("somebody else's")
    project.release()
    assert lock_of(folder).read_text() == "somebody else's"


def test_release_works_if_all_files_were_deleted(folder: Path, instances: Path) -> None:
    project = Project.claim(str(folder), ID, AT)
    project.register(instances)
    shutil.rmtree(folder)
    shutil.rmtree(instances)
    project.release()
    assert not folder.exists()


def test_no_file_descriptor_stays_open(folder: Path) -> None:
    project = Project.claim(str(folder), ID, AT)
    held = project._descriptor
    with pytest.raises(OSError, match="primary"):
        Project.claim(str(folder), "another", AT)
    project.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(held)


def test_a_lock_that_cannot_be_written_is_released(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int, _data: bytes, _offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", fail)
        with pytest.raises(OSError, match="No space left"):
            Project.claim(str(folder), ID, AT)
    assert os.listdir("/proc/self/fd") == before
    with claimed(folder):
        assert json.loads(lock_of(folder).read_text())["instance_id"] == ID


def test_the_lock_is_not_inherited_by_children(folder: Path) -> None:
    with claimed(folder) as project:
        assert not os.get_inheritable(project._descriptor)


def test_a_symbolic_link_in_place_of_the_lock_is_refused_and_its_target_not_changed(
    folder: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("do not touch")
    lock_of(folder).parent.mkdir()
    lock_of(folder).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic"):
        Project.claim(str(folder), ID, AT)
    assert precious.read_text() == "do not touch"


def test_a_missing_directory_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        Project.claim(str(tmp_path / "nowhere"), ID, AT)


def test_a_registry_that_cannot_be_written_is_reported(folder: Path, instances: Path) -> None:
    instances.write_text("no directory")
    with claimed(folder) as project, pytest.raises(OSError, match="instances"):
        project.register(instances)


def test_a_symbolic_link_in_place_of_our_entry_is_not_followed(folder: Path, instances: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("do not touch")
    instances.mkdir()
    for name in (f"{ID}.json", f".{ID}.json.tmp"):
        (instances / name).symlink_to(precious)
    with claimed(folder) as project:
        project.register(instances)
        assert json.loads((instances / f"{ID}.json").read_text())["instance_id"] == ID
    assert precious.read_text() == "do not touch"


def test_the_lock_of_a_primary_is_read_before_its_entry(folder: Path, instances: Path) -> None:
    put(lock_of(folder), record())
    assert find_ports(str(folder), instances) == [(41000, 42000), derive_ports(str(folder))]


def test_a_search_for_a_primary_finds_our_gateway(folder: Path, instances: Path) -> None:
    with claimed(folder) as project:
        project.register(instances)
        assert find_ports(str(folder), instances) == [(project.publish_port, project.call_port)]


@pytest.mark.parametrize("text", ["", '{"instance_id": "x", "pid"', "[]", "\xff", '{"pid": "many"}'])
def test_with_an_unreadable_lock_the_ports_of_the_path_are_used(folder: Path, instances: Path, text: str) -> None:
    lock_of(folder).parent.mkdir()
    lock_of(folder).write_text(text, encoding="latin-1")
    assert find_ports(str(folder), instances) == [derive_ports(str(folder))]


def test_a_folder_in_the_place_of_a_record_is_closed_again(folder: Path, instances: Path) -> None:
    lock_of(folder).mkdir(parents=True)
    (instances / "a.json").mkdir(parents=True)
    before = len(os.listdir("/dev/fd"))
    assert find_ports(str(folder), instances) == [derive_ports(str(folder))]
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("pid", [NOBODY, 0, -1, 1 << 70])
def test_with_the_lock_of_a_gone_process_the_ports_of_the_path_are_used(
    folder: Path, instances: Path, pid: int
) -> None:
    put(lock_of(folder), record(pid=pid))
    assert find_ports(str(folder), instances) == [derive_ports(str(folder))]


def test_without_a_lock_an_instance_is_found_in_the_registry_primaries_first(folder: Path, instances: Path) -> None:
    put(instances / "a.json", entry(folder, pub_port=50001, rpc_port=51001, is_primary=False))
    put(instances / "b.json", entry(folder, pub_port=50002, rpc_port=51002))
    put(instances / "c.json", entry(folder, pub_port=50002, rpc_port=51002, is_primary=False))
    put(instances / "d.json", entry(folder, pub_port=50003, path="/elsewhere"))
    put(instances / "e.json", entry(folder, pub_port=50004, pid=NOBODY))
    (instances / "f.json").write_text("{")
    assert find_ports(str(folder), instances) == [(50002, 51002), (50001, 51001), derive_ports(str(folder))]
    assert (instances / "e.json").exists()  # to tidy up is the business of those whose registry it is


def test_a_path_of_invalid_utf_8_is_written_like_go_writes_it(tmp_path: Path, instances: Path) -> None:
    folder = tmp_path / os.fsdecode(b"proj\xff")
    folder.mkdir()
    with claimed(folder) as project:
        project.register(instances)
        said = json.loads((instances / f"{ID}.json").read_text())
        assert said["path"] == f"{tmp_path}/proj\ufffd"
        assert find_ports(str(folder), instances) == [derive_ports(str(folder))]
