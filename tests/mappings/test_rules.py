"""The table of one direction: one entry a type, and what an entry does."""

from __future__ import annotations

import pytest

from dragoman.mappings.rules import EXACT, Emulated, Fidelity, Lossy, Nothing, Rules


class Noting:
    """A context that remembers what was lost."""

    def __init__(self) -> None:
        self.lost: list[object] = []

    def lose(self, source: object) -> None:
        self.lost.append(source)


def test_a_rule_is_found_by_the_type_of_its_source() -> None:
    rules = Rules("test")

    @rules.rule(int, produces=(str,))
    def number(value: int) -> tuple[str, ...]:
        return (str(value),)

    assert rules.functions[int](7) == ("7",)
    entry = rules.entries[int]
    assert (entry.source, entry.function, entry.produces, entry.fidelity) == (int, number, (str,), EXACT)


def test_the_decorated_function_stays_callable() -> None:
    rules = Rules("test")

    @rules.rule(int, fidelity=Lossy(("sign",)))
    def number(value: int) -> tuple[int, ...]:
        return (abs(value),)

    assert number(-7) == (7,)
    assert rules.entries[int].fidelity == Lossy(("sign",))
    assert rules.lossy == {int: "sign"}


def test_what_is_carried_writes_nothing_and_loses_nothing() -> None:
    rules, context = Rules("test"), Noting()
    rules.carried(int, "the sum")
    assert rules.functions[int](7, context) == ()
    assert (context.lost, rules.entries[int].fidelity) == ([], Emulated("the sum"))


def test_what_has_no_word_writes_nothing_and_is_counted() -> None:
    rules, context = Rules("test"), Noting()
    rules.none("no numbers here", int, float)
    assert rules.functions[int](7, context) == rules.functions[float](0.5, context) == ()
    assert (context.lost, rules.entries[float].fidelity) == ([7, 0.5], Nothing("no numbers here"))


def test_a_second_rule_for_a_type_is_refused_by_name() -> None:
    rules = Rules("test -> test")
    rules.carried(int, "x")
    with pytest.raises(TypeError, match="test -> test: two rules for int"):
        rules.none("y", int)
    with pytest.raises(TypeError, match="two rules for int"):
        rules.rule(int)(lambda _: ())


@pytest.mark.parametrize(
    ("fidelity", "kind"),
    [(EXACT, "exact"), (Lossy(("f",)), "lossy"), (Emulated("how"), "emulated"), (Nothing("why"), "none")],
)
def test_each_fidelity_says_its_kind(fidelity: Fidelity, kind: str) -> None:
    assert fidelity.kind == kind
