from __future__ import annotations

import os
import queue
import resource
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.recording import keeping
from dragoman.gateway.recording import writer as module
from dragoman.gateway.recording.places import Folder, OneFile
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.writer import OutputFile, Writer
from tests.awaited import until
from tests.gateway.recording.lines import PACKED, PLAIN, numbered, written

START = 1_700_000_000_000_000_000


class Loop:
    """The functions that the writer calls in the event loop; the test waits for them."""

    def __init__(self) -> None:
        self.calls: queue.Queue[Callable[[], None]] = queue.Queue()
        self.failures: list[tuple[OutputFile, OSError]] = []

    def failed(self, file: OutputFile, error: OSError) -> None:
        self.failures.append((file, error))

    def failure(self) -> tuple[OutputFile, OSError]:
        self.calls.get(timeout=10)()
        return self.failures[-1]


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "deep" / "rec")


@pytest.fixture
def writer(place: Folder, loop: Loop) -> Writer:
    """Return a writer whose thread runs, and which keeps closed files as they are."""
    writer = Writer(place, loop.calls.put, PLAIN)
    writer.start()
    return writer


@pytest.fixture
def file(place: Folder, loop: Loop) -> OutputFile:
    return a_file(place, loop)


def a_file(folder: Folder | OneFile, loop: Loop, session: str = "s") -> OutputFile:
    return OutputFile(lambda: folder.names(folder.stem(session, START), 0), loop.failed)


def test_queued_bytes_are_written_in_order_and_the_file_is_closed(
    place: Folder, loop: Loop, writer: Writer, file: OutputFile
) -> None:
    other = a_file(place, loop, "t")
    for number in range(100):
        assert writer.put(file, f"line {number}\n".encode(), 1)
        assert writer.put(other, b"x\n", 1)
    assert writer.close()
    assert file.path is not None
    assert file.path.read_text() == "".join(f"line {number}\n" for number in range(100))
    assert (file.lines, file.size) == (100, file.path.stat().st_size)
    assert other.path is not None
    assert other.path.read_bytes() == b"x\n" * 100
    assert not loop.failures


def test_only_the_owner_may_read_files(writer: Writer, file: OutputFile) -> None:
    writer.put(file, b"x\n", 1)
    writer.close()
    assert file.path is not None
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("packed", ["", ".zst"])
def test_the_name_of_an_existing_file_is_never_taken(
    place: Folder, writer: Writer, file: OutputFile, packed: str
) -> None:
    name = next(place.names(place.stem("s", START), 0))
    taken = name.with_name(f"{name.name}{packed}")
    place.folder.mkdir(parents=True)
    taken.write_text("mine")
    writer.put(file, b"x\n", 1)
    writer.close()
    assert taken.read_text() == "mine"
    assert file.path is not None
    assert file.path.name == f"{name.stem}~2.jsonl"


