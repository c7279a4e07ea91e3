"""A recording with a live backend behind it: for what the recording has not (spy), or for all past its end (fork)."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.gateway.replay.backend import ReplayBackend
from dragoman.gateway.replay.live import Live
from dragoman.gateway.replay.reports import Report, Reporter, named
from dragoman.gateway.replay.scenes import OF_THE_GATEWAY
from dragoman.mappings.canonical import Command

__all__ = ["LiveFallback"]


class LiveFallback:
    """The way of one session to both: with `spy` what is not matched is passed on, else all once the play is over."""

    def __init__(self, replay: ReplayBackend, live: Live, reporter: Reporter, *, spy: bool) -> None:
        self._replay = replay
        self._live = live
        self._reporter = reporter
        self._over = False
        if spy:
            replay.passes_on = self._pass_on
        else:
            replay.ended = self._hand_over

    def start(self) -> None:
        self._replay.start()

    def send(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if not isinstance(command, OF_THE_GATEWAY) and (self._over or self._live.running):
                self._pass_on(command)
            else:
                self._replay.send([command])

    def rest(self) -> None:
        """The live connection is kept: it holds what was said in this conversation."""

    def stop(self) -> None:
        self._replay.stop()
        self._live.stop()

    def _pass_on(self, command: Command) -> None:
        self._reporter.report(Report(words=named(command), outcome="passed_on"))
        self._live.send([command])

    def _hand_over(self) -> None:
        if not self._over:
            self._over = True
            self._live.take_over()
