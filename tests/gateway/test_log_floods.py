"""A client that floods the gateway causes a bounded number of log lines, whatever it sends."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import structlog
from structlog.testing import LogCapture

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.backend import DemoBackend
from dragoman.gateway.demo.script import Scripts
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.observability import log_throttle, logs
from dragoman.gateway.registry import dialects
from dragoman.gateway.session.ports import BackendEvents
from dragoman.mappings.canonical import Command
from dragoman.mappings.dialect import Burst
from tests.chaos.clients import ChaosClient, LineClient, PandoChaosClient, SmoothChaosClient, connected
from tests.chaos.pair import NO_TURN
from tests.dialects import parts
from tests.legal_samples import SESSION, legal_samples
from tests.pairs.gateway import serving
from tests.pairs.table import DIALECTS, LISTEN

MOST = 4  # lines of one kind in this test
ROUNDS = MOST + 2


@contextlib.contextmanager
def limited_lines() -> Iterator[Counter[str]]:
    """Log at a standstill of the clock; count the lines by what they tell."""
    capture, counts = LogCapture(), Counter[str]()
    structlog.configure(
        processors=[log_throttle.LineLimit(lambda: 0), capture],
        logger_factory=logs.LineLogger,
    )
    try:
        yield counts
        lines = [line for line in capture.entries if line["log_level"] != "debug"]
        counts.update(f"{line['event']} {line.get('action', '')}".strip() for line in lines)
    finally:
        structlog.reset_defaults()


def session_of(client: ChaosClient) -> str:
    return str(getattr(client, "session", "") or getattr(client, "thread", ""))


async def send(client: ChaosClient, frame: str) -> None:
    """Send a frame as its dialect does."""
    match client:
        case SmoothChaosClient():
            await client._socket.send_str(frame)
        case LineClient():
            client._writer.write(frame.encode() + b"\n")
            await client._writer.drain()
        case PandoChaosClient():
            call = json.loads(frame)
            await client.call(call["method"], call.get("params"))


async def visit(dialect: str, address: str, frames: list[str]) -> None:
    """Open a session, cancel a turn, and send these frames."""
    async with connected(dialect, address) as client:
        await client.open()
        turn = await client.ask("wait")
        while not turn.over.is_set():
            await send(client, parts(dialect).cancel.replace("%s", session_of(client)))
            await client.ping()
        for frame in frames:
            with contextlib.suppress(*NO_TURN):
                await send(client, frame.replace(SESSION, session_of(client)))
        with contextlib.suppress(*NO_TURN):
            await client.ping()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_client_that_sends_every_command_without_end_causes_few_lines_of_each_kind(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_throttle, "LINE_BURST", MOST)
    commands = dialects()[dialect].commands
    items = [item for kind in get_args(Command) for item in legal_samples(kind)[:1]]
    frames = [frame.decode() for item in items for frame in commands.write(Burst(items=[item])).frames]
    route = Route(
        name="test",
        listen=(parse(LISTEN[dialect].format(folder=tmp_path)),),
        upstream=Endpoint(dialect="smooth", transport="demo", address="conversation"),
    )

    def demo(session: BackendEvents) -> DemoBackend:
        return DemoBackend(session, app.spawn, Scripts(()))

    app = App(Config(routes=(route,), limits=Limits(drain_deadline=0.1)), make_backend=demo)
    with limited_lines() as counts:
        async with serving(app) as endpoints:
            for _ in range(ROUNDS):
                with contextlib.suppress(*NO_TURN):
                    await visit(dialect, endpoints[0].partition("+")[2], frames)
    assert counts["client connected"] == MOST
    assert counts["audit cancel"] == MOST
    assert max(counts.values()) <= 2 * MOST  # an action may be done or not
