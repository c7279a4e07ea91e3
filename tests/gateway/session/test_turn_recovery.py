"""The snapshot of a reconnected backend decides how the interrupted turn continues."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman.gateway.session.turn_recovery import (
    as_events,
    find_turn,
    items_of_earlier_turns,
    missed_events,
    start_of_run,
    without_items,
)
from dragoman.gateway.session.wording import ANSWER_APPROVAL, ANSWER_CODE
from dragoman.mappings.canonical import Event, OpenTurn, SessionState, events
from dragoman.mappings.canonical.events import (
    Gap,
    HistorySnapshot,
    MessageAppended,
    ReasoningDone,
    TextDone,
)
from dragoman.mappings.canonical.state import TextBlock
from dragoman.mappings.canonical.values import Item, Message, PastRun, Reasoning, Role, ToolCall, ToolResult
from tests.step_counter import GROWTH, CopiedText, growth

ASKED = Message(role="user", text="Hi", id="u")


def answered(text: str) -> tuple[Item, ...]:
    return (ASKED, Message(role="assistant", text=text, id="a"))


def in_a_turn(*parts: str) -> SessionState:
    block = TextBlock(at=0)
    block.parts += parts
    turn = OpenTurn(id="t", message="m", blocks=[block], open=block, accepted=True)
    return SessionState(id="s", turn=turn, transcript=[ASKED])


def test_a_run_with_an_end_ends_the_turn_with_that_end() -> None:
    history = HistorySnapshot(
        items=answered("Hello"), status="idle", runs=(PastRun(first=1, last=2, end="limit_reached"),)
    )
    found = find_turn(in_a_turn("Hel"), "Hi", history, 0)
    assert (found.verdict, found.end) == ("ended", "limit_reached")


@pytest.mark.parametrize(
    ("item", "missed"),
    [
        (ASKED, []),
        (Message(role="system", text="note"), [MessageAppended(message=Message(role="system", text="note"))]),
        (Message(role="user", text="More"), [Gap(text="the message that this turn answers was missed")]),
        (Reasoning(text="hm"), [ReasoningDone(text="hm")]),
        (Message(role="assistant", text="Bye"), []),  # a part of it was missed: the text that was heard stays
    ],
)
def test_an_item_of_the_run_is_told_as_far_as_it_was_not_heard(item: Item, missed: list[Event]) -> None:
    state = in_a_turn("Hel")
    assert state.turn is not None
    assert state.turn.open is not None
    state.turn.open.done = True
    assert missed_events(state.turn, state.transcript, [item]) == missed


class ComparedText(str):
    """A text whose comparisons are steps of Python."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str(self) == other


def test_a_message_of_the_run_costs_the_same_however_many_were_heard() -> None:
    def many_messages(number: int) -> Callable[[], object]:
        heard = [Message(role="user", text=ComparedText(n)) for n in range(number)]
        return lambda: missed_events(OpenTurn(id="t", message="m"), heard, heard[::-1])

    assert growth(many_messages, [100, 100, 200, 400]) <= GROWTH


def test_a_stored_text_is_copied_once_for_all_blocks_that_were_heard() -> None:
    turn = OpenTurn(id="t", message="m", blocks=[TextBlock(parts=["a"], done=True)] * 9)
    before = CopiedText.copies
    missed = missed_events(turn, [], [Message(role="assistant", text=CopiedText("a" * 9 + "b"))])
    assert (missed, CopiedText.copies) == ([TextDone(text="b")], before + 1)


CUT_OFF = Message(role="assistant", text="Hel", id="a")  # a pod does not log it
WOKEN = PastRun(first=0, last=0)
INPUT = Message(role="user", text="More", id="v")


@pytest.mark.parametrize(
    ("known", "found_running", "items", "runs", "verdict"),
    [
        ((CUT_OFF,), None, (), (WOKEN,), "running"),
        ((CUT_OFF,), None, (INPUT,), (WOKEN, PastRun(first=0, last=1)), "unknown"),
        ((ASKED,), 0, (ASKED,), (PastRun(first=0, last=1),), "running"),
        ((ASKED,), 0, (ASKED,), (PastRun(first=0, last=1), PastRun(first=1, last=1)), "unknown"),
        ((ASKED,), 0, (ASKED,), (PastRun(first=0, last=1, end="failed"), PastRun(first=1, last=1)), "unknown"),
        ((ASKED,), 1, (ASKED,), (PastRun(first=0, last=0, end="failed"), PastRun(first=0, last=1)), "running"),
        ((), 0, (), (WOKEN,), "running"),
        ((ASKED,), 0, (ASKED, INPUT), (PastRun(first=0, last=1, end="failed"), PastRun(first=1, last=2)), "unknown"),
        ((ASKED,), None, (INPUT,), (PastRun(first=0, last=1),), "running"),  # the history was rewritten
    ],
)
def test_a_turn_without_input_goes_on_unless_another_run_began(
    known: tuple[Item, ...], found_running: int | None, items: tuple[Item, ...], runs: tuple[PastRun, ...], verdict: str
) -> None:
    state = SessionState(id="s", turn=OpenTurn(id="t", message="m"), transcript=[*known], found_running=found_running)
    history = HistorySnapshot(items=items, status="running", runs=runs)
    assert find_turn(state, None, history, len(known)).verdict == verdict


