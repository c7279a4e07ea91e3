"""Serve or drive a recording with an app of its own, in the caller's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.config.check import check_route
from dragoman.gateway.config.model import Config, Limits, Recording, Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.driving import DEADLINE, Driven, Driver
from dragoman.gateway.replay.in_process import in_process_dialect
from dragoman.gateway.replay.scenes import Play, read

__all__ = ["drive", "driven_play", "replaying"]

LIMITS = Limits()


def replaying(
    file: Path, listen: tuple[Endpoint, ...], *, limits: Limits = LIMITS, record: Path | None = None, **options: str
) -> App:
    """Return an app that serves a recording; `options` are those of `replay+file:`. Raise ConfigError for invalid
    options.

    With `record` its sessions are recorded into that folder.
    """
    said = tuple((key, value) for key, value in options.items() if value)
    recording = Endpoint(dialect="replay", transport="file", address=str(file), options=said)
    route = Route(name="replay", listen=listen, upstream=recording)
    check_route(route)
    kept = Recording(path=f"{record}/", compress=False) if record is not None else None
    return App(Config(routes=(route,), limits=limits, recording=kept))


def driven_play(file: Path) -> Play:
    """Return the recording's play; raise RecordingError if it is invalid, OSError if it cannot be read."""
    return read(open_recording(file))


async def drive(
    play: Play,
    upstream: Endpoint,
    *,
    deadline: float = DEADLINE,
    progress: Callable[[int], None] = lambda _scenes: None,
) -> Driven:
    """Send the recorded inputs to a live backend and compare; raise DrivingError if no session can be opened."""
    route = Route(name="drive", listen=(), upstream=upstream)
    check_route(route)
    app = App(Config(routes=(route,), limits=Limits(drain_deadline=min(deadline, 1.0))))
    driver = Driver(play, deadline=deadline, progress=progress)
    driven: list[Driven] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run(), name="drive:gateway")
        await app.ready.wait()
        app.join(in_process_dialect(registry.dialect("pod")), driver.transport)
        try:
            driven.append(await driver.run())
        finally:
            app.stop.set()
    return driven[0]
