"""The replay of one route: its recording, read once, and a backend for each session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.observability import logs
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.backend import ReplayBackend
from dragoman.gateway.replay.live import LiveBackend, LiveFallback
from dragoman.gateway.replay.matching import Reporter
from dragoman.gateway.replay.options import Until, read_options
from dragoman.gateway.replay.part_player import Pace
from dragoman.gateway.replay.plan import ReplayPlan, cut_plan, read_plan
from dragoman.gateway.replay.replayed_events import ReplayedEvents
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.mappings.canonical.events import ModelTurnStarted
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.errors import ConfigError
from dragoman.mappings.rfc3339 import NS

log = structlog.get_logger("dragoman.replay")

MakeLiveBackend = Callable[[BackendEvents, Endpoint, bool], LiveBackend]
"""Makes the live backend at an endpoint for a session.

The flag is True if the session relies on the model turns of its backend.
"""


class Replay:
    """Makes the backends of a checked `replay+file:` upstream, which behave as `dialect` does.

    `plan` is what `plan_of` returned for that endpoint. `live` makes the live backend behind the recording. Raise
    ConfigError if the options are invalid.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect,
        plan: ReplayPlan,
        services: Services,
        live: MakeLiveBackend | None = None,
    ) -> None:
        self.options = read_options(endpoint)
        self.plan = plan
        self._live = live
        explain = _explain if self.options.explain else None
        self.reporter = Reporter(services.ledger, explain=explain, spend=services.queue.spend)
        self._sends_model_turns = dialect.events.can_read_type(ModelTurnStarted)
        self._services = services

    def backend(self, session: BackendEvents) -> Backend:
        """Return the backend of one session, which plays from the beginning."""
        options, services = self.options, self._services
        replay = ReplayBackend(
            session,
            self.plan,
            pace=Pace(lambda: services.monotonic() / NS, options.speed, options.idle_cap),
            later=services.schedule,
            reporter=self.reporter,
            events=ReplayedEvents(
                session.state,
                sends_model_turns=self._sends_model_turns,
                adds_model_turns=self._sends_model_turns and not self.plan.has_model_turns,
                keeps_counts=not options.spy,
                auto=options.auto,
            ),
        )
        if options.live is None or self._live is None:
            return replay
        live = self._live(session, options.live, self._sends_model_turns)
        return LiveFallback(replay, live, self.reporter, spy=options.spy)


def plan_of(endpoint: Endpoint) -> ReplayPlan:
    """Return the plan of a `replay+file:` upstream, up to its option `until`.

    Raise ConfigError if the recording is invalid or lacks the turn, OSError if it cannot be read.
    """
    options = read_options(endpoint)
    return _cut(open_plan(options.path), options.until)


def open_plan(path: Path) -> ReplayPlan:
    """Return the plan of the recording at `path`; log its problems, because damaged parts cannot be played."""
    plan = read_plan(open_recording(path))
    if problems := plan.recording.problems:
        log.warning("the recording is incomplete", file=str(path), why=str(problems))
    return plan


def _cut(plan: ReplayPlan, until: Until | None) -> ReplayPlan:
    if until is None:
        return plan
    kind, number = until
    if kind == "turn" and number > len(plan.ends):
        raise ConfigError(f"{plan.recording.path}: the recording has no turn {number}, only {len(plan.ends)}")
    if kind == "line" and number > plan.turns[-1].parts[-1].last:
        raise ConfigError(f"{plan.recording.path}: the recording has no line {number}: it ends earlier")
    return cut_plan(plan, plan.ends[number - 1] if kind == "turn" else number)


def _explain(line: str) -> None:
    logs.write_line(line, sys.stderr)
