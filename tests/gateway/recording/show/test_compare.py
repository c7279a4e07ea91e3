from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.compare import Difference, compare, turns, turns_of
from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import Message, Usage
from tests.gateway.recording.lines import FROZEN
from tests.step_counter import GROWTH, growth


def said(*events: Any, turn: str = "t") -> list[tuple[str, Any]]:
    return [(turn, event) for event in events]


def user(text: str) -> events.MessageAppended:
    return events.MessageAppended(message=Message(role="user", text=text, id="some id"))


def call(id: str, name: str = "read", arguments: str = '{"a":1}', output: str = "ok") -> list[Any]:
    return [
        events.ToolCallStarted(call=id, name=name),
        events.ToolCallArguments(call=id, name=name, json=arguments, done=True),
        events.ToolCallFinished(call=id, name=name, output=output),
    ]


ENDED = events.TurnEnded(end="completed")


def differences(a: list[Any], b: list[Any]) -> list[Difference]:
    return compare(turns_of(said(*a)), turns_of(said(*b, turn="another id")))


def test_a_recording_is_equal_to_itself() -> None:
    plain, packed = open_recording(FROZEN / "v4.jsonl"), open_recording(FROZEN / "v4.jsonl.zst")
    (turn,) = turns(plain.events())
    assert [block.what for block in turn.blocks] == ["input", "text", "tool"]
    assert compare(turns(plain.events()), turns(packed.events())) == []


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([events.TextDelta(text="ab")], [events.TextDelta(text="a"), events.TextDelta(text="b")]),
        (
            [
                events.TextDelta(text="a"),
                events.TextDone(text="a"),
                events.TextDelta(text="b"),
                events.TextDone(text="b"),
            ],
            [events.TextDelta(text="ab"), events.TextDone(text="ab")],
        ),
        (call("1"), call("other id")),
        (call("1", arguments='{"a":1,"b":[2]}'), call("1", arguments='{ "b" : [2], "a": 1 }')),
        ([events.ReasoningDelta(text="hm"), events.TextDelta(text="a")], [events.TextDelta(text="a")]),
        (
            [events.TurnEnded(end="completed", message="m1", usage=Usage(input_tokens=1))],
            [events.TurnEnded(end="completed", message="m2")],
        ),
        ([events.ModelTurnStarted(index=0), events.UsageReported(usage=Usage())], []),
        ([events.QuestionAsked(text="in words"), events.TextDelta(text="a")], [events.TextDelta(text="a")]),
        (
            [events.ApprovalRequested(tool="rm", description="all", question="q1")],
            [events.ApprovalRequested(tool="rm", description="all", question="q2")],
        ),
    ],
)
def test_fields_without_meaning_make_no_difference(a: list[Any], b: list[Any]) -> None:
    assert differences([user("hi"), *a, ENDED], [user("hi"), *b, ENDED]) == []


@pytest.mark.parametrize(
    ("a", "b", "difference"),
    [
        ([user("hi")], [user("ho")], Difference(turn=1, what="input", a="hi", b="ho")),
        (
            [events.TextDelta(text="a"), events.TextDelta(text="b")],
            [events.TextDelta(text="ac")],
            Difference(turn=1, what="text", a="ab", b="ac"),
        ),
        ([events.TextDelta(text="a")], [], Difference(turn=1, what="text", a="a")),
        (call("1"), [], Difference(turn=1, what="tool read", a='{"a":1} -> ok')),
        (
            call("1"),
            call("1", arguments='{"a":2}'),
            Difference(turn=1, what="tool read, arguments", a='{"a":1}', b='{"a":2}'),
        ),
        (call("1"), call("1", output="no"), Difference(turn=1, what="tool read, result", a="ok", b="no")),
        (
            [events.ApprovalResolved(approved=True)],
            [events.ApprovalResolved(approved=False)],
            Difference(turn=1, what="answer", a="approved", b="denied"),
        ),
        (
            [events.InteractionRequired(question="q", kind="form", spec=Raw(b'{"a":1}'), reason="")],
            [events.InteractionRequired(question="q", kind="form", spec=Raw(b'{"a":2}'), reason="")],
            Difference(turn=1, what="question form", a='{"a":1}', b='{"a":2}'),
        ),
        ([ENDED], [events.TurnEnded(end="failed")], Difference(turn=1, what="end", a="completed", b="failed")),
        ([ENDED], [], Difference(turn=1, what="end", a="completed", b="(not ended)")),
    ],
)
def test_relevant_differences_are_reported_with_their_place(a: list[Any], b: list[Any], difference: Difference) -> None:
    if difference.what == "input":
        assert differences(a, b) == [difference]
    else:
        assert differences([user("hi"), *a], [user("hi"), *b]) == [difference]


def test_a_missing_block_does_not_make_later_ones_differ() -> None:
    a = [user("hi"), *call("1", "read"), events.TextDelta(text="x"), *call("2", "write")]
    b = [user("hi"), events.TextDelta(text="x"), *call("2", "write")]
    assert [difference.what for difference in differences(a, b)] == ["tool read"]


def test_results_of_parallel_calls_are_compared_by_call_not_by_order() -> None:
    first, second = call("1", "read", output="1"), call("2", "read", output="2")
    one = [first[0], second[0], first[1], second[1], first[2], second[2]]
    other = [first[0], second[0], first[1], second[1], second[2], first[2]]
    assert differences([user("hi"), *one], [user("hi"), *other]) == []


def test_an_additional_turn_is_one_difference() -> None:
    both = said(user("one"), ENDED, turn="1")
    more = said(user("two"), ENDED, turn="2")
    (difference,) = compare(turns_of(both + more), turns_of(both))
    assert difference == Difference(turn=2, what="turn", a="'two', 1 blocks, completed")


def test_the_cost_of_equal_turns_grows_with_their_number() -> None:
    def work(number: int) -> Callable[[], object]:
        turns = list(turns_of([item for turn in range(number) for item in said(user("go on"), ENDED, turn=str(turn))]))
        return lambda: compare(turns, [*turns[: number // 2], *turns_of(said(user("stop"), ENDED)), *turns])

    assert growth(work, [50, 100, 200, 400]) < GROWTH


def test_events_outside_of_turns_are_not_compared() -> None:
    assert compare(turns_of(said(user("hi"), turn="")), turns_of([])) == []


def test_an_input_that_the_backend_tells_before_its_turn_is_compared_with_that_turn() -> None:
    told_before = said(user("hi"), turn="") + said(ENDED)
    assert compare(turns_of(told_before), turns_of(said(user("hi"), ENDED))) == []
    assert len(compare(turns_of(told_before), turns_of(said(user("bye"), ENDED)))) == 1


def test_a_difference_in_a_long_text_is_shown_from_shortly_before_it() -> None:
    same = "word " * 1000
    shown = str(Difference(turn=3, what="text", a=f"{same}this {same}", b=f"{same}that {same}"))
    first, a, b = shown.split("\n")
    assert first == "turn 3: text"
    assert a.startswith("- …")
    assert "this" in a
    assert "that" in b
    assert len(shown) < 800


def test_a_difference_of_several_lines_marks_each() -> None:
    assert str(Difference(turn=1, what="text", a="x\ny")) == "turn 1: text\n- x\n- y\n+ (nothing)"
