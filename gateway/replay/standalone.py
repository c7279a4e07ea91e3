"""Serve or drive a recording with an app of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.backend_client.app_thread import AppThread
from dragoman.gateway.backend_client.client import BackendClient
from dragoman.gateway.config.check import check_route
from dragoman.gateway.config.model import Config, Limits, Recording, Route
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.replay.driving import DEADLINE, Driven, Driver
from dragoman.gateway.replay.matching import MatchReport
from dragoman.gateway.replay.plan import ReplayPlan
from dragoman.gateway.replay.playing import open_plan
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionRequired,
    InteractionResolved,
)
from dragoman.mappings.errors import ConfigError

LIMITS = Limits()
QUICK = Limits(drain_deadline=0.2)  # the caller ends the replay when it needs no further output

QUESTIONS: dict[type, type] = {ApprovalResolved: ApprovalRequested, InteractionResolved: InteractionRequired}
"""The end of a question -> the question; the session adds the end, so a dialect need not express it."""


def replaying(
    file: Path, listen: tuple[Endpoint, ...], *, limits: Limits = LIMITS, record: Path | None = None, **options: str
) -> App:
    """Return an app that serves a recording; `options` are those of `replay+file:`. Raise ConfigError for invalid
    options.

    With `record` its sessions are recorded into that folder.
    """
    given = tuple((key, value) for key, value in options.items() if value)
    recording = Endpoint(dialect="replay", transport="file", address=str(file), options=given)
    route = Route(name="replay", listen=listen, upstream=recording)
    check_route(route)
    kept = Recording(path=f"{record}/", compress=False) if record is not None else None
    return App(Config(routes=(route,), limits=limits, recording=kept))


def drive(
    plan: ReplayPlan,
    upstream: Endpoint,
    *,
    deadline: float = DEADLINE,
    progress: Callable[[int], None] = lambda _turns: None,
    ignore_inexpressible: bool = False,
) -> Driven:
    """Send the recorded inputs to a live backend and compare; raise DrivingError if that is not possible.

    With `ignore_inexpressible` only events are compared that both the recorded and the live backend can express.
    """
    dialects = (registry.recorded(plan.recording.header), registry.upstream(upstream)) if ignore_inexpressible else ()

    def is_expressible(kind: type) -> bool:
        return all(dialect.events.can_read_type(QUESTIONS.get(kind, kind)) for dialect in dialects)

    with BackendClient(upstream) as client:
        return Driver(client, plan, deadline=deadline, progress=progress, expressible=is_expressible).run()


def drive_file(file: Path, upstream: str, deadline: float = DEADLINE, *, ignore_inexpressible: bool = False) -> Driven:
    """Drive a live backend with a recording."""
    return drive(open_plan(file), parse(upstream), deadline=deadline, ignore_inexpressible=ignore_inexpressible)


class Served:
    """A recording that is served at `endpoint`. `reports` has one entry for each command so far."""

    def __init__(self, endpoint: str, app: App) -> None:
        self.endpoint = endpoint
        self.reports: list[MatchReport] = []
        (replay,) = app.upstreams.replays
        self._reporter = replay.reporter
        self._reporter.notify(self.reports.append)

    @property
    def url(self) -> str:
        """The endpoint without its dialect: `ws://127.0.0.1:PORT/ws`, `unix:PATH`."""
        return self.endpoint.partition("+")[2]

    @property
    def asked(self) -> bool:
        """True if a client sent a command."""
        return self._reporter.asked

    @property
    def divergences(self) -> list[str]:
        """Human-readable lines about the refused commands, each with similar recorded ones."""
        return [line for report in self.reports if report.refused for line in report.explained()]


def listen_endpoint(text: str, folder: Path) -> Endpoint:
    """Return an endpoint to listen on: the given one, or for a dialect a free address, if needed below `folder`."""
    if "+" in text:
        return parse(text)
    if text not in registry.names():
        raise ConfigError(f"{text!r}: write an endpoint, or one of {', '.join(registry.names())}")
    return parse(registry.free_form(text).format(folder=folder))


@contextmanager
def served(file: Path, listen: Endpoint, **options: str) -> Iterator[Served]:
    """Serve a recording until the block ends; raise ConfigError or OSError if that is not possible."""
    app = replaying(file, (listen,), limits=QUICK, record=None, **options)
    failures: list[BaseException] = []
    with AppThread(app, "dragoman:replay", failures.append) as running:
        if failures:
            raise failures[0]
        yield Served(running.endpoints[0], app)
