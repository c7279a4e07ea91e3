"""The known messages of a store. test_client.py tests through the link how runs use them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence

import pytest

from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import Message
from dragoman.mappings.pando.translator import known_messages
from dragoman.mappings.pando.translator.known_messages import ID_MAX, INPUTS_MAX, KnownMessages, up_to_input
from dragoman.mappings.pando.translator.output import LatestCall, StreamedOutput
from dragoman.mappings.pando.translator.run_input import ListCall, RunInput
from tests.step_counter import GROWTH, growth


def user(text: str, id: str) -> Message:
    return Message(role="user", text=text, id=id)


def texts(told: Sequence[object]) -> list[str]:
    return [event.message.text for event in told if isinstance(event, events.MessageAppended)]


def test_the_oldest_input_that_no_list_had_is_forgotten() -> None:
    known = KnownMessages()
    for number in range(INPUTS_MAX + 1):
        known.note_input(str(number))
    assert texts(known.missed_inputs([user("0", "a"), user("1", "b")])) == ["0"]


def test_the_texts_of_inputs_that_no_list_had_are_not_kept() -> None:
    known = KnownMessages()
    tracemalloc.start()
    for number in range(INPUTS_MAX):
        known.note_sent(f"{number}" * 100_000)
        known.note_published(user(f"{number}" * 100_000, "m"))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000


def test_the_ids_that_a_turn_without_end_publishes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_messages, "IDS_MAX", 3)
    known = KnownMessages()
    for number in range(9):
        known.note_published(user("Hi", f"m{number}"))
        known.note_published(user("Hi", f"m{number}" * ID_MAX))
        known.note_listed([user("Hi", f"l{number}")])
    assert known.ids == {"m0", "l0", "m1"}


def test_a_refused_input_that_is_stored_came_from_another_client() -> None:
    known = KnownMessages()
    known.note_input("Hello")
    known.forget_input("Hello")
    assert texts(known.missed_inputs([user("Hello", "a")])) == ["Hello"]


def test_equal_inputs_are_counted_one_by_one() -> None:
    known = KnownMessages()
    known.note_input("go on")
    assert texts(known.missed_inputs([user("go on", "a"), user("go on", "b")])) == ["go on"]


def test_a_list_without_any_input_has_no_complete_answer() -> None:
    assert up_to_input((Message(role="assistant", text="Hel", id="m"),)) == ()


def test_an_input_of_the_turn_that_is_stored_with_context_is_ours_and_one_with_another_text_is_not() -> None:
    for stored, told in (("[context]\nHello", []), ("Good bye", ["Good bye"])):
        known = KnownMessages()
        known.note_input("Hello")
        assert texts(known.missed_inputs([user(stored, "a")], "Hello")) == told


def test_an_answer_that_repeats_a_failure_costs_the_same_however_many_there_are() -> None:
    def many_answers(number: int) -> Callable[[], object]:
        rows = tuple(Message(role="assistant", text="no quota", id=str(n)) for n in range(number))
        return lambda: KnownMessages().without_failure(
            (user("a", "a"), *rows), "no quota", StreamedOutput(LatestCall())
        )

    assert growth(many_answers, [100, 100, 200, 400]) <= GROWTH


class CountedSet(set[str]):
    """Ids that count how often they are copied."""

    copies = 0

    def __sub__(self, other: object) -> set[str]:
        self.copies += 1
        return set(self)


def test_the_known_ids_are_copied_once_for_each_list() -> None:
    known, rows = KnownMessages(), tuple(user(str(n), str(n)) for n in range(10))
    known.ids = ids = CountedSet(row.id for row in rows)
    known.up_to_run(rows, 1, "")
    assert ids.copies == 1


ANSWER = Message(role="assistant", text="c", id="c")
STORE = (user("a", "a"), Message(role="assistant", text="b", id="b"), user("d", "d"), ANSWER)


@pytest.mark.parametrize(
    ("prompt", "own", "later", "last"),
    [("a", None, 0, "b"), ("d", None, 0, "c"), ("", "a", 0, "b"), ("", None, 1, "b"), ("", None, 0, "c")],
    ids=["its id", "the id of the last input", "our text", "the runs behind it", "nothing is known"],
)
def test_the_messages_of_a_run_end_before_the_next_input(prompt: str, own: str | None, later: int, last: str) -> None:
    begun = RunInput(ListCall())
    begun.id, begun.ours = prompt, own
    assert KnownMessages().of_run(STORE, begun, later)[-1].id == last


def test_a_run_whose_input_is_an_old_one_has_all_messages_behind_it() -> None:
    known = KnownMessages()
    known.note_listed(STORE)
    assert known.of_run(STORE, RunInput(ListCall()), 1) == STORE


def test_a_broken_run_with_an_old_input_ends_before_the_first_new_one() -> None:
    known = KnownMessages()
    begun = RunInput(ListCall())
    begun.is_old = True
    known.note_listed(STORE[:1])
    assert known.of_broken_run(STORE, begun, 1) == STORE[:2]
    known.note_listed(STORE)
    assert known.of_broken_run(STORE, begun, 1) == STORE


def test_an_empty_store_has_no_answer() -> None:
    assert not KnownMessages().is_answered(())
