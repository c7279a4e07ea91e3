"""Whether the backends of a configuration can be reached: each upstream is dialled once and left again."""

from __future__ import annotations

import asyncio

from gateway import registry
from gateway.config.model import Config, Limits
from gateway.endpoint import Endpoint

__all__ = ["probe"]


async def probe(config: Config) -> list[str]:
    """For each route, in its order, why its upstream cannot be reached; "" where it can."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_dial(route.upstream, config.limits), name=f"{route.name}:probe")
            for route in config.routes
        ]
    return [task.result() for task in tasks]


async def _dial(endpoint: Endpoint, limits: Limits) -> str:
    deadline = limits.connect_deadline
    try:
        async with asyncio.timeout(deadline):
            transport = await registry.connector(endpoint, limits)()
    except TimeoutError:
        return f"{endpoint.masked} did not accept within {deadline:g} s"
    except OSError as error:
        return f"{endpoint.masked} cannot be reached: {error.strerror or error}"
    await transport.close()
    return ""
