"""Serve the ops port in a thread of its own, so that it answers also while the gateway's event loop is stuck.

The thread has its own event loop. It reads nothing of the gateway by itself: each request runs a coroutine in the
gateway's loop and waits for its result, for a bounded time. The thread also watches the heartbeat of that loop. If it
is late by `stuck_after`, the log gets the stack of the thread that is stuck, and /livez fails.

aiohttp waits for a first request without a deadline. So any peer could keep a descriptor for each connection, and the
gateway shares its descriptors with its clients. There are at most CONNECTIONS_MAX, and none that is idle for long. A
new connection closes the one that was idle longest, so that idle ones never keep a probe out. While descriptors are
short, there are at most SHORT_MAX.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Self

import structlog
from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.log import server_logger
from aiohttp.typedefs import Handler
from msgspec import structs

from dragoman.adapters.listening import bind_host
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Ops
from dragoman.gateway.config.ops_address import OpsAddress, parse_ops_address
from dragoman.gateway.observability.log_throttle import bad_request_counter
from dragoman.gateway.ops.admin import Admin, Operation, describe_ops
from dragoman.gateway.ops.gateway_loop import LOOK, GatewayLoop, LoopHeartbeat
from dragoman.gateway.ops.guard import AUTHORISED, BODY_MAX, Guard, respond
from dragoman.gateway.ops.health import Check, Health, Liveness, Readiness
from dragoman.gateway.ops.metrics import collect_metrics, encode_metrics
from dragoman.gateway.ops.queries import ReadinessQuery, parse_query
from dragoman.gateway.overload.descriptors import descriptor_shortage
from dragoman.gateway.process.runtime import start_thread, start_threads
from dragoman.gateway.transports.spec import bind_failure

KEEP_ALIVE = 30.0  # seconds that an idle connection stays open: longer than the usual 15 s between two scrapes
BACKLOG = 128  # connections that the kernel keeps until they are accepted
LIVENESS = "Tell whether the event loop runs (200) or is stuck (503)."
READINESS = "Tell whether clients can be served (200) or why not (503)."
CLOSE_DEADLINE = 1.0  # seconds for requests that are being answered when the gateway ends

log = structlog.get_logger("dragoman.ops")


class RequestLogger(logging.LoggerAdapter[logging.Logger]):
    """aiohttp's logger of one HTTP server. It calls `bad_request` with the kind of each malformed request.

    The text of such an error quotes the request, which may contain a token, so it is not passed on.
    """

    def __init__(self, bad_request: Callable[[str], None]) -> None:
        super().__init__(server_logger, {})
        self._bad_request = bad_request

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        """Log anything but a malformed request."""
        error = options.get("exc_info")
        if isinstance(error, HttpProcessingError | web.RequestPayloadError):
            self._bad_request(type(error).__name__)
        else:
            super().log(level, msg, *args, **options)


class OpsServer:
    """The HTTP server of the ops port, as a context manager of the gateway's event loop."""

    def __init__(self, options: Ops, gateway: App) -> None:
        self._options = options
        self._gateway = gateway
        self._address = parse_ops_address(options.listen)
        self._guard = Guard(options, local=bool(self._address.path))
        self._heartbeat = LoopHeartbeat()
        self._note_bad_request = bad_request_counter(gateway.ledger.counters, time.monotonic_ns)
        self._sockets: list[socket.socket]
        self._file: tuple[int, int] | None = None  # the identity of the socket's file
        self._loop: asyncio.AbstractEventLoop
        self._gateway_loop: GatewayLoop
        self._health: Health
        self._operations: list[Operation]
        self._stop = asyncio.Event()
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="ops", daemon=True)

    async def __aenter__(self) -> Self:
        self._sockets = _bind(self._address)
        self._file = _identity(self._address)
        self._gateway_loop = GatewayLoop()
        self._health = Health(self._gateway, self._gateway_loop)
        self._operations = [
            Operation("get", "/livez", LIVENESS, self._livez, Liveness),
            Operation("get", "/readyz", READINESS, self._readyz, Readiness, ReadinessQuery),
            Operation("get", "/metrics", "Show the metrics for Prometheus.", self._metrics),
            *Admin(self._gateway, self._gateway_loop).operations(),
            Operation("get", "/openapi.json", "Show this description.", self._openapi),
        ]
        with contextlib.ExitStack() as undo:
            undo.callback(self._release)
            for bound in self._sockets:
                undo.callback(bound.close)
            self._heartbeat.start()
            start_thread(self._thread)
            await asyncio.wrap_future(self._started)
            undo.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the thread has failed, and has logged why
            self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join, 2 * CLOSE_DEADLINE)
        self._release()

    def _release(self) -> None:
        """Stop the heartbeat, and remove the file of the socket."""
        self._heartbeat.stop()
        if self._file is not None and self.is_reachable:  # else the file is another process's
            with contextlib.suppress(OSError):
                os.unlink(self._address.path)

    def change_options(self, options: Ops) -> None:
        """Use other options, with the same address, from the next request on."""
        self._options = options
        self._guard.change_options(options)

    @property
    def is_reachable(self) -> bool:
        """Return False if no client can connect any more: the file of the socket was removed or replaced."""
        return self._file == _identity(self._address)

    @property
    def url(self) -> str:
        """The address where the server listens, with the port that was chosen."""
        if self._address.path:
            return str(self._address)
        return str(structs.replace(self._address, port=self._sockets[0].getsockname()[1]))

    # -- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        except Exception as error:
            if self._started.done():
                log.exception("the ops port failed")
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_log_error)
        await start_threads(1)  # for the disk of the recordings
        connections = OpsConnections()
        app = web.Application(middlewares=[connections.middleware, self._guard.middleware], client_max_size=BODY_MAX)
        for operation in self._operations:
            getattr(app.router, f"add_{operation.method}")(operation.path, operation.handler)  # a GET allows HEAD
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=RequestLogger(partial(self._gateway_loop.call_soon, self._note_bad_request)),
            keepalive_timeout=KEEP_ALIVE,
            shutdown_timeout=CLOSE_DEADLINE,
            handle_signals=False,
        )
        await runner.setup()
        if runner.server is None:
            raise RuntimeError("aiohttp made no server")
        connections.use_server(runner.server)
        # asyncio accepts `backlog` connections before the first one gets its protocol, and only that closes others. If
        # it cannot accept one, it logs each of these attempts, and repeats as many a second later: eight become 64.
        listeners = [
            await self._loop.create_server(connections.accept, sock=bound, backlog=1) for bound in self._sockets
        ]
        for bound in self._sockets:
            bound.listen(BACKLOG)
        self._started.set_result(None)
        try:
            await self._watch(connections)
        finally:
            for listener in listeners:
                listener.close()
            await runner.cleanup()

    async def _watch(self, connections: OpsConnections) -> None:
        """Log the stack of the gateway's thread whenever its loop gets stuck, until the server is stopped.

        Close idle connections meanwhile.
        """
        reported = False
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._stop.wait()
            connections.close_idle()
            stuck = self._heartbeat.look()
            if stuck >= self._options.stuck_after and not reported:
                frame = sys._current_frames().get(self._gateway_loop.thread)  # noqa: SLF001  # the one way to see its stack
                stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
                log.error("the event loop is stuck", seconds=round(stuck, 1), stack=stack)
            reported = stuck >= self._options.stuck_after

    async def _metrics(self, request: web.Request) -> web.Response:
        metrics = await self._gateway_loop.ask(lambda: collect_metrics(self._gateway, self._heartbeat))
        body, content_type = encode_metrics(metrics, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _openapi(self, _request: web.Request) -> web.Response:
        return respond(describe_ops(self._operations))

    # -- probes ----------------------------------------------------------------------------------------

    async def _livez(self, _request: web.Request) -> web.Response:
        stuck = self._heartbeat.look()
        live = stuck < self._options.stuck_after
        return respond(Liveness(live=live, stuck_for=0.0 if live else round(stuck, 1)), 200 if live else 503)

    async def _readyz(self, request: web.Request) -> web.Response:
        wanted = parse_query(request, ReadinessQuery)
        try:
            found = await self._health.find_readiness()
        except TimeoutError:
            cause = f"the event loop has been blocked for {self._heartbeat.look():.1f} s"
            found = Readiness(ready=False, status="not ready", checks=[Check(name="loop", ready=False, cause=cause)])
        if not request[AUTHORISED]:
            found = structs.replace(found, checks=[])
        elif wanted.verbose is None:
            found = structs.replace(found, checks=[check for check in found.checks if not check.ready])
        return respond(found, 200 if found.ready else 503)


def _log_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an uncaught error of the event loop. A connection that cannot be accepted is logged in one line."""
    error = context.get("exception")
    if isinstance(error, OSError) and "socket" in context:
        log.warning("the ops port cannot accept a connection, trying again", error=error.strerror)
    else:
        loop.default_exception_handler(context)


def _identity(address: OpsAddress) -> tuple[int, int] | None:
    """Return the identity of the file of a Unix socket; None for a port, and if there is no file."""
    if not address.path:
        return None
    from dragoman.gateway.transports.unix import file_identity  # not needed for a port

    return file_identity(address.path)


def _bind(address: OpsAddress) -> list[socket.socket]:
    """Return sockets bound to this address, one for each address of a host; raise OSError with the reason."""
    if address.path:
        from dragoman.gateway.transports.unix import bind_socket  # not needed for a port

        return [bind_socket(address.path)]
    try:
        return bind_host(address.host, address.port)
    except OSError as error:
        raise bind_failure(f"the ops port {address}", f"{address.host}:{address.port}", error) from error


CONNECTIONS_MAX = 64  # at once: probes, a scraper or two and some operators need ten
SHORT_MAX = 8  # at once while descriptors are short: enough for probes and an operator, a quarter of the reserve
IDLE_MAX = 30.0  # seconds without a whole request: longer than the usual 15 s between two scrapes


class OpsConnections:
    """The connections of one HTTP server."""

    def __init__(self) -> None:
        self._server: web.Server
        self._idle_since: dict[object, float] = {}
        self._busy: set[object] = set()

    def use_server(self, server: web.Server) -> None:
        """Take the server, which is made after its middlewares."""
        self._server = server

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count a connection as busy while its request is answered."""
        connection = request.protocol
        self._busy.add(connection)
        try:
            return await handler(request)
        finally:
            self._busy.discard(connection)
            self._idle_since[connection] = time.monotonic()

    def accept(self) -> asyncio.Protocol:
        """Return the protocol of a new connection, and make room for it."""
        self.close_idle(room=1)
        return self._server()

    def close_idle(self, room: int = 0) -> None:
        """Close the connections that were idle for too long, and those idle longest until there is room."""
        now = time.monotonic()
        alive = [one for one in self._server.connections if one.transport is not None]  # and not closed yet
        self._idle_since = {one: self._idle_since.get(one, now) for one in alive}
        alive.sort(key=lambda one: (one in self._busy, self._idle_since[one]))
        most = SHORT_MAX if descriptor_shortage() else CONNECTIONS_MAX
        excess = len(alive) + room - most  # the list lacks connections that were accepted just now
        for number, connection in enumerate(alive):
            is_old = connection not in self._busy and now - self._idle_since[connection] > IDLE_MAX
            if is_old or number < excess:
                connection.force_close()
