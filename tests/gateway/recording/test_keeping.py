from __future__ import annotations

import ctypes
import errno
import os
import time
import tracemalloc
from pathlib import Path

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway.recording import keeping
from dragoman.gateway.recording.keeping import Keeper, compress, left_files, lock, sweep, sync_file_system
from dragoman.gateway.recording.places import Folder
from dragoman.gateway.recording.reader import open_recording
from tests.gateway.recording.lines import PLAIN, numbered, written

NOW = 1_700_000_000.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)


def recorded(folder: Path, name: str, age: float = 0, count: int = 3) -> Path:
    path = written(folder / f"20231114T221320Z-{name}.jsonl", numbered(count))
    os.utime(path, (NOW - age, NOW - age))
    return path


def names(folder: Path) -> set[str]:
    return {path.name.removeprefix("20231114T221320Z-").partition(".")[0] for path in folder.iterdir()}


def finish(path: Path) -> None:
    for _ in compress(path):
        pass


def test_a_compressed_recording_replaces_the_plain_one(tmp_path: Path) -> None:
    path = recorded(tmp_path, "a", age=100, count=5000)
    before = list(open_recording(path).lines())
    finish(path)
    (packed,) = tmp_path.iterdir()
    assert packed.name == f"{path.name}.zst"
    assert list(open_recording(packed).lines()) == before
    assert packed.stat().st_mode & 0o777 == 0o600
    assert packed.stat().st_mtime == NOW - 100


def test_garbage_without_a_newline_is_compressed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LINE_MAX", 1 << 18)
    path = recorded(tmp_path, "a")
    os.truncate(path, 1 << 24)  # as after a crash of the machine: NULs follow the last line
    tracemalloc.start()
    try:
        finish(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
    (packed,) = tmp_path.iterdir()
    assert len(list(open_recording(packed).lines())) == 3


def test_the_draft_of_a_killed_gateway_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, "a")
    begun = compress(path)
    next(begun)
    (draft,) = [other for other in tmp_path.iterdir() if other != path]
    begun.close()
    draft.touch()
    monkeypatch.setattr("os.getpid", lambda: 1)  # the next gateway is another process
    finish(path)
    assert [left.name for left in tmp_path.iterdir()] == [f"{path.name}.zst"]


def test_a_file_that_is_being_written_is_not_compressed(tmp_path: Path) -> None:
    path = recorded(tmp_path, "a")
    with path.open("rb") as held:
        assert lock(held.fileno())
        assert list(left_files(tmp_path)) == []
        finish(path)
    assert list(tmp_path.iterdir()) == [path]
    assert list(left_files(tmp_path)) == [path]


def test_a_file_that_two_keepers_compress_at_once_is_compressed_by_the_first(tmp_path: Path) -> None:
    path = recorded(tmp_path, "a", count=20_000)
    first = compress(path)
    next(first)
    with capture_logs() as logs:
        finish(path)
        for _ in first:
            pass
    assert [one.name for one in tmp_path.iterdir()] == [f"{path.name}.zst"]
    assert logs == []


def test_a_compression_that_is_given_up_leaves_the_plain_file(tmp_path: Path) -> None:
    path = recorded(tmp_path, "a", count=20_000)
    steps = compress(path)
    next(steps)
    steps.close()
    assert list(tmp_path.iterdir()) == [path]


