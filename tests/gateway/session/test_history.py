"""A history: ids that stay the same when it comes again, pages from newest to oldest, and a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.gateway.session.history import Addition, add_listed, fold_in, page, renew, without_unstored
from dragoman.mappings.canonical import OpenTurn, SessionState
from dragoman.mappings.canonical import state as state_module
from dragoman.mappings.canonical.events import HistorySnapshot
from dragoman.mappings.canonical.state import continues
from dragoman.mappings.canonical.values import Item, Message, PastRun, Reasoning, Role, ToolCall, ToolResult
from tests.step_counter import GROWTH, CopiedText, count_steps, growth


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


def user(text: str, id: str = "", turn: str = "") -> Message:
    return Message(role="user", text=text, id=id, turn=turn)


def assistant(text: str) -> Message:
    return Message(role="assistant", text=text)


def ids(items: list[Item]) -> list[str]:
    return [item.id for item in items if isinstance(item, Message)]


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


# -- pages -------------------------------------------------------------------------------------------


def state_of(*items: Item) -> SessionState:
    return SessionState(id="s", transcript=list(items))


def talk(count: int) -> SessionState:
    roles: tuple[Role, Role] = ("user", "assistant")
    return state_of(*(Message(role=roles[n % 2], text=str(n), id=f"m{n}", turn=f"t{n // 2}") for n in range(count)))


def texts(event: HistorySnapshot | None) -> list[str]:
    assert event is not None
    return [item.text for item in event.items if isinstance(item, Message)]


@pytest.mark.parametrize(
    ("stored", "stays"),
    [(user("a"), False), (user("b"), True), (user("edited", id="2"), True), (assistant("b"), True)],
    ids=["lost", "stored", "edited in the store", "no input is stored"],
)
def test_the_last_input_stays_unless_the_backend_lost_it(stored: Message, stays: bool) -> None:
    known = HistorySnapshot(items=(user("a", id="1"), user("b", id="2")))
    assert (without_unstored(known, [stored]) == known) == stays


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


# -- items of a backend's store are merged into known ones -----------------------------------------


def said(role: Role, text: str, id: str = "", turn: str = "") -> Message:
    return Message(role=role, text=text, id=id, turn=turn)


def call(turn: str) -> list[Item]:
    return [
        ToolCall(call="c", name="bash", arguments="{}", turn=turn),
        ToolResult(call="c", name="bash", summary="", output="ok", turn=turn),
    ]


def folded(listed: list[Item], transcript: list[Item]) -> list[str] | None:
    """Return the merged items in words: a message as its text, any other item as its type."""
    numbers = count(1)
    items = fold_in(listed, transcript, lambda: f"new-{next(numbers)}")
    if items is None:
        return None
    return [item.text if isinstance(item, Message) else type(item).__name__ for item in items]


def test_an_input_comes_before_the_calls_of_its_turn() -> None:
    transcript = [said("user", "1"), said("assistant", "a"), *call("t"), said("assistant", "b", turn="t")]
    listed: list[Item] = [said("user", "1"), said("assistant", "a"), said("user", "2"), said("assistant", "b")]
    assert folded(listed, transcript) == ["1", "a", "2", "ToolCall", "ToolResult", "b"]


def test_items_that_only_the_session_knows_keep_their_place() -> None:
    transcript: list[Item] = [said("user", "1"), said("assistant", "broke o", turn="x"), said("user", "2", turn="y")]
    assert folded([said("user", "1"), said("user", "2"), said("assistant", "b")], transcript) == [
        "1",
        "broke o",
        "2",
        "b",
    ]


def test_a_store_without_new_messages_changes_nothing() -> None:
    transcript = [said("user", "1", "m1"), *call("t"), said("assistant", "a", "ours", "t")]
    assert folded([said("user", "1", "m1"), said("assistant", "a", "m2")], transcript) is None
    assert folded([], transcript) is None


def test_equal_texts_are_one_message_only_after_the_last_common_message() -> None:
    transcript: list[Item] = [said("user", "go on"), said("assistant", "a")]
    listed: list[Item] = [*transcript, said("user", "go on"), said("assistant", "a")]
    assert folded(listed, transcript) == ["go on", "a", "go on", "a"]


def test_an_equal_id_counts_more_than_an_equal_text() -> None:
    transcript: list[Item] = [said("user", "x", "m1"), said("assistant", "y", "m2")]
    assert folded([said("user", "x and its context", "m1"), said("assistant", "y", "m2")], transcript) is None


def test_a_message_under_an_id_that_the_store_does_not_have_is_known_by_its_text() -> None:
    transcript: list[Item] = [said("user", "x", "ours-1"), said("assistant", "y", "ours-2")]
    assert folded([said("user", "x", "m1"), said("assistant", "y", "m2")], transcript) is None


def test_a_message_that_the_store_has_in_another_place_is_added_only_once() -> None:
    why = said("system", "broken", "m2", "t")
    transcript: list[Item] = [said("user", "1", turn="t"), why, said("assistant", "a", turn="t")]
    assert folded([said("user", "1", "m1"), said("assistant", "a", "m3"), why], transcript) is None


def test_an_answer_that_is_corrected_by_an_equal_one_is_no_change() -> None:
    transcript: list[Item] = [
        said("user", "no"),
        said("assistant", "done", "m5"),
        said("assistant", "o"),
        said("user", "no"),
    ]
    listed = [said("user", "no", "m0"), said("assistant", "done", "m1"), said("user", "no", "m4")]
    assert folded([*listed, said("assistant", "ok", "m5")], transcript) is None


def test_equal_inputs_are_told_apart_by_their_ids() -> None:
    known = said("user", "go on", "m2", "t")
    items = fold_in([said("user", "go on", "m1"), said("assistant", "a", "m3"), known], [known], lambda: "new")
    assert items is not None
    assert [item.id for item in items if isinstance(item, Message)] == ["m1", "m3", "m2"]


def test_an_answer_that_the_store_contradicts_gets_the_stores_text() -> None:
    transcript: list[Item] = [said("user", "1"), said("assistant", "Hlo", "ours", "t")]
    items = fold_in([said("user", "1"), said("assistant", "Hello", "m2")], transcript, lambda: "new")
    assert items == [transcript[0], said("assistant", "Hello", "ours", "t")]


def test_an_answer_of_which_only_the_end_was_heard_gets_the_stores_texts_in_their_order() -> None:
    heard = [said("assistant", "lo.", turn="t"), *call("t"), said("assistant", "Done.", turn="t")]
    listed: list[Item] = [said("user", "1"), *(said("assistant", text) for text in ("Hi.", "Hello.", "Done."))]
    assert folded(listed, [said("user", "1"), *heard]) == ["1", "Hi.", "Hello.", "ToolCall", "ToolResult", "Done."]


def test_an_answer_of_which_only_the_last_words_were_heard_comes_behind_the_stores_other_texts() -> None:
    listed: list[Item] = [said("user", "1"), said("assistant", "Hi."), said("assistant", "All done.")]
    assert folded(listed, [said("user", "1"), said("assistant", "done.", turn="t")]) == ["1", "Hi.", "All done."]


def test_messages_that_a_store_lists_without_ids_get_ids_also_before_an_answer_that_was_heard() -> None:
    listed: list[Item] = [
        said("user", "1"),
        said("assistant", "Hi."),
        said("assistant", "All done."),
        said("user", "2"),
    ]
    numbers = count(1)
    heard: list[Item] = [said("user", "1", "m1"), said("assistant", "done.", "m2", "t")]
    items = fold_in(listed, heard, lambda: f"new-{next(numbers)}")
    assert items is not None
    assert [item.id for item in items if isinstance(item, Message)] == ["m1", "new-1", "m2", "new-3"]


def test_a_question_in_words_that_no_store_has_stays_when_the_answer_after_it_is_corrected() -> None:
    asked = [said("assistant", "May I?", turn="t"), said("user", "approve", turn="u")]
    transcript: list[Item] = [said("user", "1"), *asked, said("assistant", "done.", turn="u")]
    listed: list[Item] = [said("user", "1"), said("assistant", "All done.")]
    assert folded(listed, transcript) == ["1", "May I?", "approve", "All done."]


RUNS = [said("user", "1"), said("assistant", "He"), said("user", "2"), said("assistant", "Two.")]


@pytest.mark.parametrize("heard", ["He Two.", "HeTwo."], ids=["a piece is wrong", "all of it"])
def test_two_runs_that_were_heard_as_one_get_the_order_of_the_store(heard: str) -> None:
    """A pando does not publish that a run broke off, and the next one may begin at once."""
    transcript = [RUNS[0], said("assistant", heard, turn="t"), *call("t"), said("assistant", "Done.", turn="t")]
    listed: list[Item] = [*RUNS, said("assistant", "Done.")]
    assert folded(listed, transcript) == ["1", "He", "2", "Two.", "ToolCall", "ToolResult", "Done."]


def test_the_end_of_a_run_that_was_heard_with_the_next_ones_is_not_told_twice() -> None:
    transcript: list[Item] = [*RUNS[:2], *call("t"), said("assistant", "Two.Three.", turn="t")]
    listed: list[Item] = [*RUNS, said("user", "3"), said("assistant", "Three.")]
    assert folded(listed, transcript) == ["1", "He", "ToolCall", "ToolResult", "2", "Two.", "3", "Three."]


def test_an_answer_whose_blocks_the_store_joins_keeps_its_blocks() -> None:
    transcript = [said("user", "1"), said("assistant", "a", turn="t"), *call("t"), said("assistant", "b", "ours", "t")]
    listed: list[Item] = [said("user", "1"), said("assistant", "ab", "m2")]
    assert folded(listed, transcript) is None
    after: list[Item] = [*listed, said("user", "2"), said("assistant", "c")]
    assert folded(after, transcript) == ["1", "a", "ToolCall", "ToolResult", "b", "2", "c"]


QUESTION = "The agent asks for your approval of rm: it\n\ndeletes\nAnswer approve or deny."


def test_an_answer_that_was_seen_with_questions_in_words_stays_as_it_was_seen() -> None:
    seen = [f"Let me see.\n\n{QUESTION}", "approve", QUESTION, "deny", " Done."]
    roles: list[Role] = ["assistant", "user", "assistant", "user", "assistant"]
    transcript: list[Item] = [said("user", "Delete it"), *map(said, roles, seen)]
    listed: list[Item] = [said("user", "Delete it"), said("assistant", "Let me see. Done.")]
    assert folded(listed, transcript) is None


def test_the_rest_of_an_answer_that_was_seen_up_to_its_question_is_added_behind_what_the_user_answered() -> None:
    seen = f"Let me see.\n\n{QUESTION}"
    transcript: list[Item] = [said("user", "Delete it"), said("assistant", seen), said("user", "approve")]
    listed: list[Item] = [said("user", "Delete it"), said("assistant", "Let me see. Done.")]
    assert folded(listed, transcript) == ["Delete it", seen, "approve", " Done."]


def test_new_messages_begin_turns_of_their_own() -> None:
    numbers = count(1)
    items = fold_in(
        [said("user", "1", "m1"), said("user", "2", "m2"), said("assistant", "b", "m3")],
        [said("user", "1", "m1", "t")],
        lambda: f"new-{next(numbers)}",
    )
    assert items is not None
    assert [item.turn for item in items] == ["t", "new-1", "new-1"]


# -- missed messages are added, each in its place and none twice -----------------------------------


def asks(text: str) -> Message:
    return Message(role="user", text=text, id=f"u {text}", turn=text)


def answer(text: str, turn: str = "") -> Message:
    return Message(role="assistant", text=text, id=f"a {text}", turn=turn)


def added(known: Sequence[Item], told: Sequence[Item]) -> list[Item]:
    numbers = count()
    return Addition(known, lambda: f"new {next(numbers)}").of(told)


def texts_of(items: Sequence[Item]) -> list[str]:
    return [item.text if isinstance(item, Message) else type(item).__name__ for item in items]


def test_an_answer_is_copied_once_for_all_blocks_in_which_it_was_seen() -> None:
    before = CopiedText.copies
    items = added([asks("a"), *[answer("b")] * 9], [asks("a"), answer(CopiedText("b" * 9 + "c"))])
    assert (texts_of(items), CopiedText.copies) == (["a", *["b"] * 8, "bc"], before + 1)


CALL = ToolCall(call="c", name="ls", arguments="{}")
RESULT = ToolResult(call="c", name="ls", output="x")
THOUGHT = Reasoning(text="hm")
NOTE = Message(role="system", text="note")


@pytest.mark.parametrize(
    ("known", "told", "becomes"),
    [
        ([asks("1"), answer("a")], [asks("1"), answer("a")], ["1", "a"]),
        ([asks("1"), answer("cut")], [asks("1")], ["1", "cut"]),
        ([asks("1"), answer("cut"), asks("2")], [asks("1"), asks("2"), answer("b")], ["1", "cut", "2", "b"]),
        ([asks("1"), answer("He")], [asks("1"), answer("Hello")], ["1", "Hello"]),
        ([asks("1"), answer("lo")], [asks("1"), answer("Hello")], ["1", "Hello"]),
        ([asks("1"), answer("He"), CALL, answer("l")], [asks("1"), CALL, answer("Hel")], ["1", "He", "ToolCall", "l"]),
        ([asks("1"), answer("He"), answer("l")], [asks("1"), answer("Hello")], ["1", "He", "llo"]),
        ([asks("1"), answer("Hello")], [asks("1"), answer("Hel")], ["1", "Hello"]),
        ([asks("1"), answer("He"), answer("llo")], [asks("1"), answer("Hel")], ["1", "He", "llo"]),
        ([asks("1"), answer("Hello")], [asks("1"), answer("Hel"), CALL, answer("lo")], ["1", "Hello", "ToolCall"]),
        ([asks("1"), answer("Hello")], [asks("1"), answer("Hel"), answer("lo!")], ["1", "Hello!"]),
        ([asks("1"), answer("Hello")], [asks("1"), answer("Hel"), answer("x")], ["1", "Hello", "x"]),
        ([asks("1"), answer("He"), answer("llo")], [asks("1"), *map(answer, ["Hel", "l", "o"])], ["1", "He", "llo"]),
        ([asks("1"), answer("a"), answer("c")], [asks("1"), *map(answer, "abc")], [*"1abc"]),
        ([asks("1"), answer("xlo")], [asks("1"), answer("He"), answer("lo")], ["1", "xlo", "He", "lo"]),
        ([asks("1"), answer("a")], [asks("1"), answer("a"), asks("1"), answer("a")], ["1", "a", "1", "a"]),
        ([asks("1"), answer("cut")], [asks("1"), asks("2"), answer("cut off")], ["1", "cut", "2", "cut off"]),
        ([asks("1"), CALL, RESULT], [asks("1"), RESULT, CALL, NOTE], ["1", "ToolCall", "ToolResult", "note"]),
        ([asks("1"), answer("a")], [asks("1"), THOUGHT, CALL, answer("a")], ["1", "Reasoning", "ToolCall", "a"]),
        ([asks("1"), THOUGHT, answer("a")], [asks("1"), answer("a"), THOUGHT], ["1", "Reasoning", "a"]),
        ([asks("2")], [asks("1"), answer("a"), asks("2")], ["1", "a", "2"]),
        ([asks("1"), NOTE], [asks("1"), NOTE, answer("a")], ["1", "note", "a"]),
        ([asks("1"), answer("x"), asks("2"), answer("a")], [asks("1"), answer("a"), asks("2")], [*"1xa2a"]),
        ([asks("1"), answer("a"), asks("2"), answer("b")], [asks("2"), answer("b"), asks("3")], [*"1a2b3"]),
        ([asks("0")], [asks("1"), answer("a")], [*"01a"]),
        ([asks("1"), answer("a"), asks("2")], [asks("1"), answer("a"), answer("b")], [*"1ab2"]),
        ([asks("1"), answer("a"), asks("2")], [asks("1"), answer("a"), answer("b"), asks("3")], [*"1ab23"]),
    ],
)
def test_a_history_adds_missed_messages_in_their_place(known: list[Item], told: list[Item], becomes: list[str]) -> None:
    assert texts_of(added(known, told)) == becomes


def test_known_messages_keep_their_ids_and_new_ones_get_ids() -> None:
    known: list[Item] = [asks("1"), answer("He", turn="1")]
    whole = Message(role="assistant", text="Hello", id="theirs")
    items = added(known, [asks("1"), whole, Message(role="user", text="2"), Message(role="assistant", text="b")])
    assert [item.id for item in items if isinstance(item, Message)] == ["u 1", "a He", "new 1", "new 2"]
    assert [item.turn for item in items] == ["1", "1", "new 0", "new 0"]


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


ROLES: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant"])
ITEMS = st.lists(st.builds(Message, role=ROLES, text=st.text(alphabet="ab", min_size=1, max_size=2)), max_size=12)


LISTED = st.lists(
    st.one_of(
        st.builds(
            Message,
            role=st.sampled_from(["user", "assistant", "assistant", "system"]),
            text=st.text(alphabet="ab", max_size=3),
            id=st.sampled_from(["", "", "1", "2", "3", "4"]),
        ),
        st.sampled_from([CALL, RESULT, THOUGHT]),
    ),
    max_size=12,
)


@given(LISTED, LISTED)
@example([], [user("a", id="1"), user("b", id="1")])
def test_a_history_is_added_once_and_moves_nothing_that_clients_saw(first: list[Item], told: list[Item]) -> None:
    numbers = count()

    def add(known: list[Item], more: list[Item]) -> list[Item]:
        return Addition(known, lambda: f"new {next(numbers)}").of(more)

    known = [*{_identity(item): item for item in add([], first)}.values()]
    once = add(known, told)
    assert add(once, told) == once
    assert len(set(ids(once))) == len(ids(once))
    rest = iter(once)
    assert all(any(_stays(item, other) for other in rest) for item in known)


def _identity(item: Item) -> object:
    return item.id if isinstance(item, Message) else item


def _stays(item: Item, other: Item) -> bool:
    """Return True if the other one is this item; an answer may have become longer."""
    if isinstance(item, Message) and isinstance(other, Message) and item.role == "assistant":
        return item.id == other.id and (other.text.startswith(item.text) or other.text.endswith(item.text))
    return item == other


@given(st.lists(st.sampled_from("xy"), min_size=1, max_size=8), st.data())
def test_a_list_that_overlaps_with_what_is_known_is_added_at_that_end(inputs: list[str], data: st.DataObject) -> None:
    runs = [[user(text), assistant(f"<{n}>")] for n, text in enumerate(inputs)]
    begin = data.draw(st.integers(0, len(runs) - 1))
    end = data.draw(st.integers(begin + 1, len(runs)))
    older, newer = ([item for run in some for item in run] for some in (runs[:end], runs[begin:]))
    for known, told in (older, newer), (newer, older):
        assert texts_of(added([*known], [*told])) == [item.text for run in runs for item in run]


@given(ITEMS)
def test_every_beginning_of_a_history_is_completed_by_it(told: list[Message]) -> None:
    for end in range(len(told) + 1):
        assert texts_of(added([*told[:end]], [*told])) == texts_of([*told])


REPEATED: list[Item] = [
    said("user", "Go on" if n % 4 == 2 else f"{n}?") if n % 2 == 0 else answer(f"{n}.") for n in range(20)
]
"""A conversation in which every second input has the same text."""


@pytest.mark.parametrize("heard", [20, 18, 16])
@pytest.mark.parametrize("listed", [18, 12, 6])
def test_the_newest_messages_are_added_in_their_place_if_inputs_are_alike(heard: int, listed: int) -> None:
    items = add_listed(REPEATED[-listed:], REPEATED[:heard], lambda: "id")
    assert texts_of(items or REPEATED[:heard]) == texts_of(REPEATED)


@pytest.mark.parametrize(
    ("known", "listed", "becomes"),
    [
        ("g:a g:b", "g:bc", "g:a g:bc"),
        ("g:a g:ab", "g:abc g:abd", "g:abc g:abd"),
        ("x:y g:a s:b", "g:c s:d", "x:y g:a s:b g:c s:d"),
        ("g:a s: g:b", "g:a s: g:bc s:d", "g:a s: g:bc s:d"),
        ("g: g:b", "g:bc", "g: g:bc"),
        ("g:a s:b", "g:a s:", "g:a s:b"),
        ("g:a s:x g:b", "g:a s:y g:b", "g:a s:xy g:b"),
        ("g:x", "g:y", "g:xy"),
        ("x:y s: g:a", "s: g:a", "x:y s: g:a"),
        ("g:a g:ab", "g:ab", "g:a g:ab"),
        ("g:z g:bc", "g:abc", "g:z g:abc"),
        ("x:y g:", "g: x:y", "g: x:y g:"),
    ],
    ids=[
        "heard in part",
        "both heard in part",
        "missed",
        "in the middle",
        "cancelled before",
        "not stored yet",
        "stored otherwise",
        "the only one, stored otherwise",
        "cut list",
        "an equal answer",
        "heard at its end",
        "another one without an answer",
    ],
)
def test_a_repeated_input_is_that_of_the_run_with_its_answer(known: str, listed: str, becomes: str) -> None:
    transcript = conversation(known)
    for _ in "twice":
        transcript = add_listed(conversation(listed), transcript, lambda: "id") or transcript
        assert "".join(texts_of(transcript)) == "".join(texts_of(conversation(becomes)))


def conversation(runs: str) -> list[Item]:
    """Return the messages of runs, written as the input, a colon and the answer, which may be missing."""
    pairs = [run.split(":") for run in runs.split(" ")]
    return [item for text, reply in pairs for item in (said("user", text), *([answer(reply)] if reply else []))]


def test_the_cost_of_a_list_of_equal_inputs_is_proportional_to_its_length() -> None:
    def work(number: int) -> Callable[[], object]:
        known, listed = ([run for n in range(number) for run in conversation(f"g:{who}{n}")] for who in "ab")
        return lambda: add_listed(listed, known, lambda: "id")

    assert growth(work, [200, 200, 400, 800]) <= GROWTH


def test_a_list_that_contradicts_many_equal_inputs_costs_little_more_than_one_of_other_inputs() -> None:
    def steps(input: str) -> int:
        known, listed = (conversation(" ".join(f"{input.format(n)}:{who}{n}" for n in range(1000))) for who in "ab")
        return count_steps(lambda: add_listed(listed, known, lambda: "id"))

    assert steps("g") < 3 * steps("{}")


def test_runs_that_are_alike_are_added_if_the_list_has_more_of_them() -> None:
    run: list[Item] = [said("user", "Go on"), answer("Done.")]
    assert texts_of(add_listed(run * 6, run * 5, lambda: "id") or []) == texts_of(run * 6)
    assert add_listed(run * 4, run * 5, lambda: "id") is None


def test_known_runs_in_another_order_are_not_added_again() -> None:
    first, second, third = ([user(text, id=text), said("assistant", text, id=f"a {text}")] for text in "123")
    assert add_listed([*second, *first], [*first, *second], lambda: "id") is None
    assert added([*first, *second], [*second, *third, *first])[:4] == [*first, *second]
    assert texts_of(added([*first, *second], [user("1"), *second, *first])) == [*"11122"]


def test_an_input_with_an_id_is_no_other_one_with_its_words() -> None:
    first, second = ([user("Go on", id=number), assistant("Done.")] for number in "12")
    assert ids(added(second, [*first, *second])) == ["1", "new 1", "2", ""]


def test_a_repeated_input_is_found_among_any_number_of_runs() -> None:
    known = [item for n in range(200) for item in (user("Go on"), assistant(f"<{n}>"))]
    assert add_listed(known[-2:], known, lambda: "id") is None
    more = [user("Go on"), assistant("<200>")]
    transcript = add_listed(more, known, lambda: "id") or []
    assert texts_of(transcript) == [*texts_of(known), "Go on", "<200>"]
    assert add_listed(more, transcript, lambda: "id") is None
