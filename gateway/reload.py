"""Reload the configuration of a running gateway, and say which one is in force.

    read the file  ->  validate it  ->  compare it with the one in force  ->  apply it, or change nothing

Each outcome is one log line. Everything in the file can change while clients talk. If a step fails, the file is refused
as a whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Protocol

import structlog
from msgspec import Struct, structs

from dragoman.gateway import registry
from dragoman.gateway.config.model import Config, ConfigFile, Ops
from dragoman.gateway.public_reason import full_reason
from dragoman.mappings.errors import DragomanError

TABLES = tuple(name for name in ConfigFile.__struct_fields__ if name != "route")
"""The tables of a file beside its routes."""

RESTART = "if the package was replaced while the gateway ran, restart it"
"""The advice for an error that no configuration should cause."""

LOOK = 0.5  # seconds between two looks at the file; each takes 0.1 ms, in a thread, because a file system may be slow
REOPEN = 10.0  # seconds between two checks of the files of listening sockets: one system call for each

log = structlog.get_logger("dragoman.audit")


class ConfigStatus(Struct, frozen=True, kw_only=True):
    """The configuration in force, counted from 1 at the start, and the last one that was refused after it.

    Times are in nanoseconds since 1970. `cause` says why it was refused; it is "" if none was.
    """

    generation: int = 1
    since: int = 0
    refused_at: int = 0
    cause: str = ""


class ConfigChanges(Struct, frozen=True, kw_only=True):
    """The names of the routes that differ between two configurations, and of the other tables.

    `kept_by_listeners`: the limits, written as ROUTE.LIMIT, that changed and that open listeners do not take.
    """

    added: list[str]
    changed: list[str]
    removed: list[str]
    tables: list[str] = []
    kept_by_listeners: list[str] = []


class ReloadedApp(Protocol):
    """The gateway as its reloader knows it."""

    config: Config
    config_status: ConfigStatus

    def note_config(self, status: ConfigStatus) -> None:
        """Store which configuration is in force, and why the last one was refused."""

    async def reopen_listeners(self) -> list[str]:
        """Open again the listeners to which no client can connect; return why some cannot be opened."""

    async def change_config(self, config: Config) -> None:
        """Serve another configuration; if that fails, serve on as before, and raise ConfigError or OSError."""


def compare(old: Config, new: Config) -> ConfigChanges:
    before, after = ({route.name: route for route in config.routes} for config in (old, new))
    return ConfigChanges(
        added=[name for name in after if name not in before],
        changed=[name for name in after if name in before and after[name] != before[name]],
        removed=[name for name in before if name not in after],
        tables=[name for name in TABLES if getattr(old, name) != getattr(new, name)],
        kept_by_listeners=list(_find_kept(old, new)),
    )


def _find_kept(old: Config, new: Config) -> Iterator[str]:
    """Yield the changed limits of listeners that stay open, as ROUTE.LIMIT.

    Such a listener keeps them until it is opened again: at a restart, or with another endpoint.
    """
    before = {route.name: route for route in old.routes}
    for route in new.routes:
        former = before.get(route.name)
        if former is None:
            continue
        kept = [registry.spec_of(one).kept_limits for one in route.listen if one in former.listen]
        names = dict.fromkeys(chain.from_iterable(kept))
        limits, others = former.apply_limits(old.limits), route.apply_limits(new.limits)
        yield from (f"{route.name}.{name}" for name in names if getattr(limits, name) != getattr(others, name))


class ConfigReloader:
    """Reloads the configuration of an app on request.

    `read` returns the configuration, or raises ConfigError. Each reload runs within the context that `announce`
    returns. The ops port changes within the context that `replace_ops` returns.
    """

    def __init__(
        self,
        app: ReloadedApp,
        read: Callable[[], Config],
        announce: Callable[[], AbstractContextManager[None]] = nullcontext,
        replace_ops: Callable[[Ops | None], AbstractAsyncContextManager[None]] = lambda _ops: nullcontext(),
    ) -> None:
        self._app = app
        self._read = read
        self._announce = announce
        self._replace_ops = replace_ops
        self._wanted = asyncio.Event()
        self._not_opened: list[str] = []

    def request(self) -> None:
        """Reload soon. Requests that come during a reload are one further reload."""
        self._wanted.set()

    async def run(self) -> None:
        """Reload whenever it is requested, and open listeners again meanwhile; runs until cancelled."""
        while True:
            try:
                async with asyncio.timeout(REOPEN):
                    await self._wanted.wait()
            except TimeoutError:
                await self.reopen_listeners()
                continue
            self._wanted.clear()
            with self._announce():
                await self.reload()

    async def reopen_listeners(self) -> None:
        """Open listeners and the ops port again if the file of their socket is gone, such as after cleaning /tmp."""
        causes = [*await self._app.reopen_listeners()]
        try:
            async with self._replace_ops(self._app.config.ops):
                pass
        except (DragomanError, OSError) as error:
            causes.append(full_reason(error))
        if causes and causes != self._not_opened:
            log.error("listener failed", cause="; ".join(causes))
        self._not_opened = causes

    async def reload(self) -> None:
        """Read, validate and apply the configuration, log the outcome, and note it as the status of the app."""
        status = self._app.config_status
        try:
            new = await asyncio.to_thread(self._read)  # it may wait for a pipe, and import dialects
            changes = compare(self._app.config, new)
            async with self._replace_ops(new.ops):
                await self._app.change_config(new)
        except Exception as error:  # a module that was replaced, or another package's dialect: the gateway serves on
            known = isinstance(error, DragomanError | OSError)
            cause = full_reason(error) if known else f"{type(error).__name__}: {error}; {RESTART}"
            self._app.note_config(structs.replace(status, refused_at=time.time_ns(), cause=cause))
            log.error(  # noqa: TRY400  # the traceback of a known error says no more
                "configuration refused, nothing changed",
                exc_info=not known,
                action="reload",
                principal="operator",
                outcome="refused",
                generation=status.generation,
                cause=cause,
            )
            return
        self._app.note_config(ConfigStatus(generation=status.generation + 1, since=time.time_ns()))
        log.info(
            "configuration reloaded",
            action="reload",
            principal="operator",
            outcome="done",
            generation=status.generation + 1,
            **structs.asdict(changes),
        )


async def watch_file(file: Path, on_change: Callable[[], None]) -> None:
    """Call `on_change` whenever the content of a file may have changed; runs until cancelled.

    A change is a save in place, a save by rename, or the swap of a symbolic link:

        /etc/dragoman/config.toml -> ..data/config.toml      Kubernetes mounts a ConfigMap like this, and
        /etc/dragoman/..data      -> ..2026_11_22            renames a new link over `..data`

    The file is checked through all links on its path. So all these changes look the same, and are noticed on every file
    system, also on one that reports no events. An editor or the kubelet takes several steps, so a change counts once
    two checks in a row have found the same.
    """
    known = last = await asyncio.to_thread(_stamp, file)
    while True:
        await asyncio.sleep(LOOK)
        before, last = last, await asyncio.to_thread(_stamp, file)
        if last == before != known:
            known = last
            on_change()


def _stamp(file: Path) -> tuple[int, ...]:
    """Return a value that changes with the content of a file, () if the file is missing for a moment."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
