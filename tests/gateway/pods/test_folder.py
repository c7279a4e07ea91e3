"""The folder of a pod and its entry in the table of running pods (docs/dialects/pod.md, section 2)."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dragoman.adapters.base import Listener, Transport
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.pods.folder import (
    LOCKED,
    PodAllocation,
    PodFolder,
    check_name,
    runtime_directory,
    sessions_directory,
)
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.errors import ConfigError
from tests.gateway.listener_callbacks import callbacks


async def listen(path: str) -> Listener:
    return await registry.listen(Endpoint(dialect="pod", transport="unix", address=path), Limits(), callbacks())


def names(folder: PodFolder) -> list[str]:
    return sorted(path.name for path in folder.folder.iterdir())


async def test_a_pod_folder_has_socket_pid_and_status_and_is_removed_at_the_end(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path / "run", "atlas")
    await folder.open(listen)
    assert names(folder) == ["pid", "sock", "status.json"]
    assert (folder.folder / "pid").read_bytes() == str(os.getpid()).encode()
    assert [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "run", folder.folder)] == [0o700, 0o700]
    await folder.close()
    assert not folder.folder.exists()


async def test_a_pod_folder_that_cannot_be_removed_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PodFolder(tmp_path, "atlas")
    await folder.open(listen)

    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patched:
        patched.setattr("os.unlink", refuse)
        await folder.close()
    assert names(folder) == ["pid", "sock", "status.json"]
    with pytest.raises(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder.socket))


async def test_a_folder_whose_socket_was_removed_is_not_reachable_until_it_is_opened_again(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "atlas")
    await folder.open(listen)
    reachable = [folder.is_reachable]
    folder.socket.unlink()
    reachable.append(folder.is_reachable)
    assert reachable == [True, False]
    other = PodFolder(tmp_path, "atlas")
    await other.open(listen)
    await folder.close()
    assert names(other) == ["pid", "sock", "status.json"]
    assert other.is_reachable
    await other.close()
    assert not other.folder.exists()


async def test_a_listed_pod_is_in_the_table_of_running_pods_while_it_listens(tmp_path: Path) -> None:
    def listed() -> list[str]:
        return [entry["pod_name"] for entry in json.loads((tmp_path / "pods.json").read_text())["allocations"]]

    folder, other = (PodFolder(tmp_path, "atlas", listed=True) for _ in range(2))
    await folder.open(listen)
    assert listed() == ["atlas"]
    folder.socket.unlink()
    await other.open(listen)
    await folder.close()
    assert listed() == ["atlas"], "of the other, which has taken over"
    await other.close()
    assert listed() == []


async def test_the_status_file_has_the_status_of_the_session(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "atlas")
    await folder.open(listen)
    folder.write_status(SessionState(id="s1", status="paused"))
    told = json.loads((folder.folder / "status.json").read_text())
    assert told == {"pod_name": "atlas", "segment_id": "s1", "state": "paused"}
    await folder.close()
    folder.write_status(SessionState(id="s1"))
    assert not folder.folder.exists()


async def test_files_of_a_dead_pod_are_replaced_and_other_files_stay(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "atlas")
    await folder.open(listen)
    socket = folder.socket.with_name("kept")
    folder.socket.rename(socket)
    await folder.close()
    socket.rename(folder.socket)  # nobody listens at it now
    (folder.folder / "pid").write_text("1")
    (folder.folder / "notes").write_text("mine")
    again = PodFolder(tmp_path, "atlas")
    await again.open(listen)
    assert (folder.folder / "pid").read_text() == str(os.getpid())
    await again.close()
    assert names(folder) == ["notes"]


async def test_the_folder_of_a_live_pod_is_refused_and_not_changed(tmp_path: Path) -> None:
    probes: list[Transport] = []

    async def listen_to_probes(path: str) -> Listener:
        endpoint = Endpoint(dialect="pod", transport="unix", address=path)
        return await registry.listen(endpoint, Limits(), callbacks(probes.append))

    live = PodFolder(tmp_path, "atlas")
    await live.open(listen_to_probes)
    with pytest.raises(OSError, match="another process listens here"):
        await PodFolder(tmp_path, "atlas").open(listen)
    assert names(live) == ["pid", "sock", "status.json"]
    await live.close()
    for probe in probes:
        await probe.close()


async def test_a_status_that_cannot_be_written_loses_only_its_file(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path, "atlas")
    await folder.open(listen)
    (folder.folder / "status.json").unlink()
    (folder.folder / "status.json").mkdir()
    folder.write_status(SessionState(id="s1"))
    (folder.folder / "status.json").rmdir()
    await folder.close()


# -- where pods are looked for, and their names (docs/dialects/pod.md, section 2) ------------------


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
        PodFolder(Path("/x"), name)


@pytest.mark.parametrize("name", ["atlas", "a b", "木", "..."])
def test_any_other_name_is_accepted(name: str) -> None:
    assert check_name(name) == name


SCOPE = {"target": "/src", "permission": "write", "recursive": True}
PARENT: dict[str, Any] = {
    "pod_name": "boss",
    "pid": 4711,
    "socket": "/run/boss/sock",
    "scope_allow": [SCOPE],
    "scope_deny": [],
    "delegated_from": None,
    "segment_id": "01a21a99-65a1-7600-9f4b-aa35f587f014",
}
RESERVED = PARENT | {"pod_name": "kid", "socket": "/run/kid/sock", "delegated_from": "boss", "segment_id": None}


def entries(base: Path) -> list[Any]:
    table: dict[str, list[Any]] = json.loads((base / "pods.json").read_bytes())
    assert list(table) == ["allocations"]
    return table["allocations"]


def kid(base: Path) -> PodAllocation:
    return PodAllocation(base, "kid", base / "kid" / "sock")


async def test_a_child_puts_its_process_id_in_the_entry_that_its_parent_made(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(json.dumps({"allocations": [PARENT, RESERVED]}))
    await kid(tmp_path).take()
    assert entries(tmp_path) == [PARENT, RESERVED | {"pid": os.getpid()}]
    await kid(tmp_path).release()
    assert entries(tmp_path) == [PARENT]


async def test_a_pod_without_a_parent_adds_an_entry_that_claims_no_scope(tmp_path: Path) -> None:
    await kid(tmp_path).take()
    (entry,) = entries(tmp_path)
    socket = str(tmp_path / "kid" / "sock")
    assert entry == PARENT | {
        "pod_name": "kid",
        "pid": os.getpid(),
        "socket": socket,
        "scope_allow": [],
        "segment_id": None,
    }
    assert list(entry) == list(PARENT), "the order of keys that a real pod writes"
    assert (tmp_path / "pods.json").stat().st_mode & 0o777 == 0o600


async def test_the_entry_of_another_process_stays(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(json.dumps({"allocations": [RESERVED]}))
    await kid(tmp_path).release()
    assert entries(tmp_path) == [RESERVED]


async def test_a_shorter_table_leaves_nothing_of_the_longer_one(tmp_path: Path) -> None:
    await kid(tmp_path).take()
    await kid(tmp_path).release()
    assert entries(tmp_path) == []


async def test_a_damaged_table_is_left_alone_and_logged(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text('{"allocations": [')
    with capture_logs() as logs:
        await kid(tmp_path).take()
    assert (tmp_path / "pods.json").read_text() == '{"allocations": ['
    assert [line["event"] for line in logs] == ["cannot add the pod to the table of running pods"]


async def test_a_full_disk_leaves_the_entries_of_other_pods(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(json.dumps({"allocations": [PARENT, RESERVED]}, indent=2))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "pods.json").stat().st_size + 10, before[1]))
    try:
        with capture_logs() as logs:
            await PodAllocation(tmp_path, "other", tmp_path / "other" / "sock").take()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert entries(tmp_path) == [PARENT, RESERVED]
    assert [entry["log_level"] for entry in logs] == ["warning"]


async def test_a_table_behind_a_link_is_not_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("{}")
    (tmp_path / "pods.json").symlink_to(victim)
    with capture_logs() as logs:
        await kid(tmp_path).take()
    assert victim.read_text() == "{}"
    assert len(logs) == 1


async def test_a_table_that_another_process_keeps_locked_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.pods.folder.LOCK_DEADLINE", 0.05)
    with (tmp_path / "pods.json").open("w") as held, capture_logs() as logs:
        fcntl.flock(held, fcntl.LOCK_EX)
        await kid(tmp_path).take()
    assert [line["error"] for line in logs] == [LOCKED]
    await kid(tmp_path).take()
    assert len(entries(tmp_path)) == 1


async def test_a_named_pipe_in_the_place_of_the_table_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pods.json")
    with capture_logs() as logs:
        await kid(tmp_path).take()
    assert len(logs) == 1
