"""The replay of one route: its recording, read once, and a backend of it for each session."""

from __future__ import annotations

import sys
from collections.abc import Callable

from gateway import logs
from gateway.endpoint import Endpoint
from gateway.ledger import Ledger
from gateway.recording.reader import open_recording
from gateway.replay.backend import ReplayBackend
from gateway.replay.lines import Lines
from gateway.replay.options import read_options
from gateway.replay.pace import Pace
from gateway.replay.reports import Reporter
from gateway.replay.scenes import read
from gateway.timers import Later
from gateway.upstream import Backend, Connected
from mappings.canonical.events import ModelTurnStarted
from mappings.dialect import Dialect

__all__ = ["Replay"]


class Replay:
    """Makes the backends of a checked `replay+file:` upstream, which behave as `dialect` says.

    `later` and `clock` (monotonic, seconds) may be a test's own: nothing else tells a replay what time it is.
    ConfigError if the recording is none; OSError if it cannot be read.
    """

    def __init__(
        self, endpoint: Endpoint, dialect: Dialect, *, later: Later, clock: Callable[[], float], ledger: Ledger
    ) -> None:
        self.options = read_options(endpoint)
        self.play = read(open_recording(self.options.path))
        self.reporter = Reporter(ledger, tell=_explain if self.options.explain else None)
        self._tells_model_turns = dialect.events.says(ModelTurnStarted)
        self._later = later
        self._clock = clock

    def backend(self, session: Connected) -> Backend:
        """The backend of one session: it plays from the beginning."""
        options = self.options
        return ReplayBackend(
            session, self.play, pace=Pace(self._clock, options.speed, options.idle_cap), later=self._later,
            reporter=self.reporter, auto=options.auto,
            lines=Lines(
                session.connected, tells_model_turns=self._tells_model_turns,
                adds_model_turns=self._tells_model_turns and not self.play.tells_model_turns,
            ),
        )  # fmt: skip


def _explain(line: str) -> None:
    logs.tell(line, sys.stderr)
