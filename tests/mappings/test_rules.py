"""The table of one direction: one entry for each type, and the effects of an entry."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from dragoman.mappings.canonical.commands import AnswerApproval, SubmitInput
from dragoman.mappings.canonical.events import HistorySnapshot, MessageAppended, ToolCallFinished, TurnEnded
from dragoman.mappings.canonical.values import Failure, ImageAttachment, Message, Reasoning, Text, Usage
from dragoman.mappings.rules import EXACT, Emulated, Fidelity, Lossy, Nothing, Rules
from tests.step_counter import count_steps


class Noting:
    """A context that records the losses."""

    def __init__(self) -> None:
        self.lost: list[object] = []

    def lose(self, source: object, _field: str = "", _why: str = "") -> None:
        self.lost.append(source)


def test_a_rule_is_found_by_the_type_of_its_source() -> None:
    rules = Rules[[], str]("test")

    @rules.rule(int, produces=(str,))
    def number(value: int) -> tuple[str, ...]:
        return (str(value),)

    assert rules.functions[int](7) == ("7",)
    assert (rules.entries[int].produces, rules.entries[int].fidelity) == ((str,), EXACT)


def test_the_decorated_function_stays_callable() -> None:
    rules = Rules[[], int]("test")

    @rules.rule(int, fidelity=Lossy(("sign",)))
    def number(value: int) -> tuple[int, ...]:
        return (abs(value),)

    assert number(-7) == (7,)
    assert rules.entries[int].fidelity == Lossy(("sign",))
    assert rules.lossy == {int: Lossy(("sign",))}


def test_a_carried_type_writes_nothing_and_is_no_loss() -> None:
    rules, context = Rules[[Noting], str]("test"), Noting()
    rules.carried(int, "the sum")
    assert rules.functions[int](7, context) == ()
    assert (context.lost, rules.entries[int].fidelity) == ([], Emulated("the sum"))


def test_a_type_without_a_form_writes_nothing_and_is_counted() -> None:
    rules, context = Rules[[Noting], str]("test"), Noting()
    rules.none("no numbers here", int, float)
    assert rules.functions[int](7, context) == rules.functions[float](0.5, context) == ()
    assert (context.lost, rules.entries[float].fidelity) == ([7, 0.5], Nothing("no numbers here"))


def test_a_table_says_why_a_command_is_not_written() -> None:
    rules = Rules[[Noting], str]("canonical commands -> acme")
    rules.none("a number is no text", int)
    rules.carried(float, "the next text")
    assert rules.refusal_of(int) == Failure(cause="unsupported", text="a number is no text")
    assert rules.refusal_of(float) == Failure(cause="unsupported", text="acme has no such command")


def test_a_second_rule_for_a_type_is_refused_by_name() -> None:
    rules = Rules[[], str]("test -> test")
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


if TYPE_CHECKING:  # mypy must refuse the last three of these rules: it reports an `ignore` without an error
    TYPED = Rules[[], Text]("checked by mypy")

    @TYPED.rule(Failure, produces=(Text,))
    def right(failure: Failure) -> tuple[Text, ...]:
        return (Text(text=failure.text),)

    @TYPED.rule(Failure, produces=(Text,))  # type: ignore[arg-type]  # the function takes another type
    def wrong_source(text: Text) -> tuple[Text, ...]:
        return (text,)

    @TYPED.rule(Failure, produces=(Text,))  # type: ignore[arg-type]  # the table's functions take no context
    def wrong_parameters(failure: Failure, _context: object) -> tuple[Text, ...]:
        return (Text(text=failure.text),)

    @TYPED.rule(Failure, produces=(Text,))  # type: ignore[arg-type]  # the function returns another type
    def wrong_result(failure: Failure) -> tuple[str, ...]:
        return (failure.text,)


@pytest.mark.parametrize(
    ("event", "fields", "lost"),
    [
        (TurnEnded(end="completed", text="whole", message="m"), ("end", "text", "message", "usage"), ()),
        (TurnEnded(end="cancelled"), ("end", "text", "failure.cause"), ("end",)),
        (
            TurnEnded(end="failed", failure=Failure(cause="busy", text="b")),
            ("failure.cause", "usage.cost_usd"),
            ("failure.cause",),
        ),
        (SubmitInput(segments=(Text(text="a"),)), ("model", "segments", "segments.image"), ()),
        (SubmitInput(segments=(Text(text="a"), ImageAttachment(url="u"))), ("segments.image",), ("segments.image",)),
        (SubmitInput(segments=(ImageAttachment(url="u"),), model="m"), ("segments", "model"), ("segments", "model")),
        (
            MessageAppended(message=Message(role="user", text="a", segments=(Text(text="a"),))),
            ("message.segments",),
            (),
        ),
        (ToolCallFinished(call="c", name="bash", output="o"), ("call", "name"), ("call",)),
        (AnswerApproval(approved=True, question="q"), ("question",), ()),
    ],
)
def test_only_fields_that_an_item_has_are_lost_with_it(
    event: object, fields: tuple[str, ...], lost: tuple[str, ...]
) -> None:
    assert Lossy(fields).find_lost(event) == lost


def test_the_kinds_of_a_long_history_are_looked_at_once() -> None:
    rule = Lossy(("items.turn", "items.tool_call", "items.segments", "items.reasoning"))
    item = Message(role="user", text="a")
    histories = [HistorySnapshot(items=(*(item,) * count, Reasoning(text="r"))) for count in (10, 1000)]
    assert {rule.find_lost(history) for history in histories} == {("items.reasoning",)}
    few, many = (count_steps(partial(rule.find_lost, history)) for history in histories)
    assert few == many


def test_an_item_loses_only_the_fields_that_its_form_loses() -> None:
    rule = Lossy(("end", "usage"), lost_by=lambda event: () if event.end == "limit_reached" else ("end",))
    assert rule.find_lost(TurnEnded(end="limit_reached")) == ()
    assert rule.find_lost(TurnEnded(end="cancelled", usage=Usage(input_tokens=1))) == ("end",)
