"""The dispatch table of one direction: a type -> the function that maps it, with its declared fidelity.

    TO_EVENT = Rules[[], Event]("pod -> canonical")

    @TO_EVENT.rule(wire.TextDelta, produces=(TextDelta,))
    def text_delta(message: wire.TextDelta) -> tuple[Event, ...]: ...

`Rules[P, T]` holds functions that take the source, then the parameters P, and return a tuple of T. A function whose
first parameter does not accept the source of its rule is a type error.

Every source type has exactly one entry: a rule, `becomes` (always the same item), `carried` (another event carries its
content), or `none` (the target has no form: declared, and counted each time). fidelity.py makes the matrix from these
entries, and tests measure it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress, repeat
from operator import attrgetter, is_
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

from msgspec import Struct

from dragoman.mappings.canonical.values import Failure

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


class Exact(Struct, frozen=True):
    """The fidelity of a type that is translated there and back without any change."""

    kind: Literal["exact"] = "exact"


class Lossy(Struct, frozen=True):
    """The fidelity of a type that loses the listed fields.

    `lost_by` returns those that count as lost for one item, by default all of them. Some may be kept in the form of the
    item, or reach the client in another way.
    """

    fields: tuple[str, ...]
    kind: Literal["lossy"] = "lossy"
    lost_by: Callable[[Any], tuple[str, ...]] | None = None

    def find_lost(self, item: Any) -> tuple[str, ...]:
        """Return the fields that this item has and that the translation loses."""
        lost = []
        for field in self.fields if self.lost_by is None else self.lost_by(item):
            head, _, rest = field.partition(".")
            value = getattr(item, head, None)  # nearly always empty: looked at before anything is called
            if value and (not rest or _has(value, rest.split("."))) and not item.implies(field):
                lost.append(field)
        return tuple(lost)


class Emulated(Struct, frozen=True):
    """The fidelity of a type whose meaning is expressed in another form, without the listed fields."""

    how: str
    kind: Literal["emulated"] = "emulated"
    fields: tuple[str, ...] = ()


class Nothing(Struct, frozen=True):
    """The fidelity of a type that the target dialect cannot express."""

    why: str
    kind: Literal["none"] = "none"


def _has(value: Any, path: Sequence[str]) -> bool:
    """Return True if the field at this path is not empty; `segments.image` means a segment of the kind image."""
    for number, name in enumerate(path):
        if isinstance(value, tuple | list):
            return _any_has(value, name, path[number + 1 :])
        if not hasattr(value, name):
            return isinstance(value, Struct) and value.__struct_config__.tag == name
        value = getattr(value, name)
    return bool(value)


def _any_has(values: Sequence[Any], name: str, path: Sequence[str]) -> bool:
    """Return True if one of the values has this field. Each type is looked up once, because a history is long."""
    for kind in set(map(type, values)):
        if hasattr(kind, name):
            found = map(attrgetter(name), compress(values, map(partial(is_, kind), map(type, values))))
            if any(map(_has, found, repeat(path)) if path else found):
                return True
        elif issubclass(kind, Struct) and kind.__struct_config__.tag == name:
            return True
    return False


Fidelity = Exact | Lossy | Emulated | Nothing
EXACT: Fidelity = Exact()


class Rule(Struct, frozen=True):
    """An entry of a rule table: the types that a source type becomes, and the fidelity.

    `answers` are further types that a client's translator can produce, because it knows the command. `ext` names the
    fields of `ext` with content: only peers of the source's own dialect get them. `a.b` is the member `b` of `a`.
    """

    produces: tuple[type, ...]
    fidelity: Fidelity
    answers: tuple[type, ...] = ()
    ext: tuple[str, ...] = ()


class RuleTable:
    """The entries of one direction by source type, without the signatures of its functions."""

    def __init__(self, name: str, entries: dict[type, Rule] | None = None) -> None:
        self.name = name
        self.entries = entries if entries is not None else {}
        self.produced: set[type] = set()
        """The types that the rules produce."""
        self.lossy: dict[type, Lossy] = {}
        self.ext: dict[type, tuple[str, ...]] = {}
        """The fields of `ext` with content, by the type that has them."""

    def refusal_of(self, source: type) -> Failure:
        """Return the failure of a command of this type, for which the target has no message."""
        fidelity = self.entries[source].fidelity
        target = self.name.rpartition(" -> ")[2]
        text = fidelity.why if isinstance(fidelity, Nothing) else f"{target} has no such command"
        return Failure(cause="unsupported", text=text)


class Rules(RuleTable, Generic[P, T]):
    """The rules of one direction; the hot path indexes `functions`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.functions: dict[type, Callable[Concatenate[Any, P], tuple[T, ...]]] = {}  # Any: the key's type
        self.speaking = dict(self.functions)  # only rules that write something, for the hot path

    def rule(
        self,
        source: type[S],
        *,
        produces: tuple[type, ...] = (),
        fidelity: Fidelity = EXACT,
        answers: tuple[type, ...] = (),
        ext: tuple[str, ...] = (),
    ) -> Callable[[Callable[Concatenate[S, P], tuple[T, ...]]], Callable[Concatenate[S, P], tuple[T, ...]]]:
        """Return a decorator that registers a function as the rule for `source`."""

        def register(
            function: Callable[Concatenate[S, P], tuple[T, ...]],
        ) -> Callable[Concatenate[S, P], tuple[T, ...]]:
            self._add(source, Rule(produces, fidelity, answers, ext), function)
            return function

        return register

    def becomes(self, source: type, item: T, fidelity: Fidelity = EXACT) -> None:
        """Declare that each `source` becomes this item, regardless of its fields."""
        items = (item,)

        def write_item(_source: object, /, *_args: P.args, **_kwargs: P.kwargs) -> tuple[T, ...]:
            return items

        self._add(source, Rule((type(item),), fidelity), write_item)

    def carried(self, source: type, how: str, without: tuple[str, ...] = ()) -> None:
        """Declare that `source` writes nothing itself; `how` names the message that has its content.

        The fields `without` are lost, and counted by `context.lose`.
        """

        def write_nothing(_source: object, /, *_args: P.args, **_kwargs: P.kwargs) -> tuple[T, ...]:
            return ()

        def count_lost_fields(source: object, /, *args: P.args, **_kwargs: P.kwargs) -> tuple[T, ...]:
            context: Any = args[0]  # a subclass of Losses
            for field in fidelity.find_lost(source):
                context.lose(source, field, f"{how} has no place for it")
            return ()

        fidelity = Lossy(without)
        self._add(source, Rule((), Emulated(how, fields=without)), count_lost_fields if without else write_nothing)
        del (self.lossy if without else self.speaking)[source]

    def none(self, why: str, *sources: type) -> None:
        """Declare that the target has no form for `sources`; each one is counted by `context.lose`."""

        def count_loss(source: object, /, *args: P.args, **_kwargs: P.kwargs) -> tuple[T, ...]:
            context: Any = args[0]  # a subclass of Losses
            context.lose(source, "", why)
            return ()

        for source in sources:
            self._add(source, Rule((), Nothing(why)), count_loss)

    def _add(self, source: type, entry: Rule, function: Callable[Concatenate[Any, P], tuple[T, ...]]) -> None:
        if source in self.entries:
            raise TypeError(f"{self.name}: two rules for {source.__name__}")
        self.entries[source] = entry
        self.produced.update(entry.produces)
        if isinstance(entry.fidelity, Lossy):
            self.lossy[source] = entry.fidelity
        elif isinstance(entry.fidelity, Emulated) and entry.fidelity.fields:
            self.lossy[source] = Lossy(entry.fidelity.fields)
        for kind in entry.produces if entry.ext else ():
            self.ext[kind] = (*self.ext.get(kind, ()), *entry.ext)
        self.functions[source] = self.speaking[source] = function
