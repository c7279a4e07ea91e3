"""A history adds missed messages to a transcript, each in its place and none twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.session.history import Addition
from dragoman.mappings.canonical.values import Item, Message, Reasoning, Role, ToolCall, ToolResult


def user(text: str) -> Message:
    return Message(role="user", text=text, id=f"u {text}", turn=text)


def answer(text: str, turn: str = "") -> Message:
    return Message(role="assistant", text=text, id=f"a {text}", turn=turn)


def added(known: Sequence[Item], told: Sequence[Item]) -> list[Item]:
    numbers = count()
    return Addition(known, lambda: f"new {next(numbers)}").of(told)[0]


def texts(items: list[Item]) -> list[str]:
    return [item.text if isinstance(item, Message) else type(item).__name__ for item in items]


CALL = ToolCall(call="c", name="ls", arguments="{}")
RESULT = ToolResult(call="c", name="ls", output="x")
THOUGHT = Reasoning(text="hm")
NOTE = Message(role="system", text="note")


@pytest.mark.parametrize(
    ("known", "told", "becomes"),
    [
        ([user("1"), answer("a")], [user("1"), answer("a")], ["1", "a"]),
        ([user("1"), answer("cut")], [user("1")], ["1", "cut"]),
        ([user("1"), answer("cut"), user("2")], [user("1"), user("2"), answer("b")], ["1", "cut", "2", "b"]),
        ([user("1"), answer("He")], [user("1"), answer("Hello")], ["1", "Hello"]),
        ([user("1"), answer("lo")], [user("1"), answer("Hello")], ["1", "Hello"]),
        ([user("1"), answer("He"), CALL, answer("l")], [user("1"), CALL, answer("Hel")], ["1", "He", "ToolCall", "l"]),
        ([user("1"), answer("He"), answer("l")], [user("1"), answer("Hello")], ["1", "He", "llo"]),
        ([user("1"), answer("a")], [user("1"), answer("a"), user("1"), answer("a")], ["1", "a", "1", "a"]),
        ([user("1"), answer("cut")], [user("1"), user("2"), answer("cut off")], ["1", "cut", "2", "cut off"]),
        ([user("1"), CALL, RESULT], [user("1"), RESULT, CALL, NOTE], ["1", "ToolCall", "ToolResult", "note"]),
        ([user("1"), answer("a")], [user("1"), THOUGHT, CALL, answer("a")], ["1", "Reasoning", "ToolCall", "a"]),
        ([user("1"), THOUGHT, answer("a")], [user("1"), answer("a"), THOUGHT], ["1", "Reasoning", "a"]),
        ([user("2")], [user("1"), answer("a"), user("2")], ["1", "a", "2"]),
        ([user("1"), NOTE], [user("1"), NOTE, answer("a")], ["1", "note", "a"]),
        ([user("1"), answer("x"), user("2"), answer("a")], [user("1"), answer("a"), user("2")], [*"1xa2a"]),
    ],
)
def test_a_history_adds_missed_messages_in_their_place(known: list[Item], told: list[Item], becomes: list[str]) -> None:
    assert texts(added(known, told)) == becomes


def test_known_messages_keep_their_ids_and_new_ones_get_ids() -> None:
    known: list[Item] = [user("1"), answer("He", turn="1")]
    whole = Message(role="assistant", text="Hello", id="theirs")
    items = added(known, [user("1"), whole, Message(role="user", text="2"), Message(role="assistant", text="b")])
    assert [item.id for item in items if isinstance(item, Message)] == ["u 1", "a He", "new 1", "new 2"]
    assert [item.turn for item in items] == ["1", "1", "new 0", "new 0"]


def test_an_addition_tells_how_far_the_history_reaches() -> None:
    numbers = count()
    known: list[Item] = [user("1"), answer("a"), user("2"), answer("cut")]
    items, reach = Addition(known, lambda: str(next(numbers))).of([user("1"), answer("a"), user("2")])
    assert (texts(items), reach) == (["1", "a", "2", "cut"], 3)


ROLES: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant"])
ITEMS = st.lists(st.builds(Message, role=ROLES, text=st.text(alphabet="ab", min_size=1, max_size=2)), max_size=12)


@given(ITEMS, ITEMS)
def test_a_history_added_twice_adds_nothing_more(known: list[Message], told: list[Message]) -> None:
    once = added([*known], [*told])
    users = [item.text for item in once if isinstance(item, Message) and item.role == "user"]
    assert [item.text for item in known if item.role == "user"] == _within(users, known)
    assert texts(added(once, once)) == texts(once)


def _within(users: list[str], known: list[Message]) -> list[str]:
    """Return the users' messages of `known` that occur in `users` in the same order."""
    rest = iter(users)
    return [item.text for item in known if item.role == "user" and item.text in rest]


@given(ITEMS)
def test_every_beginning_of_a_history_is_completed_by_it(told: list[Message]) -> None:
    for end in range(len(told) + 1):
        assert texts(added([*told[:end]], [*told])) == texts([*told])