def test_a_run_that_was_found_running_ends_with_what_was_missed_of_it() -> None:
    known, missed = answered("Hello"), Message(role="assistant", text="Bye")
    state = SessionState(id="s", turn=OpenTurn(id="t", message="m"), transcript=[*known], found_running=1)
    runs = PastRun(first=0, last=0, end="failed"), PastRun(first=0, last=3, end="completed")
    found = find_turn(state, None, HistorySnapshot(items=(*known, missed), status="idle", runs=runs), len(known))
    assert (found.verdict, found.end, found.own) == ("ended", "completed", (missed,))


def test_an_equal_input_after_the_lost_one_is_another_turn() -> None:
    """A pod does not log an input with an unknown workflow, so the histories differ."""
    runs = PastRun(first=0, last=1), PastRun(first=1, last=2)
    history = HistorySnapshot(items=(ASKED, ASKED), status="running", runs=runs)
    state = SessionState(id="s", turn=OpenTurn(id="t", message="m", accepted=True), transcript=[INPUT, ASKED])
    assert find_turn(state, "Hi", history, 1).verdict == "unknown"


@pytest.mark.parametrize(
    ("logged", "verdict"),
    [
        (("Hi", "Go on"), "unknown"),
        (("Hi", "Go on", "Go on"), "running"),
        (("Go on",), "unknown"),  # a summary replaced "Hi"
        (("Go on", "Go on"), "running"),
    ],
)
def test_an_input_is_behind_those_that_were_known_before(logged: tuple[str, ...], verdict: str) -> None:
    items = tuple(Message(role="user", text=text) for text in logged)
    runs = tuple(PastRun(first=i, last=i + 1) for i in range(len(items)))
    state = SessionState(id="s", transcript=[ASKED, Message(role="user", text="Go on", id="g")])
    assert find_turn(state, "Go on", HistorySnapshot(items=items, status="running", runs=runs), 2).verdict == verdict


class CountedText(str):
    """A text that counts the comparisons of such texts."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedText.comparisons += 1
        return str.__eq__(self, other)


def test_equal_inputs_of_a_long_history_are_compared_a_few_times_each() -> None:
    def said(count: int) -> list[Item]:
        return [Message(role="user", text=CountedText("Hi")) for _ in range(count)]

    state = SessionState(id="s", transcript=said(400))
    items = (*said(200), Message(role="user", text="Go on"), *said(199))
    find_turn(state, "Go on", HistorySnapshot(items=items, status="idle"), 400)
    assert 0 < CountedText.comparisons <= 4 * 800


# -- the runs before the turn that are parts of its run at the backend -----------------------------------


QUESTION = f"The agent asks.\n{ANSWER_APPROVAL}"
CALLED: list[Item] = [
    Reasoning(text="hm", turn="t2"),
    ToolCall(call="c", name="ls", arguments="{}", turn="t2"),
    ToolResult(call="c", name="ls", output="x", turn="t2"),
]


def told(role: Role, text: str, turn: str) -> Message:
    return Message(role=role, text=text, turn=turn)


def parked(*items: Item) -> SessionState:
    return SessionState(id="s", transcript=list(items), fresh=len(items))


BEFORE = told("user", "Hi", "t1"), told("assistant", "Hello", "t1")
PARKED = told("user", "Delete it", "t2"), *CALLED, told("assistant", f"Let me see.\n\n{QUESTION}", "t2")
AGAIN = told("user", "approve", "t3"), told("assistant", QUESTION, "t3")


def test_a_run_begins_with_the_first_of_the_turns_that_a_question_in_words_joins() -> None:
    assert start_of_run(parked(*BEFORE, *PARKED, *AGAIN)) == len(BEFORE)
    assert start_of_run(parked(*BEFORE, *PARKED)) == len(BEFORE)
    assert start_of_run(parked(*PARKED)) == 0


@pytest.mark.parametrize("last", ["Hello", f"Pay?\n{ANSWER_CODE}", f"{QUESTION}\n\nYou denied it."])
def test_a_run_begins_with_its_turn_if_no_question_parked_the_one_before(last: str) -> None:
    items = told("user", "Hi", "t1"), told("assistant", last, "t1")
    assert start_of_run(parked(*items)) == len(items)
    assert start_of_run(parked()) == 0


def test_questions_and_what_the_user_typed_are_not_among_what_the_backend_told() -> None:
    heard = items_of_earlier_turns(parked(*BEFORE, *PARKED, *AGAIN))
    assert heard == [*CALLED, told("assistant", "Let me see.", "t2")]


def test_items_that_were_heard_are_left_out_once_each() -> None:
    first, more, result = told("assistant", "Yes", "t"), told("assistant", "Yes", "u"), CALLED[2]
    assert without_items([first, *CALLED, more], [first, *CALLED[:2]]) == (result, more)


def test_items_are_told_as_the_events_of_their_turn() -> None:
    assert [*as_events([*CALLED, told("assistant", "Yes", "t2")])] == [
        events.ReasoningStarted(),
        events.ReasoningDelta(text="hm"),
        events.ReasoningDone(text="hm"),
        events.ToolCallStarted(call="c", name="ls"),
        events.ToolCallArguments(call="c", name="ls", json="{}", done=True),
        events.ToolCallFinished(call="c", name="ls", output="x"),
        events.TextDelta(text="Yes"),
        events.TextDone(text="Yes"),
    ]
