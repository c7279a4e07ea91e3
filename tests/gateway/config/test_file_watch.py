"""Changes of the configuration file that `serve --watch` notices."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.gateway.config import file_watch
from dragoman.gateway.config.file_watch import watch_file


@asynccontextmanager
async def watched(file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncio.Semaphore]:
    """Watch a file whose stamp is known; yield the semaphore that each change releases."""
    looked, changed = asyncio.Event(), asyncio.Semaphore(0)
    loop, stamp = asyncio.get_running_loop(), file_watch._stamp

    def look(path: Path) -> tuple[int, ...]:
        found = stamp(path)
        loop.call_soon_threadsafe(looked.set)
        return found

    monkeypatch.setattr(file_watch, "_stamp", look)
    monkeypatch.setattr(file_watch, "LOOK", 0.001)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(watch_file(file, changed.release), name="watch")
        await looked.wait()
        yield changed
        task.cancel()


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def mount(folder: Path, version: str) -> None:
    """Write a version of a ConfigMap as the kubelet does: a new folder, then a link to it renamed over `..data`."""
    write(folder / version / "c.toml", version)
    (folder / "..data_tmp").symlink_to(version)
    os.replace(folder / "..data_tmp", folder / "..data")


async def test_a_file_saved_in_place_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "c.toml", "a")
    async with watched(file, monkeypatch) as changed:
        write(file, "ab")
        await changed.acquire()


async def test_each_file_saved_by_rename_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "c.toml", "a")
    async with watched(file, monkeypatch) as changed:
        for text in ("ab", "abc"):
            os.replace(write(tmp_path / "new", text), file)
            await changed.acquire()


async def test_each_swap_of_a_mounted_config_map_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount(tmp_path, "..1")
    (tmp_path / "c.toml").symlink_to("..data/c.toml")
    async with watched(tmp_path / "c.toml", monkeypatch) as changed:
        for version in ("..2", "..3"):
            mount(tmp_path, version)
            await changed.acquire()


async def test_a_missing_file_is_noticed_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(tmp_path / "conf" / "c.toml", monkeypatch) as changed:
        write(tmp_path / "conf" / "c.toml", "a")
        await changed.acquire()


async def test_a_change_counts_once_and_only_after_two_equal_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = [(1,), (1,), (2,), (3,), (3,), (3,), (1,), (3,), (3,)]
    changes: list[int] = []
    looks = stamps.copy()
    monkeypatch.setattr(file_watch, "_stamp", lambda _file: looks.pop(0))
    monkeypatch.setattr(file_watch, "LOOK", 0)
    with pytest.raises(IndexError):  # there are no further looks
        await watch_file(Path("c.toml"), lambda: changes.append(len(stamps) - len(looks)))
    assert changes == [5]
