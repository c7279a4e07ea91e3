"""The ops port of a serving command, which a reload can open, replace or close."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Self

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Ops
from dragoman.gateway.observability import logs

if TYPE_CHECKING:
    from dragoman.gateway.ops.server import OpsServer


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
        """Serve the port as `wanted` says once the block has ended, but as before if the block raises an error.

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
        logs.tell(f"ops {server.url}", sys.stderr)
        return server


def _has_same_address(one: Ops | None, other: Ops | None) -> bool:
    return one is not None and other is not None and one.listen == other.listen