def test_a_recording_that_was_deleted_before_it_was_compressed_is_no_warning(tmp_path: Path) -> None:
    with capture_logs() as logs:
        finish(tmp_path / "20231114T221320Z-a.jsonl")
    assert [line["log_level"] for line in logs] == ["debug"]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def undeletable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recording that may be read but not deleted: another user's in a sticky folder, or an immutable one."""
    path, unlink = recorded(tmp_path, "a", age=500), Path.unlink

    def refuse(file: Path, missing_ok: bool = False) -> None:
        if file == path:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(file))
        unlink(file, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    return path


def test_a_file_that_cannot_be_deleted_is_not_compressed_beside_itself(tmp_path: Path, undeletable: Path) -> None:
    with capture_logs() as logs:
        finish(undeletable)
    assert list(tmp_path.iterdir()) == [undeletable]
    assert [line["cause"] for line in logs] == [f"{undeletable}: Operation not permitted"]


def test_a_file_that_cannot_be_deleted_is_reported_and_newer_ones_are_deleted(
    tmp_path: Path, undeletable: Path
) -> None:
    for number in range(1, 5):
        recorded(tmp_path, f"{number}", age=10 - number)
    with capture_logs() as logs:
        sweep(tmp_path, structs.replace(PLAIN, keep_count=3))
    assert names(tmp_path) == {"a", "3", "4"}
    assert logs[0]["cause"] == f"{undeletable}: Operation not permitted"


def test_a_look_that_fails_is_not_repeated_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: Path) -> list[Path]:
        raise PermissionError(errno.EACCES, "Permission denied")

    def work() -> None:
        for _ in range(9):
            if keeper.busy:
                keeper.step()

    keeper = Keeper(Folder(tmp_path), structs.replace(PLAIN, keep_age=100))
    work()
    later = time.monotonic() + 101
    monkeypatch.setattr("time.monotonic", lambda: later)
    monkeypatch.setattr(keeping, "_recordings_in", refuse)
    with capture_logs() as logs:
        work()
    assert [line["cause"] for line in logs] == ["Permission denied"]


def test_a_folder_that_cannot_be_read_at_the_start_is_looked_at_later(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()  # a file: even root cannot list it
    keeper = Keeper(Folder(tmp_path / "folder"), structs.replace(PLAIN, compress=True, keep_age=100))
    with capture_logs() as logs:
        while keeper.busy:
            keeper.step()
    assert {line["cause"] for line in logs} == {f"{tmp_path}/folder: Not a directory"}
    assert keeper.idle_seconds is not None
    assert 99 < keeper.idle_seconds <= 100


def test_the_newest_files_are_kept(tmp_path: Path) -> None:
    for name, age in (("new", 1), ("old", 3), ("middle", 2)):
        recorded(tmp_path, name, age)
    assert [path.name for path in sweep(tmp_path, structs.replace(PLAIN, keep_count=2))] == [
        "20231114T221320Z-old.jsonl"
    ]
    assert names(tmp_path) == {"new", "middle"}


def test_files_that_are_too_old_are_deleted(tmp_path: Path) -> None:
    recorded(tmp_path, "new", 9)
    recorded(tmp_path, "old", 11)
    sweep(tmp_path, structs.replace(PLAIN, keep_age=10))
    assert names(tmp_path) == {"new"}


def test_the_oldest_files_are_deleted_until_the_rest_fits(tmp_path: Path) -> None:
    size = recorded(tmp_path, "a", 3).stat().st_size
    for name, age in (("b", 2), ("c", 1)):
        recorded(tmp_path, name, age)
    sweep(tmp_path, structs.replace(PLAIN, keep_bytes=2 * size))
    assert names(tmp_path) == {"b", "c"}


def test_a_file_that_is_being_written_is_kept_and_a_newer_one_is_deleted(tmp_path: Path) -> None:
    old, new = recorded(tmp_path, "old", 5), recorded(tmp_path, "new", 1)
    with old.open("rb") as held:
        lock(held.fileno())
        assert sweep(tmp_path, structs.replace(PLAIN, keep_count=1)) == [new]
    assert names(tmp_path) == {"old"}


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("mine")
    recorded(tmp_path, "a", 99)
    sweep(tmp_path, structs.replace(PLAIN, keep_age=1, keep_count=1, keep_bytes=1))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.jsonl"]


def test_a_named_pipe_with_the_name_of_a_recording_blocks_nothing(tmp_path: Path) -> None:
    pipe, path = tmp_path / "20231114T221320Z-pipe.jsonl", recorded(tmp_path, "a", 9)
    os.mkfifo(pipe)
    assert list(left_files(tmp_path)) == [path]
    assert sweep(tmp_path, structs.replace(PLAIN, keep_age=1)) == [path]
    assert list(tmp_path.iterdir()) == [pipe]


def test_without_limits_everything_is_kept(tmp_path: Path) -> None:
    recorded(tmp_path, "a", 1e9)
    assert sweep(tmp_path, PLAIN) == []


def test_a_file_system_can_be_synced_where_the_system_supports_it(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        assert sync_file_system(file.fileno()) is hasattr(ctypes.CDLL(None), "syncfs")
    assert not sync_file_system(-1)


def test_a_missing_folder_counts_as_empty(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none", structs.replace(PLAIN, keep_count=1)) == []
