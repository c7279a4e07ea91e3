"""`stdio:` endpoints: a command line starts a child process; an empty address is our own stdin and stdout.

A child gets the environment of its route and no shell. If it exits, the next use starts it again, a limited number of
times within a time window. A restart is a Gap, which the child's dialect reports (docs/design.md, section 6).
"""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
from collections import deque
from collections.abc import Callable
from pathlib import Path

from dragoman.adapters import stdio
from dragoman.adapters.base import Listener, PeerFacts, Transport
from dragoman.adapters.stdio import ChildTransport
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, Place
from dragoman.gateway.transports.spec import (
    Connect,
    ListenerCallbacks,
    Spawner,
    TransportSpec,
    transport_limits,
)
from dragoman.mappings.errors import ConfigError

EXAMPLE = "for example codewhale+stdio:codewhale app-server --stdio"
OURS = ("stdio",)
WHO_STARTED_US = PeerFacts(uid=os.getuid(), gid=os.getgid())


def child_starter(
    argv: list[str], cwd: str | None, limits: Limits, spawner: Spawner, clock: Callable[[], float]
) -> Connect:
    """Return a function that starts a session's child, at most `restarts` times again within `restart_window` seconds.

    A child that the gateway itself has ended in order does not count. The function raises OSError with the reason;
    EBUSY or EAGAIN if a later try may succeed.
    """
    started: deque[float] = deque()  # times of the starts within the window
    last: ChildTransport | None = None

    async def start() -> Transport:
        nonlocal last
        now, window = clock(), limits.restart_window
        while started and now - started[0] >= window:
            started.popleft()
        if started and last is not None and last.is_released:
            started.pop()
        last = None
        if len(started) > limits.restarts:
            wait = started[0] + window - now
            text = f"the child ended {len(started)} times within {window:g} s (`restarts`)"
            raise OSError(errno.EAGAIN, f"{text}; it is restarted in {wait:.0f} s")
        last = await spawner.spawn(argv, transport_limits(limits), cwd)
        started.append(now)
        return last

    return start


async def _listen(_endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    return await stdio.listen(transport_limits(limits), callbacks.accept_as(WHO_STARTED_US))


def _dial(endpoint: Endpoint, limits: Limits, spawner: Spawner) -> Connect:
    clock = asyncio.get_running_loop().time
    return child_starter(_argv(endpoint), endpoint.option("cwd") or None, limits, spawner, clock)


def _argv(endpoint: Endpoint) -> list[str]:
    try:
        return shlex.split(endpoint.address)
    except ValueError as error:
        raise ConfigError(f"{endpoint.masked}: {error}; quote arguments as for a shell") from error


def _check_command(endpoint: Endpoint) -> None:
    if not _argv(endpoint):
        raise ConfigError(f"{endpoint.masked}: write the command that starts the backend, {EXAMPLE}")
    cwd = endpoint.option("cwd")
    if cwd and not (Path(cwd).is_absolute() and Path(cwd).is_dir()):
        raise ConfigError(f"{endpoint.masked}: cwd={cwd} is not the absolute path of a folder")


def _check_ours(endpoint: Endpoint) -> None:
    if endpoint.address:
        name = f"{endpoint.dialect}+{endpoint.transport}:"
        raise ConfigError(
            f"{endpoint.masked}: a stdio listener uses dragoman's own stdin and stdout; write only {name}"
        )


def _places(endpoint: Endpoint) -> tuple[Place, ...]:
    return () if endpoint.address else (OURS,)


STDIO = TransportSpec(
    listen=_listen,
    dial=_dial,
    dial_options=frozenset({"cwd", "model"}),
    check_upstream=_check_command,
    check_place=_check_ours,
    places=_places,
)
