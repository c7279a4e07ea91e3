"""The items of a backend's store are merged into those that a session knows."""

from __future__ import annotations

from itertools import count

from dragoman.gateway.session.history import fold_in
from dragoman.mappings.canonical.values import Item, Message, Role, ToolCall, ToolResult


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


def test_an_answer_that_the_store_contradicts_gets_the_stores_text() -> None:
    transcript: list[Item] = [said("user", "1"), said("assistant", "Hlo", "ours", "t")]
    items = fold_in([said("user", "1"), said("assistant", "Hello", "m2")], transcript, lambda: "new")
    assert items == [transcript[0], said("assistant", "Hello", "ours", "t")]


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
