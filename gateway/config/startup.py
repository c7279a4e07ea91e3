"""Find the hazards of a configuration when a gateway starts, and the backends that cannot be reached.

`find_hazards` looks at this machine alone: programs, folders, addresses. `probe` connects to each upstream and reads
its first frame. What they find never ends the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from dragoman.adapters.base import NOT_LISTENING, Transport
from dragoman.gateway import registry
from dragoman.gateway.config.access import is_public
from dragoman.gateway.config.local_sockets import find_local_server, find_path_hazard
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import Endpoint, Place
from dragoman.gateway.first_frames import PATIENCE, FirstFrames
from dragoman.gateway.identity.listeners import authenticates
from dragoman.gateway.public_reason import exit_reason, without_secrets
from dragoman.gateway.recording.places import folder_of
from dragoman.gateway.transports import Children
from dragoman.gateway.transports.spec import Spawner
from dragoman.gateway.transports.stdio import child_settings, route_spawner
from dragoman.mappings.dialect import Frame

if TYPE_CHECKING:
    from dragoman.gateway.pods.live import Pods

FREE_MIN = 1024 * 1024  # bytes: a second of a busy stream


def find_hazards(config: Config) -> Iterator[str]:
    """Yield one line for each unsafe listener or route, each missing program and each folder that cannot be written."""
    yield from _find_shared_pods(config.routes)
    for route in config.routes:
        for endpoint in route.listen:
            if is_public(endpoint) and not authenticates(endpoint, config.auth):
                yield f"{endpoint.masked} accepts clients from other machines without authentication"
            if not config.given and (why := registry.find_hazard(endpoint)):  # else the check of the file has said so
                yield why
        for upstream in route.upstreams:
            if upstream.is_command and (why := find_missing_program(route, upstream, config)):
                yield why
    if config.ops is not None and config.ops.listen.startswith("unix:"):
        yield from filter(None, [find_path_hazard(Path(config.ops.listen.removeprefix("unix:")))])
    if config.recording is not None and (reason := why_unwritable(config.recording.path)):
        yield f"recordings cannot be written to {config.recording.path}: {reason}"


def _find_shared_pods(routes: Iterable[Route]) -> Iterator[str]:
    """Yield one line for each route to a pod that an earlier route leads to, if sessions of either have owners.

    The owner of a session counts only on its route: a client of the other one can use the same pod.
    """
    first: dict[Place, Route] = {}
    for route in routes:
        dialled = filter(registry.is_dialled, route.upstreams)
        pods = [upstream for upstream in dialled if registry.upstream(upstream).single_session]
        for place in chain.from_iterable(map(registry.places, pods)):
            other = first.setdefault(place, route)
            if other is not route and any(one.share == "owner" and one.open == "busy" for one in (other, route)):
                names = f"routes {other.name!r} and {route.name!r}"
                yield (
                    f"{names} lead to one pod, so a client of one can use what a client of the other owns; "
                    "write one route with the listeners of both"
                )


def find_missing_program(route: Route, upstream: Endpoint, config: Config) -> str:
    """Return why the program of a child cannot be started, or "". A name is searched in the PATH of the child.

    A relative path is not checked, because it depends on the folder of the child.
    """
    program = shlex.split(upstream.address)[0]
    is_name, is_absolute = "/" not in program, program.startswith("/")
    env = child_settings(route, inherit=config.inherit_env).env
    if not (is_name or is_absolute) or shutil.which(program, path=env.get("PATH")):
        return ""
    if is_name:
        return f"{upstream.masked}: no such program in PATH; install it, or write its full path"
    exists = os.path.isfile(program)
    return f"{upstream.masked}: {'not executable; use chmod +x' if exists else 'no such program; check its path'}"


def why_unwritable(text: str) -> str:
    """Return why no file can be written in the folder of the recordings, or ""."""
    folder = Path(os.path.realpath(folder_of(text)))
    existing: Path = next(path for path in (folder, *folder.parents) if path.is_dir())
    try:
        with TemporaryFile(dir=existing):
            free = shutil.disk_usage(existing).free
            return "" if free >= FREE_MIN else f"only {free} bytes are free, and {FREE_MIN} are needed"
    except OSError as error:
        return error.strerror or str(error)


NO_MESSAGE = "ended the connection before its first message"


async def probe(config: Config, *, starting: bool = False) -> list[str]:
    """Return for each upstream of each route, in order, why it cannot be reached, or "".

    A gateway that is `starting` starts no child and connects to no server of this machine: it looks whether one
    listens. To other machines it connects, but does not wait for a first frame.
    """
    async with Children(config.limits.children) as children, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                _why_unreachable(
                    upstream,
                    route.apply_limits(config.limits),
                    route_spawner(children, route, inherit=config.inherit_env),
                    starting,
                ),
                name=f"{route.name}:probe",
            )
            for route in config.routes
            for upstream in route.upstreams
        ]
    return [task.result() for task in tasks]


async def _why_unreachable(endpoint: Endpoint, limits: Limits, spawner: Spawner, starting: bool) -> str:
    if not registry.is_dialled(endpoint) or (starting and endpoint.is_command):
        return ""  # the file of a recording, and the program of a child, are checked before
    if starting and (listens := find_local_server(endpoint)) is not None:
        return "" if listens else f"{endpoint.masked} cannot be reached: {NOT_LISTENING}"
    pods = registry.pods(endpoint)
    if pods is None:
        return await _dial(endpoint, limits, spawner, starting)
    found = _may_listen(pods) if starting else await asyncio.to_thread(_listens, pods)
    return "" if found else f"{endpoint.masked}: no pod is running there (at {endpoint.address}/NAME/sock)"


def _may_listen(pods: Pods) -> bool:
    """Return False if no pod of the directory listens; the system reports that without a connection."""
    return any(find_local_server(pods.endpoint(name)) is not False for name in pods.list_names())


def _listens(pods: Pods) -> bool:
    """Return True if a pod of the directory accepts a connection."""
    return any(pod.listens for pod in pods.probe(pods.list_names()))


async def _dial(endpoint: Endpoint, limits: Limits, spawner: Spawner, starting: bool) -> str:
    deadline = limits.connect_deadline
    try:
        async with asyncio.timeout(deadline):
            transport = await registry.connector(endpoint, limits, spawner)()
    except TimeoutError:
        return f"{endpoint.masked} did not accept within {deadline:g} s"
    except OSError as error:
        return f"{endpoint.masked} cannot be reached: {without_secrets(error.strerror or str(error))}"
    if starting:
        await transport.close()
        return ""
    return await _first_answer(endpoint, transport)


async def _first_answer(endpoint: Endpoint, transport: Transport) -> str:
    """Return the reason why the backend speaks another dialect, or "".

    A backend that is silent for a second is accepted.
    """
    dialect, over = registry.dialect(endpoint.dialect), asyncio.Event()
    first = FirstFrames(dialect, registry.ours, asyncio.get_running_loop().call_later, lambda _first: over.set())
    understood = False

    def take(frames: Sequence[Frame]) -> int:
        nonlocal understood
        if first.take(frames):
            understood = True
            over.set()
        return len(frames)

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(transport.run(take), name="probe:read")
        reading.add_done_callback(lambda _task: over.set())
        with contextlib.suppress(ConnectionError):
            await transport.send(dialect.client(time.time_ns, lambda: "probe", time.monotonic_ns).opened().frames)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await over.wait()
        if first.are_wrong:
            await over.wait()  # for a second since its first frame
        is_over, gone = reading.done(), exit_reason(transport) if reading.done() else ""
        reading.cancel()
        await transport.close()
    complaint = first.complaint(quoted=True) if first.are_wrong else ""
    cause = ": ".join(filter(None, (complaint, gone))) or (NO_MESSAGE if is_over and not understood else "")
    return f"{endpoint.masked} {cause}" if cause else ""
