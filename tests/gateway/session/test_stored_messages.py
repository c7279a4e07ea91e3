"""The messages that only a store has are added to the transcript, each in its place."""

from __future__ import annotations

from itertools import count

import pytest

from dragoman.gateway.session.stored_messages import fold_in
from dragoman.mappings.canonical.values import Item, Message, Role, ToolCall, ToolResult
from tests.gateway.session.items import said


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


def test_the_end_of_such_an_answer_that_was_not_heard_belongs_to_its_last_block() -> None:
    transcript = [said("user", "1"), said("assistant", "a", turn="t"), *call("t"), said("assistant", "b", "ours", "t")]
    listed: list[Item] = [said("user", "1"), said("assistant", "abc", "m2")]
    assert folded(listed, transcript) == ["1", "a", "ToolCall", "ToolResult", "bc"]


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
