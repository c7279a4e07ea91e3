"""Serve or drive a recording in a thread with its own event loop, beside the caller's code."""

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

START = 10.0  # seconds until the replay must listen
END = 10.0  # seconds until the replay must have ended
LIMITS = Limits(drain_deadline=0.2)  # the caller ends the replay when it needs no further output
PLACES = {
    "smooth": "smooth+ws://127.0.0.1:0/ws",
    "pod": "pod+unix:{folder}/sock",
    "pando": "pando+tcp://127.0.0.1:0",
    "codewhale": "codewhale+unix:{folder}/sock",
}


class Served:
    """A recording that is served at `endpoint`. `reports` has one entry for each command so far."""

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
        """Lines for people about the refused commands, each with similar recorded ones."""
        return [line for report in self.reports if report.refused for line in report.explained()]


def listen_endpoint(text: str, folder: Path) -> Endpoint:
    """Return an endpoint to listen on: the given one, or for a dialect a free address, if needed below `folder`."""
    if "+" in text:
        return parse(text)
    if text not in PLACES:
        raise ConfigError(f"{text!r}: write an endpoint, or one of {', '.join(PLACES)}")
    return parse(PLACES[text].format(folder=folder))


@contextmanager
def served(file: Path, listen: Endpoint, **options: str) -> Iterator[Served]:
    """Serve a recording until the block ends; raise ConfigError or OSError if that is not possible."""
    app = replaying(file, (listen,), limits=LIMITS, record=None, **options)
    told: Queue[str | BaseException] = Queue()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await app.run(told.put)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
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
    """Drive a live backend with a recording in a separate thread, because the caller may have a running event loop."""
    found: list[Driven] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            play = driven_play(file)
            if play.recording.problems:
                log.warning("the recording is incomplete", file=str(file), why=str(play.recording.problems))
            found.append(asyncio.run(drive(play, parse(upstream), deadline=deadline)))
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
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
    """Return the error that ended a TaskGroup."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
