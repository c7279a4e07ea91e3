"""A recording served beside whatever the caller does: an app in a thread of its own, with its own loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

import structlog

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.replay.driving import DEADLINE, Driven
from dragoman.gateway.replay.reports import Report
from dragoman.gateway.replay.standalone import drive, driven_play, replaying
from dragoman.mappings.errors import ConfigError, DragomanError

__all__ = ["Served", "driven", "listen_endpoint", "served"]

log = structlog.get_logger("dragoman.replay")

START = 10.0  # seconds until it must listen
END = 10.0  # seconds until it must have ended
LIMITS = Limits(drain_deadline=0.2)  # who ends the replay has seen what it wanted
PLACES = {
    "smooth": "smooth+ws://127.0.0.1:0/ws",
    "pod": "pod+unix:{folder}/sock",
    "pando": "pando+tcp://127.0.0.1:0",
    "codewhale": "codewhale+unix:{folder}/sock",
}


class Served:
    """A recording that is being served at `endpoint`. `reports` are what became of each command so far."""

    def __init__(self, endpoint: str, app: App) -> None:
        self.endpoint = endpoint
        self.reports: list[Report] = []
        (replay,) = app.replays.values()
        replay.reporter.heard = self.reports.append

    @property
    def url(self) -> str:
        """The endpoint without its dialect: `ws://127.0.0.1:PORT/ws`, `unix:PATH`."""
        return self.endpoint.partition("+")[2]

    @property
    def divergences(self) -> list[str]:
        """What was said to it and is not in the recording, with what came near: lines for people."""
        return [line for report in self.reports if report.refused for line in report.explained()]


def listen_endpoint(text: str, folder: Path) -> Endpoint:
    """An endpoint to listen on: as it is written, or for a dialect alone a free place of it, below `folder`."""
    if "+" in text:
        return parse(text)
    if text not in PLACES:
        raise ConfigError(f"{text!r}: write an endpoint, or one of {', '.join(PLACES)}")
    return parse(PLACES[text].format(folder=folder))


@contextmanager
def served(file: Path, listen: Endpoint, **options: str) -> Iterator[Served]:
    """Serve a recording until the block ends. ConfigError and OSError for what is in the way."""
    app = replaying(file, (listen,), limits=LIMITS, record=None, **options)
    told: Queue[str | BaseException] = Queue()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await app.run(told.put)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # it is raised where somebody waits for it
            told.put(error)

    thread = threading.Thread(target=run, name="dragoman:replay", daemon=True)
    thread.start()
    try:
        yield Served(_first(told), app)
    finally:
        if thread.is_alive() and loops:
            loops[0].call_soon_threadsafe(app.stop.set)
        thread.join(END)


def driven(file: Path, upstream: str, deadline: float = DEADLINE) -> Driven:
    """Drive a live backend by a recording, in a thread of its own: the caller may have a loop that runs."""
    found: list[Driven] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            play = driven_play(file)
            if play.recording.problems:
                log.warning("the recording is not whole", file=str(file), why=str(play.recording.problems))
            found.append(asyncio.run(drive(play, parse(upstream), deadline=deadline)))
        except BaseException as error:  # noqa: BLE001  # it is raised where somebody waits for it
            errors.append(error)

    thread = threading.Thread(target=run, name="dragoman:drive")
    thread.start()
    thread.join()
    for error in errors:
        raise _innermost(error)
    return found[0]


def _first(told: Queue[str | BaseException]) -> str:
    try:
        first = told.get(timeout=START)
    except Empty:
        raise DragomanError(f"the replay did not listen within {START:g} s") from None
    if isinstance(first, BaseException):
        raise _innermost(first)
    return first


def _innermost(error: BaseException) -> BaseException:
    """The error that ended a TaskGroup."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
