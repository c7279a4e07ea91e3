"""Changes of the configuration file that `serve --watch` notices, and the folders that it watches for them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.config import file_watch
from dragoman.gateway.config.file_watch import check_library, find_folders, watch_file
from dragoman.mappings.errors import ConfigError

library = pytest.importorskip("watchfiles._rust_notify", reason="needs dragoman[watch]")


@asynccontextmanager
async def watched(file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[asyncio.Event, ...]]:
    """Watch a file by events alone, without the recheck; yield what each change sets, and what each new watch sets."""
    ready, changed = asyncio.Event(), asyncio.Event()

    @contextmanager
    def notify(*args: Any) -> Iterator[Any]:
        with library.RustNotify(*args) as watcher:
            ready.set()
            yield watcher

    monkeypatch.setattr("watchfiles.main.RustNotify", notify)
    monkeypatch.setattr(file_watch, "RECHECK", 3_600_000)
    monkeypatch.setattr(file_watch, "QUIET", 5)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        task = group.create_task(watch_file(file, changed.set), name="watch")
        await ready.wait()
        yield changed, ready
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
    async with watched(file, monkeypatch) as (changed, _watching):
        write(file, "ab")
        await changed.wait()


async def test_each_file_saved_by_rename_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "c.toml", "a")
    async with watched(file, monkeypatch) as (changed, _watching):
        for text in ("ab", "abc"):
            os.replace(write(tmp_path / "new", text), file)
            await changed.wait()
            changed.clear()


async def test_each_swap_of_a_mounted_config_map_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount(tmp_path, "..1")
    (tmp_path / "c.toml").symlink_to("..data/c.toml")
    async with watched(tmp_path / "c.toml", monkeypatch) as (changed, _watching):
        for version in ("..2", "..3"):
            mount(tmp_path, version)
            await changed.wait()
            changed.clear()


async def test_each_rename_of_another_folder_to_that_of_the_file_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "conf" / "c.toml", "a")
    async with watched(file, monkeypatch) as (changed, watching):
        for number in ("1", "2"):
            write(tmp_path / "new" / "c.toml", f"version {number}")
            await watching.wait()
            watching.clear()
            os.rename(tmp_path / "conf", tmp_path / number)
            os.rename(tmp_path / "new", tmp_path / "conf")
            await changed.wait()
            changed.clear()


async def test_another_file_of_the_folder_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "c.toml", "a")
    looked, stamp = asyncio.Event(), file_watch._stamp
    async with watched(file, monkeypatch) as (changed, _watching):

        def look(path: Path) -> tuple[int, ...]:
            looked.set()
            return stamp(path)

        monkeypatch.setattr(file_watch, "_stamp", look)
        write(tmp_path / "recording.dgr", "a")
        await looked.wait()
        assert not changed.is_set()


async def test_a_refused_file_watch_is_logged_once_and_tried_again_and_the_file_is_compared_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, changes = write(tmp_path / "c.toml", "a"), 0

    def on_change() -> None:
        nonlocal changes
        changes += 1

    refusals = [OSError(24, "Too many open files"), RuntimeError("[Errno 24] Too many open files")]
    tried = asyncio.Event()

    async def awatch(*_folders: Path, **_options: object) -> AsyncIterator[set[Any]]:
        if refusals:
            write(file, "ab" * len(refusals))
            raise refusals.pop()
        assert changes == 2
        tried.set()
        yield set()
        await asyncio.Event().wait()

    monkeypatch.setattr("watchfiles.awatch", awatch)
    monkeypatch.setattr(file_watch, "RETRY", 0)
    with capture_logs() as logs:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            task = group.create_task(watch_file(file, on_change), name="watch")
            await tried.wait()
            task.cancel()
    assert [line["cause"] for line in logs] == ["[Errno 24] Too many open files"]


def test_the_folder_of_each_link_on_the_way_is_watched(tmp_path: Path) -> None:
    mount(tmp_path / "mount", "..1")
    (tmp_path / "mount" / "c.toml").symlink_to("..data/c.toml")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "c.toml").symlink_to("../mount/c.toml")
    expected = {tmp_path / "etc", tmp_path / "mount", tmp_path / "mount" / "..1"}
    assert find_folders(tmp_path / "etc" / "c.toml") == expected


def test_the_nearest_parent_of_a_missing_folder_is_watched(tmp_path: Path) -> None:
    assert find_folders(tmp_path / "a" / "b" / "c.toml") == {tmp_path}


def test_a_symbolic_link_to_itself_ends_the_search(tmp_path: Path) -> None:
    (tmp_path / "c.toml").symlink_to("c.toml")
    assert find_folders(tmp_path / "c.toml") == {tmp_path}


def test_a_missing_library_is_an_error_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watch, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=rf"{sys.executable} -m pip install 'dragoman\[watch\]'"):
        check_library()
