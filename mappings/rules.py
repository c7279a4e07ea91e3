"""The dispatch table of one direction: a type -> the one function that maps it, with its declared fidelity.

    TO_EVENT = Rules[[], Event]("pod -> canonical")

    @TO_EVENT.rule(wire.TextDelta, produces=(TextDelta,))
    def text_delta(message: wire.TextDelta) -> tuple[Event, ...]: ...

`Rules[P, T]` holds functions that take the source, then the parameters P, and return a tuple of T. A function whose
first parameter does not accept the source of its rule is a type error.

Every source type has exactly one entry: a rule, `carried` (its content goes out with another event), or `none`
(the target has no word: declared, and counted each time). fidelity.py makes the matrix of these entries, tests
measure it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, cast

from msgspec import Struct

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


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
    function: Callable[..., object]
    produces: tuple[type, ...]
    fidelity: Fidelity
    answers: tuple[type, ...] = ()


class LossCounter(Protocol):
    """What the functions of `Rules.none` need of their first parameter behind the source."""

    def lose(self, source: object) -> None:
        """Count that `source` does not arrive."""


class RuleTable:
    """The declarations of one direction, by source type, without the types of its functions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: dict[type, Rule] = {}
        self.lossy: dict[type, str] = {}  # the fields without which a type arrives


class Rules(RuleTable, Generic[P, T]):
    """The rules of one direction. `functions` is what the hot path indexes."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.functions: dict[type, Callable[Concatenate[Any, P], tuple[T, ...]]] = {}  # Any: the key decides the source
        self.speaking = dict(self.functions)  # without those that write nothing: for the hot path

    def rule(
        self,
        source: type[S],
        *,
        produces: tuple[type, ...] = (),
        fidelity: Fidelity = EXACT,
        answers: tuple[type, ...] = (),
    ) -> Callable[[Callable[Concatenate[S, P], tuple[T, ...]]], Callable[Concatenate[S, P], tuple[T, ...]]]:
        """Return a decorator that registers a function as the rule for `source`."""

        def register(
            function: Callable[Concatenate[S, P], tuple[T, ...]],
        ) -> Callable[Concatenate[S, P], tuple[T, ...]]:
            self._add(Rule(source, function, produces, fidelity, answers), function)
            return function

        return register

    def carried(self, source: type, how: str) -> None:
        """Declare that `source` writes nothing of its own: its content goes out with what `how` names."""

        def write_nothing(_source: object, /, *_args: P.args, **_kwargs: P.kwargs) -> tuple[T, ...]:
            return ()

        self._add(Rule(source, write_nothing, (), Emulated(how)), write_nothing)
        del self.speaking[source]

    def none(self, why: str, *sources: type) -> None:
        """Declare that the target has no word for `sources`; each one is counted by the context's `lose`."""

        def count_loss(source: object, /, *args: P.args, **_kwargs: P.kwargs) -> tuple[T, ...]:
            cast(LossCounter, args[0]).lose(source)
            return ()

        for source in sources:
            self._add(Rule(source, count_loss, (), Nothing(why)), count_loss)

    def _add(self, entry: Rule, function: Callable[Concatenate[Any, P], tuple[T, ...]]) -> None:
        if entry.source in self.entries:
            raise TypeError(f"{self.name}: two rules for {entry.source.__name__}")
        self.entries[entry.source] = entry
        if isinstance(entry.fidelity, Lossy):
            self.lossy[entry.source] = ", ".join(entry.fidelity.fields)
        self.functions[entry.source] = function
        self.speaking[entry.source] = function
