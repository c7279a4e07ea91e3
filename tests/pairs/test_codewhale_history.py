"""The history of a codewhale thread, as clients of all four dialects get it.

A real server of 0.9.10 stores no message, and reads nothing but interrupts during a turn (docs/dialects/codewhale.md,
sections 1.4 and 3). So the gateway answers from what it saw itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.pairs.codewhale_child import child
from tests.pairs.gateway import bridged
from tests.pairs.recorded import LIMITS
from tests.pairs.table import DIALECTS, LISTEN
from tests.pairs.turn_clients import TurnClient, join


@asynccontextmanager
async def talking(dialect: str, folder: Path) -> AsyncIterator[TurnClient]:
    """Connect a client of this dialect to a gateway before a codewhale child."""
    (folder / "front").mkdir()
    listen = LISTEN[dialect].format(folder=folder / "front")
    async with (
        bridged(child(str(uuid4()), folder), listen=listen, limits=LIMITS) as (_, url),
        join(dialect, url) as peer,
    ):
        yield peer


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_client_gets_the_history_of_a_thread_whose_server_stores_none(dialect: str, tmp_path: Path) -> None:
    async with talking(dialect, tmp_path) as peer:
        await peer.turn("one two")
        await peer.turn("three")
        assert await peer.history() == [
            ("user", "one two"),
            ("assistant", "one two "),
            ("user", "three"),
            ("assistant", "three "),
        ]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_history_does_not_wait_for_the_running_turn(dialect: str, tmp_path: Path) -> None:
    async with talking(dialect, tmp_path) as peer:
        await peer.begin("wait here", 1)
        assert await peer.history() == [("user", "wait here")]
        await peer.cancel()
        await peer.finish()
