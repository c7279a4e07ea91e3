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
"""Seconds after which a call times out, as in real clients (docs/dialects/pando.md, section 5)."""

CallReason = Literal["command", "history", "text", "sessions", "alive"]
"""Why a call was made: for a command of a client, or for what the translator itself wants to know."""


class PrimaryCall(Struct, frozen=True, kw_only=True):
    """A call without a reply: a client's command, or a question of our own."""

    why: CallReason
    session: str = ""
    command: Any = None
    at: int = 0


class PrimaryCalls(Calls[PrimaryCall]):
    """The calls to one primary that have no reply: request id -> call."""

    def __init__(self, clock: Clock, new_id: NewId) -> None:
        super().__init__(lambda: f"req-{new_id()}")
        self._clock = clock

    def ask(self, step: Step[Event], command: Command, why: CallReason) -> None:
        """Add the frames of this command to the step, and note the call."""
        own = self.new_id()
        now = self._clock()
        context = Context(FROM_COMMAND, request=own, at=now)
        context.meta = Meta(request_id=own, timestamp=rfc3339(now // NS * NS))
        step.frames += [REQUESTS.encode(m) for m in FROM_COMMAND.functions[type(command)](command, context)]
        step.losses += context.losses.take()
        self[own] = PrimaryCall(why=why, session=command.session, command=command, at=now)

    def overdue(self, now: int) -> list[str]:
        """Return the ids of the calls that have waited too long for a reply."""
        return [own for own, call in self.items() if now - call.at >= CALL_MAX * NS]
