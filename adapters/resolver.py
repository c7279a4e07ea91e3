"""The resolver of the HTTP connections that we open: it has names looked up in threads of their own."""

from __future__ import annotations

import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from dragoman.adapters.lookup import look_up


class LookupResolver(AbstractResolver):
    """aiohttp's interface to `look_up`."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host; raise OSError if there are none."""
        return [
            ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=socket.AI_NUMERICHOST)
            for found, address in await look_up(host, family)
        ]

    async def close(self) -> None:
        """Do nothing: a lookup ends by itself."""
