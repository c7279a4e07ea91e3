"""The fidelity matrix: what becomes of each canonical kind between two dialects, read off their rules.

A kind that the source dialect cannot say has no cell; else the cell is what the source's rules and the target's rule
declare, the worse of the two. Tests measure the declarations and fail when one lies. What is known by hand is only what
the gateway adds to any dialect.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import get_args

from msgspec import Struct

from dragoman.mappings.canonical import Command, Event, Unmapped
from dragoman.mappings.canonical.commands import (
    GetHistory,
    GetSession,
    ListSessions,
    OpenSession,
    Ping,
    ResumeSession,
    ShutdownBackend,
)
from dragoman.mappings.canonical.events import (
    BackendShutdown,
    Gap,
    HistorySnapshot,
    MessageAppended,
    Pong,
    ReasoningDone,
    ReasoningStarted,
    Reply,
    SessionOpened,
    SessionsListed,
    StatusChanged,
    TextDone,
    ToolCallArguments,
    TurnAccepted,
    TurnEnded,
    TurnResult,
)
from dragoman.mappings.dialect import Dialect, Direction
from dragoman.mappings.rules import EXACT, Emulated, Fidelity, Lossy, Nothing

__all__ = ["BY_GATEWAY", "BY_SESSION", "Cell", "matrix"]

BY_SESSION = frozenset(
    {
        BackendShutdown,
        Gap,
        HistorySnapshot,
        MessageAppended,
        Pong,
        ReasoningDone,
        ReasoningStarted,
        Reply,
        SessionOpened,
        SessionsListed,
        StatusChanged,
        TextDone,
        ToolCallArguments,
        TurnAccepted,
        TurnEnded,
        TurnResult,
    }
)
"""Events that clients get though their backend has no word for them: the session completes a turn
(docs/design.md, section 3), tells of gaps, and gives the answers of `BY_GATEWAY`.
"""

BY_GATEWAY = frozenset({GetHistory, GetSession, ListSessions, OpenSession, Ping, ResumeSession, ShutdownBackend})
"""Commands that the gateway answers though the backend has no word for them (docs/translation.md, rules 3.2, 3.16)."""

GATEWAY = Emulated("the gateway's own answer")


class Cell(Struct, frozen=True, kw_only=True):
    """One kind from one dialect to another. `kind` is exact, lossy, emulated or none; `detail` says what or why."""

    direction: str
    canonical: str
    source: str
    target: str
    kind: str
    detail: str = ""


def matrix(dialects: list[Dialect]) -> Iterator[Cell]:
    """All cells: the events from backend to client, then the commands, in the order of the vocabulary."""
    for name, union in (("event", Event), ("command", Command)):
        for canonical in get_args(union):
            for source, target in product(dialects, repeat=2):
                fidelity = _between(canonical, source, target, name) if canonical is not Unmapped else None
                if fidelity is not None:
                    yield Cell(
                        direction=name,
                        canonical=canonical.__name__,
                        source=source.name,
                        target=target.name,
                        kind=fidelity.kind,
                        detail=_detail(fidelity),
                    )


def _between(canonical: type, source: Dialect, target: Dialect, name: str) -> Fidelity | None:
    rules = _direction(source, name).to_canonical.entries.values()
    heard = [rule.fidelity for rule in rules if canonical in rule.produces]
    if not heard and canonical not in BY_SESSION and not any(canonical in rule.answers for rule in rules):
        return None
    written = _direction(target, name).from_canonical.entries[canonical].fidelity
    if isinstance(written, Nothing) and canonical in BY_GATEWAY:
        return GATEWAY
    # What its own dialect loses it never said: what came of its frames is written as the same frames again.
    own = heard and source.name == target.name and isinstance(written, Lossy)
    return _worst(heard) if own else _worse(_worst(heard), written)


def _direction(dialect: Dialect, name: str) -> Direction[Event] | Direction[Command]:
    return dialect.events if name == "event" else dialect.commands


def _worst(fidelities: list[Fidelity]) -> Fidelity:
    worst: Fidelity = EXACT
    for fidelity in fidelities:
        worst = _worse(worst, fidelity)
    return worst


def _worse(one: Fidelity, other: Fidelity) -> Fidelity:
    for grade in (Nothing, Emulated):
        for fidelity in (one, other):
            if isinstance(fidelity, grade):
                return fidelity
    fields = [field for fidelity in (one, other) if isinstance(fidelity, Lossy) for field in fidelity.fields]
    return Lossy(tuple(dict.fromkeys(fields))) if fields else EXACT


def _detail(fidelity: Fidelity) -> str:
    match fidelity:
        case Lossy():
            return "without " + ", ".join(fidelity.fields)
        case Emulated():
            return "as " + fidelity.how
        case Nothing():
            return fidelity.why
        case _:
            return ""
