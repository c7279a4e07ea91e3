"""Check that the backends of a configuration can be reached: connect to each upstream and disconnect."""

from __future__ import annotations

import asyncio

from dragoman.gateway import registry
from dragoman.gateway.config.model import Config, Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.transports.spec import Children

__all__ = ["probe"]


async def probe(config: Config) -> list[str]:
    """Return for each route, in order, why its upstream cannot be reached, or ""."""
    async with Children(config.limits.children) as children, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_dial(route.upstream, config.limits, children), name=f"{route.name}:probe")
            for route in config.routes
        ]
    return [task.result() for task in tasks]


async def _dial(endpoint: Endpoint, limits: Limits, children: Children) -> str:
    if registry.played(endpoint):
        return ""  # a recording: its file was checked before
    deadline = limits.connect_deadline
    try:
        async with asyncio.timeout(deadline):
            transport = await registry.connector(endpoint, limits, children)()
    except TimeoutError:
        return f"{endpoint.masked} did not accept within {deadline:g} s"
    except OSError as error:
        return f"{endpoint.masked} cannot be reached: {error.strerror or error}"
    await transport.close()
    return ""
