"""The calls to a primary that have no reply yet (docs/dialects/pando.md, section 5)."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.dialect import Clock, NewId, Step
from dragoman.mappings.jsonrpc import Calls
from dragoman.mappings.pando.from_canonical import FROM_COMMAND, Context
from dragoman.mappings.pando.wire import REQUESTS
from dragoman.mappings.pando.wire.requests import Meta
from dragoman.mappings.pando.wire.times import rfc3339
from dragoman.mappings.rfc3339 import NS

CALL_MAX = 10.0
"""Timeout of a call in seconds, as in real clients (docs/dialects/pando.md, section 5)."""

CallReason = Literal["command", "history", "text", "sessions", "alive"]
"""The reason for a call: a client's command, or information that the translator itself needs."""


class PrimaryCall(Struct, frozen=True, kw_only=True):
    """A call that has no reply yet, and its reason."""

    why: CallReason
    session: str = ""
    command: Any = None
    at: int = 0


class PrimaryCalls(Calls[PrimaryCall]):
    """The calls to one primary that have no reply yet: request id -> call."""

    def __init__(self, clock: Clock, new_id: NewId) -> None:
        super().__init__(lambda: f"req-{new_id()}")
        self._clock = clock

    def ask(self, step: Step[Event], command: Command, why: CallReason) -> None:
        """Add the call for this command to the step's frames, and remember it until its reply."""
        own = self.new_id()
        now = self._clock()
        context = Context(FROM_COMMAND, request=own, at=now)
        context.meta = Meta(request_id=own, timestamp=rfc3339(now // NS * NS))
        step.frames += [REQUESTS.encode(m) for m in FROM_COMMAND.functions[type(command)](command, context)]
        step.losses += context.take_losses()
        self[own] = PrimaryCall(why=why, session=command.session, command=command, at=now)

    def overdue(self, now: int) -> list[str]:
        """Return the request ids of the calls that have waited longer than CALL_MAX at time `now` (ns)."""
        return [own for own, call in self.items() if now - call.at >= CALL_MAX * NS]
