"""The entry of a pod in the table of running pods, as real pods write it (docs/dialects/pod.md, section 2)."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.pods.allocation import LOCKED, PodAllocation

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
    monkeypatch.setattr("dragoman.gateway.pods.allocation.LOCK_DEADLINE", 0.05)
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
