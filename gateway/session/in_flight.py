"""The commands of one session that were written to the backend and have no answer yet.

Each has a request id of our own and a deadline. They count as memory of their session. They are dropped if the gateway
is out of memory and they are most of what the session holds. Their clients are told that they have no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from dragoman.gateway.overload.fair_queue import TURN
from dragoman.gateway.services import Services
from dragoman.gateway.session import weight
from dragoman.gateway.session.ports import Client, Effects
from dragoman.gateway.timers import Timer
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import OpeningCommand, OpenSession, SubmitInput
from dragoman.mappings.canonical.events import TurnAccepted
from dragoman.mappings.canonical.values import Segment
from dragoman.mappings.dialect import Dialect


class PendingCommand(Struct, frozen=True, kw_only=True):
    """A command to the backend that has no answer yet. `client` asked for it, or the gateway itself if that is None.

    `segments` is the text that the client typed, if it gave the command in words. `next_command` is the client's own
    command, if `command` has to open its session first. `weight` is in bytes.
    """

    command: Command
    weight: int
    timer: Timer
    client: Client | None
    segments: tuple[Segment, ...]
    next_command: Command | None


LATE = "the backend did not answer in time"
NO_MEMORY = "the gateway is out of memory (`memory`), and the backend has not answered yet"


class InFlight:
    """The commands that wait for an answer.

    `late` is called with the request of each that waits too long, and the reason in words. `count` is called with each
    change of their weight.
    """

    __slots__ = ("_count", "_effects", "_late", "_pending", "_services", "_upstream", "input")

    def __init__(
        self,
        upstream: Dialect,
        services: Services,
        effects: Effects,
        late: Callable[[str, str], None],
        count: Callable[[int], None],
    ) -> None:
        self._upstream = upstream
        self._services = services
        self._effects = effects
        self._late = late
        self._count = count
        self._pending: dict[str, PendingCommand] = {}
        self.input = ""
        """The request of the input that waits to be accepted, "" if there is none."""

    def __len__(self) -> int:
        return len(self._pending)

    def forward(
        self,
        client: Client | None,
        command: Command,
        segments: tuple[Segment, ...] = (),
        next_command: Command | None = None,
    ) -> str:
        """Write a command to the backend under a request id of our own; return that id, or "" if it was refused."""
        services, upstream = self._services, self._upstream
        if client is not None and len(self._pending) >= self._services.limits.pending_commands:
            client.refuse(command.request, "busy", "too many commands wait for the backend (`pending_commands`)")
            return ""
        if client is not None and not isinstance(command, OpeningCommand):  # those were counted as the client sent them
            services.ledger.count_partial(client.dialect, upstream, [command], commands=True)
        services.queue.spend(TURN)
        limits, request = services.limits, services.new_id()
        deadline = limits.open_deadline if isinstance(command, OpeningCommand) else limits.accept_deadline
        timer = services.schedule(deadline, lambda: self._late(request, _late_text(upstream)))
        size = weight.of_values(command, next_command)
        self._pending[request] = PendingCommand(
            command=command, weight=size, timer=timer, client=client, segments=segments, next_command=next_command
        )
        if isinstance(command, SubmitInput):
            self.input = request
        self._count(size)
        if request not in self._pending:  # there was no memory for it
            return ""
        self._effects.backend.send([structs.replace(command, request=request)])
        return request if request in self._pending else ""

    def find_command(self, request: str) -> PendingCommand | None:
        """Return the command with this request id that waits for an answer."""
        return self._pending.get(request)

    def requests(self, kind: type = object) -> Iterator[str]:
        """Iterate over the requests of this kind of command, oldest first; they may be settled meanwhile."""
        return iter([request for request, pending in self._pending.items() if isinstance(pending.command, kind)])

    def settle(self, request: str) -> PendingCommand | None:
        """Remove the command with this request id, and return it; None if it does not wait."""
        pending = self._pending.pop(request, None)
        if pending is not None:
            if request == self.input:
                self.input = ""
            pending.timer.cancel()
            self._count(-pending.weight)
        return pending

    def take_all(self) -> list[tuple[Client, Command]]:
        """Remove and return the waiting commands of clients, for another session to perform.

        The command that opens the session stays: its answer names the other session.
        """
        taken = list[tuple[Client, Command]]()
        for request, pending in list(self._pending.items()):
            if pending.client is not None and not isinstance(pending.command, OpenSession):
                self.settle(request)
                taken.append((pending.client, pending.command))
        return taken

    def drop(self) -> None:
        """Fail and free all waiting commands, because the gateway is out of memory."""
        for request in self.requests():
            self._late(request, NO_MEMORY)

    def close(self) -> None:
        """Stop waiting for any answer."""
        for request in self.requests():
            self.settle(request)


def acknowledge(client: Client | None, request: str) -> None:
    """Send a client that only makes calls a reply to its answer in words. Other clients see that the turn continues."""
    if client is not None and not client.attaches:
        client.send([TurnAccepted(request=request)])


def _late_text(upstream: Dialect) -> str:
    return f"{LATE}: {upstream.why_late}" if upstream.why_late else LATE
