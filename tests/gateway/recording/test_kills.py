"""A recording survives kill -9 during a write: every reader can read it, and synced lines are never lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.gateway.recording.format import RecordingError
from dragoman.gateway.recording.keeping import left_files
from dragoman.gateway.recording.places import Folder
from dragoman.gateway.recording.reader import CHUNK, open_recording
from dragoman.gateway.recording.writer import Writer
from tests.gateway.recording.killed_writers import LINES
from tests.gateway.recording.lines import PACKED, PLAIN, numbered, written
from tests.gateway.recording.test_writer import Loop, a_file

KILLS = 100
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def zygote() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.gateway.recording.killed_writers"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def killed(zygote: subprocess.Popen[bytes], path: Path, syncs: int) -> int:
    """Kill a writer after it has reported this many syncs; return the number of lines in the last one."""
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    assert zygote.stderr is not None
    zygote.stdin.write(f"{path}\n".encode())
    zygote.stdin.flush()
    pid = int(zygote.stdout.readline())
    synced = 0
    for _ in range(syncs):
        synced = int(zygote.stderr.readline())
    os.kill(pid, signal.SIGKILL)
    assert zygote.stdout.readline() == b"over\n"
    os.set_blocking(zygote.stderr.fileno(), False)
    rest = (zygote.stderr.read() or b"").split()
    os.set_blocking(zygote.stderr.fileno(), True)
    return int(rest[-1]) if rest else synced


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, if the system has one: a killed process leaves the same there, and syncs cost nothing."""
    shared = Path("/dev/shm")  # the folder in it has a random name
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder)


def test_a_killed_writer_loses_nothing_that_was_synced(memory: Path, zygote: subprocess.Popen[bytes]) -> None:
    at = random.Random(8)
    told = set()
    for number in range(KILLS):
        path = memory / f"{number}.jsonl"
        synced = killed(zygote, path, at.randrange(6))
        if not path.exists() or not path.stat().st_size:
            assert synced == 0
            continue
        recording = open_recording(path)
        got = list(recording.lines())
        assert got == LINES[: len(got)]
        assert len(got) >= synced
        assert not recording.problems.damaged
        told.add(len(got))
        path.unlink()
    assert len(told) > 20, "it was killed at the same few places again and again"


@pytest.mark.parametrize(("lines", "cuts"), [(200, 130), (2_000, 20)], ids=["one_chunk", "two_chunks"])
def test_all_whole_lines_of_a_torn_file_are_read(tmp_path: Path, lines: int, cuts: int) -> None:
    whole = written(tmp_path / "whole.jsonl", LINES[:lines]).read_bytes()
    assert (len(whole) > CHUNK) == (lines == 2_000)
    at = random.Random(9)
    path = tmp_path / "torn.jsonl"
    for _ in range(cuts):
        cut = at.randrange(len(whole))
        path.write_bytes(whole[:cut] + at.choice((b"", b"\x00" * 700, at.randbytes(300))))
        entire = max(0, whole[:cut].count(b"\n") - 1)
        try:
            got = list(open_recording(path).lines())
        except RecordingError:
            assert entire == 0
            continue
        assert got[:entire] == LINES[:entire]
        assert len(got) - entire <= 1


# -- a disk that is full ---------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if mount is None or subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk; test_writer.py has the same with a limit on the size of files")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_on_a_full_small_disk_a_recording_ends_with_a_whole_line(small_disk: Path) -> None:
    loop = Loop()
    place = Folder(small_disk)
    writer = Writer(place, loop.calls.put, PLAIN)
    writer.start()
    file = a_file(place, loop)
    source = written(small_disk.parent / "source", numbered(6000)).read_bytes().splitlines(keepends=True)
    for start in range(0, len(source), 50):
        writer.put(file, b"".join(source[start : start + 50]), 50)
    writer.flush()
    failed, error = loop.failure()
    writer.close()
    assert failed is file
    assert error.errno == 28
    assert file.path is not None
    recording = open_recording(file.path)
    got = list(recording.lines())
    assert got == numbered(len(got))
    assert len(got) > 500
    assert not recording.problems
    assert list(left_files(small_disk)) == [file.path]


def test_on_a_full_small_disk_a_compression_is_given_up_and_the_file_stays(small_disk: Path) -> None:
    noise = random.Random(1)
    path = small_disk / "20231114T221320Z-s.jsonl"
    path.write_bytes(b"".join(noise.randbytes(99).hex().encode() + b"\n" for _ in range(1200)))
    writer = Writer(Folder(small_disk), Loop().calls.put, PACKED)
    writer.start()
    writer.close()
    assert [file.name for file in small_disk.iterdir()] == [path.name]
