"""Commands that were written to the backend and have no answer yet: bounded, each with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from dragoman.gateway.link import Link
from dragoman.gateway.services import Services
from dragoman.gateway.timers import Timer
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import GetSession, OpenSession, ResumeSession
from dragoman.mappings.canonical.values import Segment

__all__ = ["OPENING", "PENDING_MAX", "InFlight", "Pending"]

PENDING_MAX = 256  # commands of all links that wait for the backend's answer

OPENING = (OpenSession, ResumeSession, GetSession)
"""Commands that ask a backend which opens conversations for one."""


class Pending(Struct, frozen=True, kw_only=True):
    """One command. `link` asked for it, None is the gateway itself; `segments` is what it typed to say it in words.

    `then` is what it asked of a session that `command` has to open first.
    """

    command: Command
    timer: Timer
    link: Link | None = None
    segments: tuple[Segment, ...] = ()
    then: Command | None = None


class InFlight:
    """The commands of one session that wait; `unanswered` is called for each that has waited too long."""

    def __init__(self, services: Services, unanswered: Callable[[str], None]) -> None:
        self._schedule = services.schedule
        self._limits = services.limits
        self._unanswered = unanswered
        self._pending: dict[str, Pending] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[str]:
        """The requests, oldest first; they may be settled meanwhile."""
        return iter(list(self._pending))

    @property
    def full(self) -> bool:
        """Whether one more would be too many."""
        return len(self._pending) >= PENDING_MAX

    def add(
        self, request: str, command: Command, link: Link | None, segments: tuple[Segment, ...],
        then: Command | None = None,
    ) -> None:  # fmt: skip
        """`command` is about to be written under `request`."""
        opens = isinstance(command, OPENING)
        deadline = self._limits.open_deadline if opens else self._limits.accept_deadline
        timer = self._schedule(deadline, lambda: self._unanswered(request))
        self._pending[request] = Pending(command=command, timer=timer, link=link, segments=segments, then=then)

    def get(self, request: str) -> Pending | None:
        """The command that waits under `request`."""
        return self._pending.get(request)

    def of(self, kind: type) -> list[str]:
        """The requests of all commands of this kind."""
        return [request for request, pending in self._pending.items() if isinstance(pending.command, kind)]

    def settle(self, request: str) -> Pending | None:
        """It is answered: it waits no more."""
        pending = self._pending.pop(request, None)
        if pending is not None:
            pending.timer.cancel()
        return pending

    def close(self) -> None:
        """No answer will come any more."""
        for request in self:
            self.settle(request)
