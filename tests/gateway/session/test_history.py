"""A history: ids that stay the same when it comes again, and pages from newest to oldest."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.session.history import answer_page, renew, without_unstored
from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical import state as state_module
from dragoman.mappings.canonical.commands import GetHistory
from dragoman.mappings.canonical.events import HistorySnapshot
from dragoman.mappings.canonical.state import continues
from dragoman.mappings.canonical.values import Item, Message, PastRun, Reasoning, Role, Status, ToolCall, ToolResult
from tests.gateway.session.items import answer, asks, assistant, ids, said, user


class Told:
    """A session that receives its history again and again."""

    def __init__(self) -> None:
        numbers = count(1)
        self.new_id = lambda: f"id-{next(numbers)}"
        self.state = SessionState(id="s")

    def hears(self, *items: Item, rotated: bool = False) -> list[Item]:
        event = renew(HistorySnapshot(items=items, rotated=rotated), self.state, self.new_id)
        self.state.transcript = list(event.items)
        self.state.fresh = len(event.items)
        return self.state.transcript

    def works_on(self, *items: Item, turn: str = "open") -> None:
        """Mark the items so far as ended turns, and begin an open one with these."""
        self.state.fresh = len(self.state.transcript)
        self.state.turn = OpenTurn(id=turn, message="answer")
        self.state.transcript += items


def test_every_message_gets_an_id_and_its_turn_begins_with_the_user() -> None:
    items = Told().hears(user("a"), Reasoning(text="hm"), assistant("b"), user("c"), assistant("d"))
    assert len(set(ids(items))) == 4
    assert "" not in ids(items)
    turns = [item.turn for item in items]
    assert turns[0] == turns[1] == turns[2] != turns[3] == turns[4]
    assert "" not in turns


def test_ids_in_a_history_are_kept() -> None:
    assert ids(Told().hears(user("a", id="mine"))) == ["mine"]


def test_a_repeated_history_keeps_all_ids() -> None:
    told = Told()
    items = (
        user("a"),
        ToolCall(call="c", name="grep", arguments="{}"),
        ToolResult(call="c", output="x"),
        assistant("b"),
    )
    first = list(told.hears(*items))
    assert told.hears(*items) == first


def test_the_beginning_of_a_compacted_history_keeps_its_ids() -> None:
    told = Told()
    first = ids(told.hears(user("a"), assistant("b"), user("c"), assistant("d")))
    second = ids(told.hears(user("a"), assistant("b"), Message(role="system", text="summary"), rotated=True))
    assert second[:2] == first[:2]
    assert second[2] not in first


def test_a_compacted_history_has_new_ids_from_its_first_difference() -> None:
    told = Told()
    first = ids(told.hears(user("a"), assistant("b")))
    second = ids(told.hears(Message(role="system", text="summary"), assistant("b"), rotated=True))
    assert not set(first) & set(second)


def test_messages_keep_their_ids_if_calls_and_results_change_their_order() -> None:
    told = Told()
    calls = [ToolCall(call=c, name="grep", arguments="{}") for c in "12"]
    results = [ToolResult(call=c, name="grep", output="x") for c in "12"]
    note = Message(role="system", text="note")
    first = told.hears(user("a"), calls[0], results[0], calls[1], results[1], note, assistant("b"), user("c"))
    spoken = [item for item in first if isinstance(item, Message) and item.role != "system"]
    again = told.hears(user("a"), note, *calls, *results, assistant("b"), user("c"))
    assert [item for item in again if isinstance(item, Message) and item.role != "system"] == spoken
    assert {item.turn for item in again} == {item.turn for item in first}


@pytest.mark.parametrize("more", [(), (user("c"),)], ids=["without", "with"])
def test_a_rotation_without_or_with_the_current_input_has_it_once_at_the_end(more: tuple[Message, ...]) -> None:
    told = Told()
    told.hears(user("a"), assistant("b"))
    told.works_on(user("c", id="c", turn="open"))
    items = told.hears(Message(role="system", text="summary"), *more, rotated=True)
    assert [i.text for i in items if isinstance(i, Message)] == ["summary", "c"]
    assert items[-1] == user("c", id="c", turn="open")


def test_a_snapshot_that_is_no_rotation_replaces_everything() -> None:
    told = Told()
    told.hears(user("a"))
    told.works_on(user("b", id="b", turn="open"))
    assert [i.text for i in told.hears(user("a")) if isinstance(i, Message)] == ["a"]


@pytest.mark.parametrize(
    ("told", "count", "rotated"),
    [((asks("1"), answer("a"), asks("2")), 0, False), ((asks("1"), answer("a")), 1, True)],
    ids=["a snapshot", "a rotation whose summary ends with the input of its first run"],
)
def test_a_compacted_history_tells_how_far_it_reaches(told: tuple[Item, ...], count: int, rotated: bool) -> None:
    known = [asks("1"), answer("a"), asks("2"), answer("cut")]
    state = SessionState(id="s", conversation="c", transcript=[*known], fresh=len(known))
    summary = 1 + count  # items
    event = HistorySnapshot(
        items=(Message(role="system", text="[Summary]"), *told),
        runs=(PastRun(first=summary, last=summary + 1),),
        rotated=rotated,
        compacted=True,
        conversation="c",
    )
    added = renew(event, state, lambda: "new")
    assert (list(added.items), added.summed_up) == (known, len(told))


@pytest.mark.parametrize(
    ("told", "status", "cut_off", "kept"),
    [
        ("hi", "running", "t", False),
        ("hi", "idle", "t", True),
        ("hi", "running", "", True),
        ("another", "running", "t", True),
    ],
    ids=["its run goes on", "its run is over", "it was not cut off", "another run goes on"],
)
def test_a_turn_whose_run_goes_on_over_a_new_connection_loses_what_was_heard_of_it(
    told: str, status: Status, cut_off: str, kept: bool
) -> None:
    heard = [user("hi", id="1", turn="t"), said("assistant", "some", id="2", turn="t")]
    state = SessionState(id="s", conversation="c", transcript=[*heard], fresh=2, cut_off=cut_off)
    event = HistorySnapshot(items=(user(told),), runs=(PastRun(first=0, last=1),), status=status, conversation="c")
    items = renew(event, state, lambda: "new").items
    assert items[0] == heard[0]
    assert (heard[1] in items) == kept


@pytest.mark.parametrize(
    ("stored", "stays"),
    [(user("a"), False), (user("b"), True), (user("edited", id="2"), True), (assistant("b"), True)],
    ids=["lost", "stored", "edited in the store", "no input is stored"],
)
def test_the_last_input_stays_unless_the_backend_lost_it(stored: Message, stays: bool) -> None:
    known = HistorySnapshot(items=(user("a", id="1"), user("b", id="2")))
    assert (without_unstored(known, [stored]) == known) == stays


# -- pages -------------------------------------------------------------------------------------------


def state_of(*items: Item) -> SessionState:
    return SessionState(id="s", transcript=list(items))


def talk(count: int) -> SessionState:
    roles: tuple[Role, Role] = ("user", "assistant")
    return state_of(*(Message(role=roles[n % 2], text=str(n), id=f"m{n}", turn=f"t{n // 2}") for n in range(count)))


def page(state: SessionState, request: str, limit: int, cursor: str) -> HistorySnapshot | None:
    found = answer_page(state, GetHistory(request=request, limit=limit, cursor=cursor))
    return found if isinstance(found, HistorySnapshot) else None


def texts(event: HistorySnapshot | None) -> list[str]:
    assert event is not None
    return [item.text for item in event.items if isinstance(item, Message)]


def test_a_page_is_newest_first_and_leads_to_the_next_one() -> None:
    state = talk(5)
    first = page(state, "r", 2, "")
    assert texts(first) == ["4", "3"]
    assert first is not None
    assert (first.request, first.next_cursor) == ("r", "m3")
    second = page(state, "r", 2, "m3")
    assert texts(second) == ["2", "1"]
    assert second is not None
    last = page(state, "r", 2, second.next_cursor or "")
    assert texts(last) == ["0"]
    assert last is not None
    assert last.next_cursor is None


def test_a_page_that_ends_with_the_first_message_has_no_cursor() -> None:
    found = page(talk(4), "r", 4, "")
    assert found is not None
    assert (len(found.items), found.next_cursor) == (4, None)


def test_a_page_of_a_long_history_looks_at_no_more_messages_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    state, looks = talk(10_000), list[Message]()

    def look(last: Message, message: Message) -> bool:
        looks.append(message)
        return continues(last, message)

    monkeypatch.setattr(state_module, "continues", look)
    for newest in (9_999, 99):
        looks.clear()
        cursor = f"m{newest + 1}" if newest < 9_999 else ""
        assert texts(page(state, "r", 10, cursor)) == [str(newest - n) for n in range(10)]
        assert len(looks) <= 13


def test_a_page_before_the_first_message_is_empty() -> None:
    found = page(talk(4), "r", 4, "m0")
    assert found is not None
    assert (found.items, found.next_cursor) == ((), None)


@pytest.mark.parametrize("cursor", ["m9", "4", "M1"])
def test_an_unknown_cursor_has_no_page(cursor: str) -> None:
    assert page(talk(4), "r", 2, cursor) is None


def test_a_page_shows_only_what_user_and_assistant_said() -> None:
    found = page(
        state_of(
            user("a", id="1", turn="t"),
            Message(role="system", text="internal", id="2"),
            Reasoning(text="secret", turn="t"),
            ToolCall(call="c", name="grep", arguments="{}", turn="t"),
            ToolResult(call="c", output="x", turn="t"),
        ),
        "r",
        10,
        "",
    )
    assert texts(found) == ["a"]


def test_the_text_blocks_of_one_turn_are_one_message_under_the_answers_id() -> None:
    found = page(
        state_of(
            user("a", id="1", turn="t"),
            Message(role="assistant", text="one ", turn="t"),
            ToolCall(call="c", name="grep", arguments="{}", turn="t"),
            Message(role="assistant", text="two", id="answer", turn="t"),
        ),
        "r",
        10,
        "",
    )
    assert texts(found) == ["one two", "a"]
    assert found is not None
    assert isinstance(found.items[0], Message)
    assert found.items[0].id == "answer"


@given(st.integers(0, 30), st.integers(1, 7))
def test_page_after_page_shows_every_message_once(messages: int, limit: int) -> None:
    state, seen, cursor = talk(messages), list[str](), ""
    for _ in range(messages + 1):
        found = page(state, "r", limit, cursor)
        seen += texts(found)
        assert found is not None
        if found.next_cursor is None:
            break
        cursor = found.next_cursor
    assert seen == [str(n) for n in reversed(range(messages))]
