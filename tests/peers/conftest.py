"""The real smooth server, for tests of one client with it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.peers.smooth_server import RealServer, serving


@pytest.fixture
async def server() -> AsyncIterator[RealServer]:
    async with serving() as real:
        yield real
