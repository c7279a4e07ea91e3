"""The size and the messages of a transcript are counted as it grows, for every kind of change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dragoman.gateway.session.digest import TranscriptDigest
from dragoman.gateway.session.weight import of_item
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.values import Item, Message, Reasoning, ToolCall, ToolResult
from tests.step_counter import count_steps


def said(role: str, text: str, turn: str = "") -> Message:
    return Message(role="user" if role == "user" else "assistant", text=text, turn=turn)


def talk(count: int) -> list[Item]:
    return [said("user" if number % 2 == 0 else "assistant", f"{number}", f"t{number // 2}") for number in range(count)]


def test_the_oldest_items_are_dropped_until_the_rest_fits() -> None:
    items, digest = talk(10), TranscriptDigest()
    limit = sum(map(of_item, items[6:]))
    assert digest.drop_oldest(items, limit) == 6
    assert items == talk(10)[6:]
    assert digest.size == limit


def test_no_items_are_dropped_if_all_fit() -> None:
    items, digest = talk(10), TranscriptDigest()
    assert digest.drop_oldest(items, sum(map(of_item, items))) == 0
    assert len(items) == 10


def test_every_kind_of_item_is_counted() -> None:
    digest = TranscriptDigest()
    items: list[Item] = [
        said("user", "12345"),
        Reasoning(text="12345"),
        ToolCall(call="c", name="n", arguments="12345"),
        ToolResult(call="c", summary="12", output="345"),
    ]
    digest.update(items)
    assert [digest.drop_oldest(items, digest.size - 1) for _ in range(4)] == [1, 1, 1, 1]
    assert items == []


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_transcript_whose_end_was_cut_off_is_counted_again(cut: int) -> None:
    items, digest = talk(4), TranscriptDigest()
    digest.update(items)
    del items[cut:]
    items += [said("user", "another"), said("user", "input")][: 4 - cut]
    digest.update(items)
    assert digest.size == sum(map(of_item, items))


def test_a_message_whose_earlier_blocks_were_dropped_still_counts_as_one() -> None:
    items: list[Item] = [said("assistant", "long", "t"), ToolCall(call="c", name="n", arguments="{}", turn="t")]
    digest = TranscriptDigest()
    for rest in (1, 0):
        digest.drop_oldest(items, rest * of_item(items[-1]))
        assert digest.messages == 0
    items.append(said("assistant", "its end", "t"))
    digest.update(items)
    assert digest.messages == 1


TEXTS = ("", "x", "\u00e4\U0001f40b")
MESSAGES = [said(role, text, turn) for role in ("user", "assistant") for text in TEXTS for turn in ("", "a", "b")]
ITEMS = st.sampled_from([*MESSAGES, *(Reasoning(text=text) for text in TEXTS)]).map(structs.replace)  # never the same
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(ITEMS, max_size=5)),
    st.tuples(st.just("drop"), st.integers(0, 2_000)),
    st.tuples(st.just("cut"), st.integers(0, 10)),
    st.tuples(st.just("replace"), st.lists(ITEMS, max_size=5)),
)


@given(st.lists(STEPS, max_size=10))
def test_the_sums_are_those_of_the_whole_transcript_after_any_change(steps: list[tuple[str, object]]) -> None:
    state, digest = SessionState(id="s"), TranscriptDigest()
    for step, given_value in steps:
        if isinstance(given_value, int):
            if step == "drop":
                digest.drop_oldest(state.transcript, given_value)
            else:
                del state.transcript[given_value:]
        elif isinstance(given_value, list):
            if step == "replace":
                state.transcript = []
            state.transcript += given_value
        digest.update(state.transcript)
        messages = state.messages()
        assert digest.size == sum(map(of_item, state.transcript))
        assert digest.messages == len(messages)
        assert digest.first_input == next((message.text for message in messages if message.role == "user"), None)


@pytest.mark.parametrize("is_full", [False, True], ids=["below the limit", "at the limit"])
def test_a_further_turn_costs_the_same_after_50_and_5000_turns(is_full: bool) -> None:
    costs = []
    for turns in (50, 5_000):
        items, digest = talk(2 * turns), TranscriptDigest()
        digest.update(items)
        limit = digest.size if is_full else 10 * digest.size
        items += [said("user", "12345678", "next"), said("assistant", "12345678", "next")]
        costs.append(count_steps(lambda items=items, digest=digest, limit=limit: digest.drop_oldest(items, limit)))  # type: ignore[misc]  # mypy: defaults of a lambda
    assert costs[1] < 1.5 * costs[0]


@pytest.mark.parametrize("begins", [(), (said("user", "first"),)], ids=["nothing said", "said at last"])
def test_a_message_of_the_system_costs_the_same_after_50_and_5000_of_them(begins: tuple[Item, ...]) -> None:
    costs = []
    for number in (50, 5_000):
        items, digest = [*begins, *[Message(role="system", text="x")] * number, *begins], TranscriptDigest()
        digest.drop_oldest(items, number * of_item(items[1]))
        limit = digest.size
        items.append(Message(role="system", text="x"))
        costs.append(count_steps(lambda items=items, digest=digest, limit=limit: digest.drop_oldest(items, limit)))  # type: ignore[misc]  # mypy: defaults of a lambda
    assert costs[1] < 1.5 * costs[0]
