"""Write the audit log: one line for each open, attach, answer, cancel, close, detach, refusal and reload.

Each line has the logger `dragoman.audit`, the event `audit` and an `action`. `principal` is who did it: a client's
principal, `operator` for the ops port, or `gateway`. `outcome` is `done`, or why it was not done. No line has any
content of a conversation. The line of a reload is written by gateway/reload.py, with an event of its own.

The number of lines of one principal and action is bounded (gateway/observability/log_throttle.py). Lines with the
outcome `done` are counted apart from the others.
"""

from __future__ import annotations

from typing import Literal, Protocol

import structlog

from dragoman.gateway.observability import logs
from dragoman.gateway.observability.trace_context import TraceContext, trace_id

Action = Literal["open", "attach", "answer", "cancel", "close", "detach", "refusal", "log level"]

VALUE_MAX = 500  # characters of one value: a client may name a session with 1 MiB

log = structlog.get_logger("dragoman.audit")


class Actor(Protocol):
    """A peer that acts. `id` names its link in the log, `principal` its user."""

    id: str
    principal: str
    trace: TraceContext | None


def note(action: Action, by: Actor | str, *, session: str = "", outcome: str = "done", **details: object) -> None:
    """Write a line about an action. `by` is a link, or the name of an actor without a link."""
    if not logs.LEVEL.passes("audit", "info"):
        return
    link, principal, trace = ("", by, None) if isinstance(by, str) else (by.id, by.principal, by.trace)
    facts = {"link": link, "session": session, "trace": trace_id(trace)}
    line = {"principal": principal, "outcome": outcome, **facts, **details}
    for name, value in line.items():
        if isinstance(value, str) and len(value) > VALUE_MAX:
            line[name] = f"{value[:VALUE_MAX]}..."
    log.info("audit", action=action, **{name: line[name] for name in line if line[name] or name not in facts})


def refuse(by: Actor | str, reason: str, *, session: str = "", **details: object) -> None:
    """Write a line about something that was refused."""
    note("refusal", by, session=session, outcome=reason, **details)
