"""The fidelity matrix: how well each canonical kind is translated from one dialect to another.

The rules of both dialects declare it. A kind that the source dialect does not have gets no cell. Every other cell is
the worse of two declarations: the source's and the target's. Tests measure the declarations and fail if one is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any, get_args

from msgspec import Struct

from dragoman.mappings.canonical import Command, Event, Unmapped
from dragoman.mappings.dialect import Dialect, Direction
from dragoman.mappings.rules import EXACT, Emulated, Fidelity, Lossy, Nothing

GATEWAY = Emulated("the gateway's own answer")
OTHER_DIALECT = Nothing("only a backend of the client's dialect has such a store")


class Cell(Struct, frozen=True, kw_only=True):
    """The fidelity of one canonical kind from one dialect to another.

    `kind` is exact, lossy, emulated or none. `detail` names the lost fields, the emulation or the reason.
    """

    direction: str
    canonical: str
    source: str
    target: str
    kind: str
    detail: str = ""


def matrix(dialects: list[Dialect]) -> Iterator[Cell]:
    """Yield all cells: the events from backend to client, then the commands, in the order of the unions."""
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


def _between(canonical: Any, source: Dialect, target: Dialect, name: str) -> Fidelity | None:
    rules = _direction(source, name).to_canonical.entries.values()
    read = [rule.fidelity for rule in rules if canonical in rule.produces]
    gateway_adds = name == "event" and canonical.gateway_adds
    if not read and not gateway_adds and not any(canonical in rule.answers for rule in rules):
        return None
    if name == "command" and canonical.own_dialect_only:
        return EXACT if source.name == target.name else OTHER_DIALECT
    written = _direction(target, name).from_canonical.entries[canonical].fidelity
    if isinstance(written, Nothing) and name == "command" and canonical.gateway_answers:
        return GATEWAY
    # Events that came from frames of a dialect are written as the same frames again: nothing more is lost.
    own = read and source.name == target.name and isinstance(written, Lossy)
    worst = reduce(_worse, read, EXACT)
    return worst if own else _worse(worst, written)


def _direction(dialect: Dialect, name: str) -> Direction[Event] | Direction[Command]:
    return dialect.events if name == "event" else dialect.commands


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
            return "as " + ", without ".join(
                (fidelity.how, ", ".join(fidelity.fields)) if fidelity.fields else (fidelity.how,)
            )
        case Nothing():
            return fidelity.why
        case _:
            return ""
