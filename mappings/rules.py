"""The dispatch table of one direction: a type -> the one function that maps it, with its declared fidelity.

    TO_EVENT = Rules("pod -> canonical")

    @TO_EVENT.rule(wire.TextDelta, produces=(TextDelta,))
    def text_delta(message: wire.TextDelta) -> tuple[Event, ...]: ...

Every source type has exactly one entry: a rule, `carried` (its content goes out with another event), or `none`
(the target has no word: declared, and counted each time). fidelity.py makes the matrix of these entries, tests
measure it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from msgspec import Struct

__all__ = ["EXACT", "Emulated", "Exact", "Fidelity", "Lossy", "Nothing", "Rule", "Rules"]

F = TypeVar("F", bound=Callable[..., Any])


class Exact(Struct, frozen=True):
    """It comes back equal."""

    kind: Literal["exact"] = "exact"


class Lossy(Struct, frozen=True):
    """It arrives without these fields of the source."""

    fields: tuple[str, ...]
    kind: Literal["lossy"] = "lossy"


class Emulated(Struct, frozen=True):
    """Its meaning arrives by other means."""

    how: str
    kind: Literal["emulated"] = "emulated"


class Nothing(Struct, frozen=True):
    """The target has no word for it."""

    why: str
    kind: Literal["none"] = "none"


Fidelity = Exact | Lossy | Emulated | Nothing
EXACT = Exact()


class Rule(Struct, frozen=True):
    """One entry: what maps, by which function, to what, how faithfully.

    `answers` is what a client's translator makes of it besides, as it knows what was asked.
    """

    source: type
    function: Callable[..., Any]
    produces: tuple[type, ...]
    fidelity: Fidelity
    answers: tuple[type, ...] = ()


def _write_nothing(_source: object, *_context: object) -> tuple[()]:
    return ()


def _count_loss(source: object, *context: Any) -> tuple[()]:
    context[0].lose(source)
    return ()


class Rules:
    """The entries of one direction, by source type. `functions` is what the hot path indexes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: dict[type, Rule] = {}
        self.functions: dict[type, Callable[..., Any]] = {}
        self.speaking: dict[type, Callable[..., Any]] = {}  # without those that write nothing: for the hot path
        self.lossy: dict[type, str] = {}  # the fields without which a type arrives

    def rule(
        self,
        source: type,
        *,
        produces: tuple[type, ...] = (),
        fidelity: Fidelity = EXACT,
        answers: tuple[type, ...] = (),
    ) -> Callable[[F], F]:
        """Decorator: this function maps `source`."""

        def register(function: F) -> F:
            self._add(Rule(source, function, produces, fidelity, answers))
            return function

        return register

    def carried(self, source: type, how: str) -> None:
        """`source` writes nothing of its own: its content goes out with what `how` names."""
        self._add(Rule(source, _write_nothing, (), Emulated(how)))
        del self.speaking[source]

    def none(self, why: str, *sources: type) -> None:
        """The target has no word for `sources`; each one is counted by the context's `lose`."""
        for source in sources:
            self._add(Rule(source, _count_loss, (), Nothing(why)))

    def _add(self, entry: Rule) -> None:
        if entry.source in self.entries:
            raise TypeError(f"{self.name}: two rules for {entry.source.__name__}")
        self.entries[entry.source] = entry
        if isinstance(entry.fidelity, Lossy):
            self.lossy[entry.source] = ", ".join(entry.fidelity.fields)
        self.functions[entry.source] = entry.function
        self.speaking[entry.source] = entry.function
