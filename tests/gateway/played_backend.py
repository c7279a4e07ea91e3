"""A gateway on real sockets whose backends are played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.dialect import Burst
from tests.pairs.gateway import DEADLINE


class PlayedBackend:
    """A backend played by the test."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.asked: asyncio.Queue[Command] = asyncio.Queue()
        self.starts = 0
        self.failures = 0
        self.stopped = False

    def start(self) -> None:
        self.starts += 1
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError

    def send(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.asked.put_nowait(command)

    def suspend(self) -> bool:
        return False

    def stop(self) -> None:
        self.stopped = True

    def sends(self, *events: Event) -> None:
        self.session.receive([Burst(items=list(events))])


class PodClients:
    """Pod clients that read and write lines of the sockets in one folder, which are closed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, name: str) -> asyncio.StreamReader:
        """Connect, and read the history, which a pod sends first."""
        reader, writer = await asyncio.open_unix_connection(self.folder / name)
        self._writers.append(writer)
        async with asyncio.timeout(DEADLINE):
            assert b"snapshot" in await reader.readline()
        return reader

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def route_of(folder: Path, name: str, *sockets: str, upstream: str = "pod+unix:/played") -> Route:
    """Return a route that listens at these sockets of a folder for pod clients."""
    listen = tuple(parse(f"pod+unix:{folder}/{socket}") for socket in sockets)
    return Route(name=name, listen=listen, upstream=parse(upstream))


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[tuple[App, list[PlayedBackend], list[str]]]:
    """Run a gateway with played backends; yield its backends so far and its endpoints."""
    told: list[str] = []
    played: list[PlayedBackend] = []

    def make(session: BackendEvents) -> PlayedBackend:
        played.append(PlayedBackend(session))  # type: ignore[arg-type]  # the test asks nothing else of it
        return played[-1]

    app = App(config, make_backend=make)
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        group.create_task(app.run(told.append), name="app")
        await app.ready.wait()
        yield app, played, told
        app.stop.set()
