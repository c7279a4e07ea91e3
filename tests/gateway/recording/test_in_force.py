"""Recordings that a reload replaces: open sessions are recorded where they began."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Auth, Recording
from dragoman.gateway.recording.in_force import RecordingsInForce
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.recordings import Recordings, recordings_opener
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.errors import ConfigError
from tests.gateway.recording.test_recordings import recorded
from tests.idle import settle
from tests.pairs.gateway import DEADLINE, SmoothClient


def words(folder: Path) -> str:
    """Return the text of the only recording in a folder."""
    (path,) = folder.glob("*.jsonl*")
    return "".join(line.event.text for line in open_recording(path).events() if isinstance(line.event, TextDelta))


async def reload_recording(app: App, wanted: Recording | None) -> None:
    await app.change_config(structs.replace(app.config, recording=wanted))


async def test_a_new_session_is_recorded_at_the_new_place_and_an_open_one_where_it_began(tmp_path: Path) -> None:
    old, new = (Recording(path=str(tmp_path / name), compress=False) for name in ("old", "new"))
    backend = "smooth+ws://127.0.0.1:0/ws"
    async with recorded(tmp_path, old, backend) as (app, url), SmoothClient.connected(url) as before:
        await before.turn("count 3")
        await reload_recording(app, new)
        async with SmoothClient.connected(url) as after:
            await after.turn("count 5")
        await before.turn("count 4")
    assert words(tmp_path / "new") == "0 1 2 3 4 "
    assert words(tmp_path / "old") == "0 1 2 0 1 2 3 "


async def test_recordings_can_be_turned_on_and_off(tmp_path: Path) -> None:
    wanted = Recording(path=str(tmp_path / "rec"), compress=False)
    async with recorded(tmp_path, None, "smooth+ws://127.0.0.1:0/ws") as (app, url):
        await reload_recording(app, wanted)
        async with SmoothClient.connected(url) as client:
            await client.turn("count 3")
        await reload_recording(app, None)
        async with SmoothClient.connected(url) as client:
            await client.turn("count 5")
    assert words(tmp_path / "rec") == "0 1 2 "


async def test_a_reload_prepares_recordings_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def noting(*arguments: Any) -> Callable[[], Recordings]:
        threads.append(threading.get_ident())
        return recordings_opener(*arguments)

    async with recorded(tmp_path, None) as (app, _):
        monkeypatch.setattr("dragoman.gateway.recording.recordings.recordings_opener", noting)
        await reload_recording(app, Recording(path=str(tmp_path / "rec")))
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_former_recordings_close_once_no_router_uses_them(tmp_path: Path) -> None:
    old, new = (Recording(path=str(tmp_path / name), compress=False) for name in ("old", "new"))
    async with recorded(tmp_path, old, "smooth+ws://127.0.0.1:0/ws") as (app, url):
        assert app.recordings is not None
        thread = app.recordings.writer._thread
        async with SmoothClient.connected(url) as client:
            await reload_recording(app, new)
            await client.turn("count 3")
            assert thread.is_alive()
        while thread.is_alive():
            await settle()
    assert words(tmp_path / "old") == "0 1 2 "


async def test_a_file_that_is_recorded_into_does_not_hold_back_a_reload_of_something_else(tmp_path: Path) -> None:
    recording = Recording(path=str(tmp_path / "one.jsonl"))
    async with recorded(tmp_path, recording, "smooth+ws://127.0.0.1:0/ws") as (app, url):
        async with SmoothClient.connected(url) as client:
            await client.turn("count 40")
        while not (tmp_path / "one.jsonl").exists():
            await settle()
        await app.change_config(structs.replace(app.config, recording=structs.replace(recording)))
        with pytest.raises(ConfigError, match="exists already"):
            await reload_recording(app, structs.replace(recording, compress=False))


async def test_a_reload_that_fails_records_on_as_before(tmp_path: Path) -> None:
    async with recorded(tmp_path, Recording(path=str(tmp_path / "old"))) as (app, _):
        force: RecordingsInForce = app._recordings
        former = force.current
        with pytest.raises(OSError, match="in use"):
            async with force.replaced(structs.replace(app.config, recording=Recording(path=str(tmp_path / "new")))):
                raise OSError(98, "in use")
        assert force.current is former


async def test_a_reload_that_fails_leaves_the_secrets_that_recordings_never_have(tmp_path: Path) -> None:
    recording, token = Recording(path=str(tmp_path / "rec"), compress=False), "correct-horse-battery"
    async with recorded(tmp_path, recording, "smooth+ws://127.0.0.1:0/ws") as (app, url):
        await app.change_config(structs.replace(app.config, auth=Auth(tokens={"alice": token})))
        force: RecordingsInForce = app._recordings
        with pytest.raises(OSError, match="in use"):
            async with force.replaced(structs.replace(app.config, auth=Auth(tokens={"alice": "staple-of-the-day"}))):
                raise OSError(98, "in use")
        async with SmoothClient.connected(f"{url}?token={token}") as client:
            await client.turn(f"count 1 {token}")
    (path,) = (tmp_path / "rec").glob("*.jsonl")
    assert "[redacted:known_secret:" in path.read_text()
    assert token not in path.read_text()


@pytest.mark.parametrize("refused", ["recordings", "redaction"])
async def test_a_reload_to_which_the_system_refuses_a_thread_leaves_none(
    refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse_one(thread: threading.Thread) -> None:
        if thread.name == refused:
            raise RuntimeError("can't start new thread")
        start(thread)

    others = set(threading.enumerate())  # a thread that another test has left may still end

    def left() -> list[str]:
        names = [thread.name for thread in threading.enumerate() if thread not in others]
        return [name for name in names if name in ("recordings", "redaction")]

    async with recorded(tmp_path, None) as (app, _):
        monkeypatch.setattr("threading.Thread.start", refuse_one)
        with pytest.raises(OSError, match="the system cannot start a thread for recordings"):
            await reload_recording(app, Recording(path=str(tmp_path / "rec")))
        async with asyncio.timeout(DEADLINE):
            while left():
                await settle()
