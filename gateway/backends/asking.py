"""Ask a backend something before further items are sent to it. The items are held, then released or failed.

A script is a generator. It yields a command, and is sent the answer to it. While the script runs, further items are
held in their order, up to a bound.

    what happens                      the script                        the held items
    it returns                        is over                           are released
    it raises Refused                 is over                           fail with its failure
    its deadline passes               TimedOut is raised at its yield   as it then returns or raises
    the connection is lost            ConnectionLost is raised there    are returned to the caller of `lost`
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

from msgspec import structs

from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.gateway.session.session import NO_BACKEND
from dragoman.gateway.timers import Deadline
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.events import Reply, SessionOpened
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Burst, StreamedBlock

HELD_MAX = 1024  # items that one script holds: four times the commands that a session may have in flight
TOO_MANY_HELD = f"{HELD_MAX} commands wait for the backend; try again later"

Held = TypeVar("Held")
Script = Generator[Command, Any, None]


def failure_in(answer: Sequence[Any]) -> Failure | None:
    """Return the failure of the reply among the events of an answer, None if there is none."""
    return next((item.failure for item in answer if isinstance(item, Reply)), None)


def opened_in(answer: Sequence[Any]) -> SessionOpened:
    """Return the SessionOpened in an answer to OpenSession; raise Refused if there is none."""
    opened = next((item for item in answer if isinstance(item, SessionOpened)), None)
    if opened is None:
        raise Refused(failure_in(answer) or Failure(cause="internal", text="the backend did not name its new session"))
    return opened


def refusals(commands: Sequence[Command], failure: Failure) -> list[Burst[Event]]:
    """Return the replies that fail these commands."""
    return [Burst(items=[Reply(request=command.request, failure=failure) for command in commands])]


class TimedOut(Refused):
    """The end of a script whose deadline passed."""


class ConnectionLost(Exception):  # noqa: N818  # the end of a script, and no error of ours
    """The end of a script whose connection was lost."""


TOO_LATE = Failure(cause="upstream_lost", text="the backend did not answer in time")


class Asking(Generic[Held]):
    """Runs one script at a time, and holds the items that wait for its end, at most `bound`.

    `ask` writes a command to the backend. `release` lets held items through. `fail` refuses the held items, and is
    also called if there are none.
    """

    def __init__(
        self,
        ask: Callable[[Command], None],
        release: Callable[[list[Held]], None],
        fail: Callable[[list[Held], Failure], object],
        *,
        services: Services,
        bound: int = HELD_MAX,
    ) -> None:
        self._ask = ask
        self._release = release
        self._fail = fail
        self._bound = bound
        self._services = services
        self._script: Script | None = None
        self._running = False  # the script's own code runs, which cannot be entered twice
        self._request = ""
        self._held: list[Held] = []
        self._deadline = Deadline(services.schedule)

    @property
    def active(self) -> bool:
        """Return True while a script runs."""
        return self._script is not None

    def begin(self, script: Script, within: float | None = None) -> None:
        """Run `script` up to its first request; `within` is its deadline in seconds from now."""
        self._script = script
        if within is not None:
            self.within(within)
        self._resume(script.__next__)

    def within(self, seconds: float) -> None:
        """Restart the deadline of the script."""
        self._deadline.start(seconds, self._time_out)

    def hold(self, items: Sequence[Held]) -> Sequence[Held]:
        """Hold items until the script ends; return those for which there is no room."""
        room = self._bound - len(self._held)
        self._held += items[:room]
        return items[room:]

    def is_asked(self, request: str) -> bool:
        """Return True if the script waits for the answer to the request with this id."""
        return self.active and bool(request) and request == self._request

    def answer(self, answer: Any) -> None:
        """Send the script the answer that it waits for."""
        script = self._script
        if script is not None:
            self._resume(lambda: script.send(answer))

    def lost(self, unsent: Sequence[Command]) -> tuple[list[Command], list[Held]]:
        """End the script; return the commands of `unsent` that are not its own, and the items that it held."""
        others = [command for command in unsent if not self.is_asked(command.request)]
        script, held = self._script, self._end()
        if script is not None and not self._running:
            with contextlib.suppress(ConnectionLost, StopIteration):
                script.throw(ConnectionLost())
        return others, held

    def stop(self) -> None:
        """Forget the script and everything that it held."""
        self._end()

    # --------------------------------------------------------------------------------------------------

    def _resume(self, step: Callable[[], Command]) -> None:
        """Run the script up to its next request, or end it. A request without an id gets a new one."""
        script, command, failure = self._script, None, None
        self._request, self._running = "", True
        try:
            command = step()
        except StopIteration:
            pass
        except Refused as refused:
            failure = refused.failure
        finally:
            self._running = False
        if self._script is not script:
            return  # what the script did has ended it
        if command is not None:
            self._request = command.request or self._services.new_id()
            self._ask(structs.replace(command, request=self._request))
            return
        held = self._end()
        if failure is not None:
            self._fail(held, failure)
        elif held:
            self._release(held)

    def _time_out(self) -> None:
        script = self._script
        if script is not None:
            self._resume(lambda: script.throw(TimedOut(TOO_LATE)))

    def _end(self) -> list[Held]:
        """Forget the script, and return what it held."""
        self._script = None
        self._deadline.stop()
        self._request = ""
        held, self._held = self._held, []
        return held


class RelayedBackend:
    """A proxy between a session and the backend that `connect` makes. It passes on all commands and events."""

    def __init__(self, session: BackendEvents, connect: Callable[[BackendEvents], Backend]) -> None:
        self._session = session
        self._backend: Backend = connect(self)

    def start(self) -> None:
        self._backend.start()

    def send(self, commands: Sequence[Command]) -> None:
        self._backend.send(commands)

    def suspend(self) -> bool:
        return self._backend.suspend()

    def stop(self) -> None:
        backend, self._backend = self._backend, NO_BACKEND
        backend.stop()

    @property
    def state(self) -> SessionState:
        return self._session.state

    def connected(self) -> None:
        self._session.connected()

    def receive(self, bursts: list[Burst[Event]]) -> StreamedBlock | None:
        return self._session.receive(bursts)

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        return self._session.lost(text, unsent, cause)


class AskingBackend(RelayedBackend):
    """A proxy that first asks the backend something by a script, and holds the session's commands until it ends."""

    def __init__(self, session: BackendEvents, services: Services, connect: Callable[[BackendEvents], Backend]) -> None:
        me: AskingBackend = weakref.proxy(self)
        self._asking: Asking[Command] = Asking(
            lambda command: me._backend.send([command]),
            lambda held: me.send(held),  # noqa: PLW0108  # a bound method would keep the backend
            lambda held, failure: me._refuse(held, failure),  # noqa: PLW0108  # as above
            services=services,
        )
        super().__init__(session, connect)

    def stop(self) -> None:
        self._asking.stop()
        super().stop()

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        others, held = self._asking.lost(unsent)
        return super().lost(text, [*others, *held], cause)

    def _hold(self, commands: Sequence[Command]) -> None:
        """Hold commands until the script ends; those for which there is no room fail."""
        if excess := self._asking.hold(commands):
            self._session.lost(TOO_MANY_HELD, excess, "busy")

    def _refuse(self, held: list[Command], failure: Failure) -> None:
        self._session.lost(failure.text, held)