def test_a_file_locked_by_another_gateway_is_left_to_it(
    writer: Writer, file: OutputFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = iter([False, True])
    monkeypatch.setattr(module, "lock", lambda _descriptor: next(held))
    writer.put(file, b"x\n", 1)
    writer.close()
    assert file.path is not None
    assert "~2" in file.path.name
    assert file.path.read_bytes() == b"x\n"


def test_everything_is_synced_before_the_writer_sleeps(
    writer: Writer, file: OutputFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: queue.Queue[int] = queue.Queue()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.put(os.fstat(descriptor).st_size)

    monkeypatch.setattr("os.fsync", fsync)
    for size in (2, 4):
        writer.put(file, b"x\n", 1)
        writer.flush()
        while synced.get(timeout=10) != size:
            pass  # the folder, for its new name
    writer.close()


def test_the_recording_writer_queues_nothing_past_its_limit(
    tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    real: Any = os.write

    def write(descriptor: int, data: bytes) -> int:
        gate.wait(10)
        return int(real(descriptor, data))

    monkeypatch.setattr("os.write", write)
    place = Folder(tmp_path)
    writer = Writer(place, loop.calls.put, PLAIN, backlog_max=10)
    writer.start()
    file = a_file(place, loop)
    assert writer.put(file, b"12345\n", 1)
    writer.flush()
    assert not writer.put(file, b"12345\n", 1)
    assert writer.put(file, b"123\n", 1)
    gate.set()
    writer.close()
    assert file.path is not None
    assert file.path.read_bytes() == b"12345\n123\n"


def test_discarded_bytes_are_not_written_and_their_file_fails(
    place: Folder, loop: Loop, writer: Writer, file: OutputFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = threading.Event(), threading.Event()
    real: Any = os.write

    def write(descriptor: int, data: bytes) -> int:
        begun.set()
        gate.wait(10)
        return int(real(descriptor, data))

    monkeypatch.setattr("os.write", write)
    other = a_file(place, loop, "t")
    writer.put(file, b"12345\n", 1)
    writer.flush()
    assert begun.wait(10)
    writer.put(file, b"1234567\n", 1)
    writer.finish(other)
    assert writer.backlog == 14
    writer.discard()
    assert writer.backlog == 6
    gate.set()
    failed, error = loop.failure()
    assert (failed, error.strerror) == (file, "memory is short (`memory`)")
    assert writer.close()
    assert file.path is not None
    assert file.path.read_bytes() == b"12345\n"
    assert (file.lines, other.over) == (1, True)


def test_the_folder_is_synced_once_for_all_files_of_a_round(
    tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(module, "sync_folder", synced.append)
    monkeypatch.setattr(module, "sync_file_system", lambda _descriptor: False)
    place = Folder(tmp_path / "rec")
    writer = Writer(place, loop.calls.put, PLAIN)
    for number in range(20):
        writer.put(a_file(place, loop, f"s{number}"), b"x\n", 1)
    writer.flush()
    writer.start()
    assert writer.close()
    assert len(list(place.folder.iterdir())) == 20
    assert synced == [place.folder]


def test_many_files_are_synced_by_one_call(tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = keeping.sync_file_system

    def sync(descriptor: int) -> bool:
        calls.append(descriptor)
        return real(descriptor)

    monkeypatch.setattr(module, "sync_file_system", sync)
    place = Folder(tmp_path)
    writer = Writer(place, loop.calls.put, PLAIN)
    files = [a_file(place, loop, f"s{number}") for number in range(50)]
    for file in files:
        writer.put(file, b"x\n", 1)
    writer.flush()
    writer.start()
    writer.close()
    assert len(calls) == 1
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"x\n"] * 50


# -- disks that do not take it ------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_created_fails_only_its_file(tmp_path: Path, loop: Loop) -> None:
    (tmp_path / "file").touch()
    place = Folder(tmp_path / "file" / "rec")
    writer = Writer(place, loop.calls.put, PLAIN)
    writer.start()
    file = a_file(place, loop)
    writer.put(file, b"x\n", 1)
    writer.flush()
    failed, error = loop.failure()
    assert failed is file
    assert isinstance(error, NotADirectoryError | FileExistsError)
    assert file.size == 0
    assert writer.put(file, b"y\n", 1)  # is dropped: it is over
    assert writer.close()


@pytest.fixture
def small_files() -> Iterator[int]:
    """Limit the files of this process to this many bytes: as on a full disk, a write is cut short, then fails."""
    limit = 64 * 1024
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_every_whole_line_and_no_part_of_another(
    loop: Loop, writer: Writer, file: OutputFile, small_files: int
) -> None:
    line = b"x" * 999 + b"\n"
    for _ in range(100):
        writer.put(file, line, 1)
    writer.flush()
    failed, error = loop.failure()
    assert failed is file
    assert error.errno is not None
    writer.close()
    assert file.path is not None
    assert file.path.read_bytes() == line * file.lines
    assert file.lines == small_files // len(line)


def test_a_file_that_stayed_empty_is_removed(
    place: Folder, loop: Loop, writer: Writer, file: OutputFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_descriptor: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", write)
    writer.put(file, b"x\n", 1)
    writer.flush()
    assert loop.failure()[1].errno == 28
    writer.close()
    assert list(place.folder.iterdir()) == []


def test_a_disk_that_fails_when_a_file_is_closed_does_not_end_the_thread(
    place: Folder, loop: Loop, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = os.close

    def failing(descriptor: int) -> None:
        close(descriptor)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "close", failing)
    first, second = a_file(place, loop, "a"), a_file(place, loop, "b")
    writer.put(first, b"1\n", 1)
    writer.finish(first)
    assert loop.failure()[0] is first, "its folder could not be synced"
    monkeypatch.setattr(os, "close", close)
    writer.put(second, b"2\n", 1)
    assert writer.close()
    assert second.path is not None
    assert second.path.read_bytes() == b"2\n"


# -- what becomes of closed files -------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [None, 0, 3], ids=["deleted", "emptied", "cut"])
def test_a_file_that_was_deleted_or_cut_while_it_was_written_fails_with_the_next_bytes(
    tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch, left: int | None
) -> None:
    synced, fsync = threading.Event(), os.fsync

    def sync(descriptor: int) -> None:
        fsync(descriptor)
        synced.set()

    monkeypatch.setattr(os, "fsync", sync)
    place = Folder(tmp_path / "rec")
    writer = Writer(place, loop.calls.put, PACKED)
    writer.start()
    file, later = a_file(place, loop), a_file(place, loop)
    writer.put(file, b"1\n2\n", 2)
    writer.flush()
    assert synced.wait(20), "before that, the folder could not be synced"
    if left is None:
        shutil.rmtree(tmp_path / "rec")
    else:
        (path,) = (tmp_path / "rec").iterdir()
        os.truncate(path, left)
    writer.put(file, b"3\n", 1)
    writer.flush()
    failed, error = loop.failure()
    what = "deleted" if left is None else "cut"
    assert (failed, error.strerror) == (file, f"the file was {what} while it was written")
    writer.put(later, b"4\n", 1)
    assert writer.close()
    assert len(loop.failures) == 1
    assert [path.suffix for path in (tmp_path / "rec").iterdir()] == [".zst"] * (2 if left else 1)


def test_a_closed_file_is_compressed_and_old_ones_are_deleted(tmp_path: Path, loop: Loop) -> None:
    old = written(tmp_path / "20200101T000000Z-old.jsonl", numbered(2))
    os.utime(old, (1, 1))
    place = Folder(tmp_path)
    writer = Writer(place, loop.calls.put, structs.replace(PACKED, keep_count=1))
    writer.start()
    file = a_file(place, loop)
    source = written(tmp_path / "source", numbered(10))
    writer.put(file, source.read_bytes(), 11)
    writer.finish(file)
    writer.close()
    assert file.path is not None
    assert {path.name for path in tmp_path.iterdir()} == {"source", f"{file.path.name}.zst"}
    packed = open_recording(tmp_path / f"{file.path.name}.zst")
    assert list(packed.lines()) == numbered(10)


def test_recordings_of_a_killed_gateway_are_compressed_at_the_next_start(tmp_path: Path, loop: Loop) -> None:
    written(tmp_path / "20200101T000000Z-old.jsonl", numbered(2))
    writer = Writer(Folder(tmp_path), loop.calls.put, PACKED)
    writer.start()
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["20200101T000000Z-old.jsonl.zst"]


async def test_a_file_that_becomes_too_old_while_none_is_closed_is_deleted(tmp_path: Path, loop: Loop) -> None:
    young = written(tmp_path / "20200101T000000Z-young.jsonl", numbered(2))
    os.utime(young, (4e9, 4e9))  # in the future: it is never too old
    writer = Writer(Folder(tmp_path), loop.calls.put, structs.replace(PLAIN, keep_age=0.01))
    writer.start()
    for _ in range(2):  # one of them was not there at the start
        written(tmp_path / "20200101T000000Z-old.jsonl", numbered(2))
        await until(lambda: list(tmp_path.iterdir()) == [young])
    writer.close()


def test_files_beside_a_named_file_are_not_touched(tmp_path: Path, loop: Loop) -> None:
    other = written(tmp_path / "20200101T000000Z-old.jsonl", numbered(2))
    place = OneFile(tmp_path / "out.jsonl")
    writer = Writer(place, loop.calls.put, structs.replace(PLAIN, keep_count=1))
    writer.start()
    writer.put(a_file(place, loop), b"x\n", 1)
    writer.close()
    assert {path.name for path in tmp_path.iterdir()} == {other.name, "out.jsonl"}
