"""Check that the backends of a configuration can be reached: connect to each upstream and look at its first frame."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.adapters.base import NOT_LISTENING, Transport
from dragoman.gateway import registry
from dragoman.gateway.config.local_sockets import find_local_server
from dragoman.gateway.config.model import Config, Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.first_frames import PATIENCE, FirstFrames
from dragoman.gateway.public_reason import exit_reason, without_secrets
from dragoman.gateway.transports import Children
from dragoman.gateway.transports.child_settings import route_spawner
from dragoman.gateway.transports.spec import Spawner
from dragoman.mappings.dialect import Frame

if TYPE_CHECKING:
    from dragoman.gateway.pods.live import Pods

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
    """Return False if no pod of the directory listens, as the system tells without a connection."""
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
    """Return why the backend cannot be one of this dialect, or "". One that is silent for a second may be one."""
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
    said = ": ".join(filter(None, (complaint, gone))) or (NO_MESSAGE if is_over and not understood else "")
    return f"{endpoint.masked} {said}" if said else ""
