"""The reload of a configuration: what it compares, what it refuses, and what it reports."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway import reload
from dragoman.gateway.config.model import Config, Limits, Ops, Recording, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.reload import (
    ConfigChanges,
    ConfigReloader,
    ConfigStatus,
    compare,
    watch_file,
)
from dragoman.gateway.transports import spec, websocket, zeromq
from dragoman.mappings.errors import ConfigError, DragomanError

A = Route(name="a", listen=(parse("pod+unix:/a"),), upstream=parse("pod+unix:/b"))
B = structs.replace(A, name="b")
CONFIG = Config(routes=(A, B))


class App:
    """An app that notes its calls, and can refuse a configuration."""

    def __init__(self) -> None:
        self.config = CONFIG
        self.config_status = ConfigStatus()
        self.fault: OSError | DragomanError | None = None
        self.changed = asyncio.Event()
        self.reopened = asyncio.Event()
        self.not_opened: list[str] = []

    def note_config(self, status: ConfigStatus) -> None:
        self.config_status = status
        self.changed.set()

    async def reopen_listeners(self) -> list[str]:
        self.reopened.set()
        return self.not_opened

    async def change_config(self, config: Config) -> None:
        if self.fault is not None:
            raise self.fault
        self.config = config


def test_routes_are_compared_by_name() -> None:
    changed = structs.replace(A, overflow="disconnect")
    new = Config(routes=(changed, structs.replace(A, name="c")), limits=Limits(session_ttl=3.0))
    assert compare(CONFIG, new) == ConfigChanges(added=["c"], changed=["a"], removed=["b"], tables=["limits"])


@pytest.mark.parametrize(
    ("new", "name"),
    [
        (structs.replace(CONFIG, recording=Recording(path="/x")), "recording"),
        (structs.replace(CONFIG, ops=Ops(listen="unix:/x")), "ops"),
        (structs.replace(CONFIG, limits=Limits(memory=1 << 30)), "limits"),
    ],
)
def test_other_tables_that_differ_are_named(new: Config, name: str) -> None:
    assert compare(CONFIG, new) == ConfigChanges(added=[], changed=[], removed=[], tables=[name])


def test_limits_that_open_listeners_keep_are_named() -> None:
    moved = structs.replace(B, listen=(parse("pod+unix:/elsewhere"),))
    own = structs.replace(A, limits={"max_message": 2048})
    new = Config(routes=(own, moved), limits=Limits(heartbeat=3.0, session_ttl=3.0))
    assert compare(CONFIG, new).kept_by_listeners == ["a.max_message"]


@pytest.mark.parametrize(
    ("listener", "kept"),
    [
        ("pod+unix:/a", []),
        ("pando+tcp://127.0.0.1:1?rpc=2", ["a.callers"]),
        ("smooth+ws://127.0.0.1:1/ws", ["a.heartbeat"]),
    ],
)
def test_limits_are_named_only_if_the_transport_of_a_listener_reads_them(listener: str, kept: list[str]) -> None:
    old = Config(routes=(structs.replace(A, listen=(parse(listener),)),))
    assert compare(old, structs.replace(old, limits=Limits(callers=7, heartbeat=3.0))).kept_by_listeners == kept


def test_each_limit_that_a_transport_reads_is_one_that_its_listeners_keep() -> None:
    modules = [path for path in Path(spec.__file__).parent.glob("*.py") if path.stem != "stdio"]  # it starts children
    read = {limit for path in modules for limit in re.findall(r"\blimits\.(\w+)", path.read_text("utf-8"))}
    assert read == {*zeromq.TCP.kept_limits, *websocket.WS.kept_limits}


async def test_the_ops_port_changes_around_the_routes() -> None:
    app, steps = App(), list[str]()

    @asynccontextmanager
    async def replace_ops(ops: Ops | None) -> AsyncIterator[None]:
        steps.append(f"open {ops and ops.listen}: {len(app.config.routes)} routes")
        yield
        steps.append(f"close: {len(app.config.routes)} routes")

    new = Config(routes=(A,), ops=Ops(listen="unix:/x"))
    await ConfigReloader(app, lambda: new, replace_ops=replace_ops).reload()
    assert steps == ["open unix:/x: 2 routes", "close: 1 routes"]


async def test_lost_listeners_are_opened_again_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.reload.REOPEN", 0.0)
    app = App()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(ConfigReloader(app, lambda: CONFIG).run())
        await app.reopened.wait()
        running.cancel()
    assert app.config_status.generation == 1


async def test_a_listener_that_cannot_be_opened_again_is_logged_once_for_each_cause() -> None:
    app, opened = App(), list[Ops | None]()

    @asynccontextmanager
    async def replace_ops(ops: Ops | None) -> AsyncIterator[None]:
        opened.append(ops)
        if app.fault is not None:
            raise app.fault
        yield

    reloader = ConfigReloader(app, lambda: CONFIG, replace_ops=replace_ops)
    with capture_logs() as logs:
        await reloader.reopen_listeners()
        app.not_opened, app.fault = ["pod+unix:/a: in use"], OSError(98, "in use", "/ops")
        for _ in range(2):
            await reloader.reopen_listeners()
        app.fault = DragomanError("can't start new thread")
        await reloader.reopen_listeners()
        app.fault = None
        await reloader.reopen_listeners()
    causes = ["/ops: in use", "can't start new thread"]
    assert [line["cause"] for line in logs] == [f"pod+unix:/a: in use; {cause}" for cause in causes] + [
        "pod+unix:/a: in use"
    ]
    assert opened == [CONFIG.ops] * 5


async def test_a_reload_is_the_next_generation_and_one_log_line() -> None:
    app = App()
    with capture_logs() as logs:
        await ConfigReloader(app, lambda: Config(routes=(A,))).reload()
    assert app.config == Config(routes=(A,))
    assert (app.config_status.generation, app.config_status.cause) == (2, "")
    (line,) = logs
    assert (line["event"], line["generation"], line["removed"]) == ("configuration reloaded", 2, ["b"])
    assert (line["action"], line["outcome"]) == ("reload", "done")


async def test_an_error_that_no_configuration_should_cause_is_a_refusal_with_its_traceback() -> None:
    """A package that was replaced while the gateway runs may not fit to what is in memory."""
    app = App()

    def read() -> Config:
        raise ModuleNotFoundError("No module named 'dragoman.mappings.pando'")

    with capture_logs() as logs:
        await ConfigReloader(app, read).reload()
    assert (app.config, app.config_status.generation) == (CONFIG, 1)
    cause = "ModuleNotFoundError: No module named 'dragoman.mappings.pando'; "
    assert app.config_status.cause == f"{cause}if the package was replaced while the gateway ran, restart it"
    assert [line["exc_info"] for line in logs] == [True]


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (ConfigError("c.toml:3: no"), "c.toml:3: no"),
        (OSError(98, "in use"), "in use"),
        (OSError(98, "in use", "/x/sock"), "/x/sock: in use"),
    ],
)
async def test_a_refused_configuration_changes_nothing_and_says_why(fault: ConfigError | OSError, cause: str) -> None:
    app = App()

    def read() -> Config:
        if isinstance(fault, ConfigError):
            raise fault
        app.fault = fault
        return CONFIG

    with capture_logs() as logs:
        await ConfigReloader(app, read).reload()
    assert app.config is CONFIG
    assert (app.config_status.generation, app.config_status.cause) == (1, cause)
    assert app.config_status.refused_at > 0
    (line,) = logs
    assert (line["event"], line["cause"]) == ("configuration refused, nothing changed", cause)


async def test_a_good_configuration_ends_the_refusal_of_the_one_before() -> None:
    app = App()
    reloader = ConfigReloader(app, lambda: CONFIG)
    app.fault = OSError(98, "in use")
    await reloader.reload()
    app.fault = None
    await reloader.reload()
    assert (app.config_status.generation, app.config_status.refused_at, app.config_status.cause) == (2, 0, "")


@asynccontextmanager
async def watched(file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncio.Semaphore]:
    """Watch a file whose stamp is known; yield the semaphore that each change releases."""
    looked, changed = asyncio.Event(), asyncio.Semaphore(0)
    loop, stamp = asyncio.get_running_loop(), reload._stamp

    def look(path: Path) -> tuple[int, ...]:
        found = stamp(path)
        loop.call_soon_threadsafe(looked.set)
        return found

    monkeypatch.setattr(reload, "_stamp", look)
    monkeypatch.setattr(reload, "LOOK", 0.001)
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
    monkeypatch.setattr(reload, "_stamp", lambda _file: looks.pop(0))
    monkeypatch.setattr(reload, "LOOK", 0)
    with pytest.raises(IndexError):  # there are no further looks
        await watch_file(Path("c.toml"), lambda: changes.append(len(stamps) - len(looks)))
    assert changes == [5]
