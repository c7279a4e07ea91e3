"""Ask the backend something first, hold what comes meanwhile, then let it through or fail it.

A script is a generator: it yields a command, and gets the answer to it. While it runs, further items are held in their
order, up to a bound.

    what happens                      the script                        the items held
    it returns                        is over                           are released
    it raises Refused                 is over                           fail with its failure
    its deadline passes               TimedOut is raised at its yield   as it then returns or raises
    the connection is lost            ConnectionLost is raised there    are returned to the caller of `lost`

A script that yields None waits for an `answer` to nothing that it asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

from msgspec import structs

from dragoman.gateway.services import Services
from dragoman.gateway.timers import Timer
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.values import Failure

__all__ = ["Asking", "ConnectionLost", "Refused", "Script", "TimedOut"]

Held = TypeVar("Held")
Script = Generator[Command | None, Any, None]


class Refused(Exception):  # noqa: N818  # the end of a script, and no error of ours
    """The end of a script whose held items fail."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class TimedOut(Refused):
    """The end of a script whose deadline passed."""


class ConnectionLost(Exception):  # noqa: N818  # the end of a script, and no error of ours
    """The end of a script whose connection was lost."""


TOO_LATE = Failure(cause="upstream_lost", text="the backend did not answer in time")


class Asking(Generic[Held]):
    """One script at a time, and the items that wait for its end: at most `bound`.

    `ask` writes a command to the backend, `release` lets held items through, `fail` refuses them,
    also when there are none.
    """

    def __init__(
        self,
        ask: Callable[[Command], None],
        release: Callable[[list[Held]], None],
        fail: Callable[[list[Held], Failure], object],
        *,
        services: Services,
        bound: int,
    ) -> None:
        self._ask = ask
        self._release = release
        self._fail = fail
        self._bound = bound
        self._services = services
        self._script: Script | None = None
        self._running = False  # the script's own code, which cannot be entered twice
        self._request = ""
        self._held: list[Held] = []
        self._timer: Timer | None = None

    @property
    def active(self) -> bool:
        """Return True while a script runs."""
        return self._script is not None

    def begin(self, script: Script, within: float | None = None) -> None:
        """Run `script` up to its first request; with `within` its deadline is so many seconds from now."""
        self._script = script
        if within is not None:
            self.within(within)
        self._resume(script.__next__)

    def within(self, seconds: float) -> None:
        """Set the deadline of the script anew."""
        self._cancel_timer()
        self._timer = self._services.schedule(seconds, self._time_out)

    def hold(self, items: Sequence[Held]) -> Sequence[Held]:
        """Hold items until the script ends; return those for which there is no room."""
        room = self._bound - len(self._held)
        self._held += items[:room]
        return items[room:]

    def is_asked(self, request: str) -> bool:
        """Return True if the script waits for the answer to this request."""
        return self.active and bool(request) and request == self._request

    def answer(self, answer: Any) -> None:
        """Give the script the answer that it waits for."""
        script = self._script
        if script is not None:
            self._resume(lambda: script.send(answer))

    def lost(self, unsent: Sequence[Command]) -> tuple[list[Command], list[Held]]:
        """End the script; return the commands of `unsent` that are not its own, and the items it held."""
        others = [command for command in unsent if not self.is_asked(command.request)]
        script = self._script
        self._script = None
        held = self._end()
        if script is not None and not self._running:
            with contextlib.suppress(ConnectionLost, StopIteration):
                script.throw(ConnectionLost())
        return others, held

    def stop(self) -> None:
        """Forget the script and everything that it held."""
        self._script = None
        self._end()

    # --------------------------------------------------------------------------------------------------

    def _resume(self, step: Callable[[], Command | None]) -> None:
        """Run the script up to its next request, or end it."""
        script = self._script
        self._request, self._running = "", True
        try:
            command = step()
        except StopIteration:
            self._running = False
            if self._script is script:
                self._script = None
                if held := self._end():
                    self._release(held)
        except Refused as refused:
            self._running = False
            if self._script is script:
                self._script = None
                self._fail(self._end(), refused.failure)
        else:
            self._running = False
            if command is not None and self._script is script:
                self._request = self._services.new_id()
                self._ask(structs.replace(command, request=self._request))

    def _time_out(self) -> None:
        self._timer = None
        script = self._script
        if script is not None:
            self._resume(lambda: script.throw(TimedOut(TOO_LATE)))

    def _end(self) -> list[Held]:
        self._cancel_timer()
        self._request = ""
        held, self._held = self._held, []
        return held

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
