"""Missed messages are added to the transcript, each in its place and none twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.gateway.session.addition import Addition, add_listed
from dragoman.mappings.canonical.values import Item, Message, Reasoning, Role, ToolCall, ToolResult
from tests.gateway.session.items import answer, asks, assistant, conversation, ids, said, texts_of, user
from tests.step_counter import GROWTH, CopiedText, count_steps, growth


def added(known: Sequence[Item], received: Sequence[Item]) -> list[Item]:
    numbers = count()
    return Addition(known, lambda: f"new {next(numbers)}").of(received)


def test_an_answer_is_copied_at_most_once_for_all_blocks_in_which_it_was_seen() -> None:
    before = CopiedText.copies
    items = added([asks("a"), *[answer("b")] * 9], [asks("a"), answer(CopiedText("b" * 9 + "c"))])
    assert texts_of(items) == ["a", *["b"] * 8, "bc"]
    assert CopiedText.copies <= before + 1


CALL = ToolCall(call="c", name="ls", arguments="{}")
RESULT = ToolResult(call="c", name="ls", output="x")
THOUGHT = Reasoning(text="hm")
NOTE = Message(role="system", text="note")


@pytest.mark.parametrize(
    ("known", "received", "becomes"),
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
def test_a_history_adds_missed_messages_in_their_place(
    known: list[Item], received: list[Item], becomes: list[str]
) -> None:
    assert texts_of(added(known, received)) == becomes


def test_known_messages_keep_their_ids_and_new_ones_get_ids() -> None:
    known: list[Item] = [asks("1"), answer("He", turn="1")]
    whole = Message(role="assistant", text="Hello", id="theirs")
    items = added(known, [asks("1"), whole, Message(role="user", text="2"), Message(role="assistant", text="b")])
    assert [item.id for item in items if isinstance(item, Message)] == ["u 1", "a He", "new 1", "new 2"]
    assert [item.turn for item in items] == ["1", "1", "new 0", "new 0"]


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
def test_a_history_is_added_once_and_moves_nothing_that_clients_saw(first: list[Item], received: list[Item]) -> None:
    numbers = count()

    def add(known: list[Item], more: list[Item]) -> list[Item]:
        return Addition(known, lambda: f"new {next(numbers)}").of(more)

    known = [*{_identity(item): item for item in add([], first)}.values()]
    once = add(known, received)
    assert add(once, received) == once
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
    for known, received in (older, newer), (newer, older):
        assert texts_of(added([*known], [*received])) == [item.text for run in runs for item in run]


@given(ITEMS)
def test_every_beginning_of_a_history_is_completed_by_it(received: list[Message]) -> None:
    for end in range(len(received) + 1):
        assert texts_of(added([*received[:end]], [*received])) == texts_of([*received])


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
