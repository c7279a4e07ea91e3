"""Write the audit log: one line for each open, attach, answer, cancel, close, detach, refusal and reload.

Each line has the logger `dragoman.audit`, the event `audit` and an `action`. `principal` is who did it: a client's
principal, `operator` for the ops port, or `gateway`. `outcome` is `done`, or why it was not done. No line has any
content of a conversation. The line of a reload is written by gateway/reload.py, with an event of its own.

What was done always has its own line: it costs the client a session, a turn or an answer. What was refused, or failed,
can be had for nothing. So a flood of such lines is cut to REFUSAL_RATE a second; the next one tells by `omitted` how
many are missing before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, Protocol

import structlog

from dragoman.gateway.observability.trace_context import TraceContext, trace_id
from dragoman.gateway.overload.rates import TokenBucket

Action = Literal["open", "attach", "answer", "cancel", "close", "detach", "refusal", "log level"]

REFUSAL_RATE = 10.0  # lines a second: a person who is refused causes one
REFUSAL_BURST = 200  # lines at once: all clients that come back after a restart with old tokens
VALUE_MAX = 500  # characters of one value: a client may name a session with 1 MiB

log = structlog.get_logger("dragoman.audit")


class Actor(Protocol):
    """A peer that acts. `id` names its link in the log, `principal` its user."""

    id: str
    principal: str
    trace: TraceContext | None


class Audit:
    """The audit log of one gateway. `clock` returns nanoseconds."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._refusals = TokenBucket(REFUSAL_RATE, REFUSAL_BURST, clock)
        self._omitted = 0

    def note(
        self, action: Action, by: Actor | str, *, session: str = "", outcome: str = "done", **details: object
    ) -> None:
        """Write a line about an action. `by` is a link, or the name of who acted without one."""
        link, principal, trace = ("", by, None) if isinstance(by, str) else (by.id, by.principal, by.trace)
        facts = {"link": link, "session": session, "trace": trace_id(trace)}
        named = {name: text for name, text in facts.items() if text}
        line = {"action": action, "principal": principal, "outcome": outcome, **named, **details}
        log.info("audit", **{name: _shortened(value) for name, value in line.items()})

    def refuse(self, by: Actor | str, reason: str, *, session: str = "", **details: object) -> None:
        """Write a line about something that was refused, unless there were too many of them in a short time."""
        self.note_failure("refusal", by, reason, session=session, **details)

    def note_failure(
        self, action: Action, by: Actor | str, outcome: str, *, session: str = "", **details: object
    ) -> None:
        """Write a line about an action that failed, unless there were too many of them in a short time."""
        if not self._refusals.take():
            self._omitted += 1
            return
        if self._omitted:
            details["omitted"], self._omitted = self._omitted, 0
        self.note(action, by, session=session, outcome=outcome, **details)


def _shortened(value: object) -> object:
    """Return at most VALUE_MAX characters of a text, and any other value as it is."""
    return f"{value[:VALUE_MAX]}..." if isinstance(value, str) and len(value) > VALUE_MAX else value
