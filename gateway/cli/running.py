"""The event loop of a serving command, its logs on stderr, its ops port, and the signals that end it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import structlog
import typer
import uvloop
from msgspec import structs

from dragoman.gateway.app import App
from dragoman.gateway.backends.status import LOOK, BackendLosses
from dragoman.gateway.cli import quick_start
from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import Ops
from dragoman.gateway.config.startup import find_hazards, probe
from dragoman.gateway.observability import logs
from dragoman.gateway.overload import descriptors
from dragoman.gateway.process.runtime import configure_interpreter, return_free_memory, start_threads
from dragoman.gateway.process.systemd import INHERITED, ServiceNotifier
from dragoman.gateway.reload import ConfigReloader, watch_file
from dragoman.mappings.errors import DragomanError, first_error

if TYPE_CHECKING:
    from dragoman.gateway.ops.server import OpsServer

log = structlog.get_logger("dragoman")


def set_up(log_level: str, log_json: bool, log_content: bool = False) -> None:
    """Configure the logs of a serving command from its options."""
    INHERITED.adopt()
    descriptors.raise_limit()
    configure_interpreter()
    logs.configure(log_level, as_json=log_json, content=log_content)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of `work`, run on uvloop.

    It takes 0.85x the CPU time of asyncio's own loop (docs/measurements.md, section 3).
    """
    quick_start.end()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    except asyncio.CancelledError:
        raise typer.Exit(1) from None  # a second signal ends the gateway before all clients were told
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def serve_until_signalled(
    gateway: App,
    *,
    file: Path | None = None,
    watch: bool = False,
    exit_on_backend_loss: bool = False,
) -> None:
    """Run an app until SIGTERM or SIGINT, and print a line on stderr for each listener that accepts connections.

    Log a warning for each hazard (`find_hazards`), and for each backend that cannot be reached. With `file`, SIGHUP
    reloads this configuration; with `watch`, each change of the file does so, too. With `exit_on_backend_loss`, raise
    DragomanError once a backend is lost that was reached before.
    """
    await start_threads()
    ops_port = OpsPort(gateway)
    notifier = ServiceNotifier(partial(_describe, gateway))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(return_free_memory(), name="heap")]
        if notifier.is_used:
            tasks.append(group.create_task(notifier.follow(gateway.ready, gateway.stop), name="service manager"))
        if exit_on_backend_loss:
            tasks.append(group.create_task(_end_with_backend(gateway), name="backend loss"))
        reloader = ConfigReloader(
            gateway,
            lambda: gateway.config if file is None else load(file, in_force=gateway.config),
            notifier.reloading,
            ops_port.replaced,
        )
        if file is not None and watch:
            tasks.append(group.create_task(watch_file(file, reloader.request), name="reload:watch"))
        gateway.on_signals(reloader.request if file is not None else None)
        try:
            await _serve(gateway, ops_port, partial(gateway.run, meanwhile=reloader.run))
        finally:
            for task in tasks:
                task.cancel()


async def _end_with_backend(gateway: App) -> None:
    """Stop a gateway with an error once the backend of a route is lost."""
    await gateway.ready.wait()
    losses, clock = BackendLosses(), asyncio.get_running_loop().time

    def grace_of(name: str) -> float:
        route = next((route for route in gateway.config.routes if route.name == name), None)
        limits = gateway.config.limits if route is None else route.apply_limits(gateway.config.limits)
        return limits.reconnect_grace

    while True:
        lost = losses.find_lost(gateway.upstreams.statuses, clock(), grace_of)
        if lost is None:
            await asyncio.sleep(LOOK)
        elif await _is_reachable(gateway, lost):
            losses.note_reachable(lost, clock())
        else:
            cause = gateway.upstreams.statuses[lost].fault
            gateway.fail(DragomanError(f"the backend of route {lost!r} is lost (--exit-on-backend-loss): {cause}"))
            return


async def _is_reachable(gateway: App, name: str) -> bool:
    """Return True if an upstream of a route accepts a connection, or the route is gone since a reload."""
    config = gateway.config
    route = next((route for route in config.routes if route.name == name), None)
    if route is None:
        return True
    takers = gateway.upstreams.find_takers(route)
    if not takers:
        return False
    probed = structs.replace(route, upstream=takers[0], failover=tuple(takers[1:]))
    return not all(await probe(structs.replace(config, routes=(probed,)), starting=True))


def _describe(gateway: App) -> str:
    """Return the state of a gateway as one line for its service manager."""
    status = gateway.config_status
    count = len(gateway.config.routes)
    text = f"serving {count} {'route' if count == 1 else 'routes'}, configuration {status.generation}"
    return f"{text}; the newer one was refused: {status.cause}" if status.cause else text


async def _serve(gateway: App, ops_port: OpsPort, run: Callable[..., Awaitable[None]]) -> None:
    async with ops_port, asyncio.TaskGroup() as group:
        hazards = list(find_hazards(gateway.config))  # now: a recording may exist later
        warning = group.create_task(_warn(gateway, hazards), name="start:warnings")
        try:
            await run(lambda endpoint: logs.write_line(f"listening {endpoint}", sys.stderr))
        finally:
            warning.cancel()


async def _warn(gateway: App, hazards: list[str]) -> None:
    await gateway.ready.wait()
    await asyncio.to_thread(logs.prepare_redaction)  # else all clients would wait while the first line is logged
    for text in hazards:
        log.warning(text)
    if shortage := descriptors.descriptor_shortage():
        log.warning("no client can connect", cause=shortage)
    for name in INHERITED.untaken:
        log.warning("no listener has taken an inherited socket: add ?fd=NAME to its endpoint", name=name)
    routes = [route for route in gateway.config.routes for _upstream in route.upstreams]
    for route, text in zip(routes, await probe(gateway.config, starting=True), strict=True):
        if text:
            log.warning("backend not reachable yet", route=route.name, cause=text)


class OpsPort:
    """The ops port of a gateway, if its configuration has one; without one, its modules are not imported."""

    def __init__(self, gateway: App) -> None:
        self._gateway = gateway
        self._options: Ops | None = None
        self._server: OpsServer | None = None
        self._stack = AsyncExitStack()  # closes the server

    async def __aenter__(self) -> Self:
        self._options = self._gateway.config.ops
        self._server = await self._open(self._options, self._stack)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def replaced(self, wanted: Ops | None) -> AsyncIterator[None]:
        """Serve the port by the options `wanted` after the block. If the block raises an exception, serve it as before.

        A port at the same address stays open and gets the new tokens, if clients can still connect. Else the new port
        opens before the block, and the former one closes after it. Raise OSError if the new one cannot be opened.
        """
        former, server = self._options, self._server
        if server is not None and server.is_reachable and _has_same_address(former, wanted):
            yield
            if wanted is not None:
                server.change_options(wanted)
        else:
            async with AsyncExitStack() as stack:
                opened = await self._open(wanted, stack)
                yield
                former_stack, self._stack = self._stack, stack.pop_all()
            self._server = opened
            await former_stack.aclose()
        self._options = wanted

    async def _open(self, options: Ops | None, stack: AsyncExitStack) -> OpsServer | None:
        if options is None:
            return None
        from dragoman.gateway.ops.server import OpsServer

        server = await stack.enter_async_context(OpsServer(options, self._gateway))
        logs.write_line(f"ops {server.url}", sys.stderr)
        return server


def _has_same_address(one: Ops | None, other: Ops | None) -> bool:
    return one is not None and other is not None and one.listen == other.listen
