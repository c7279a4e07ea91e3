"""The input that began the run of a followed session."""

from __future__ import annotations

from dragoman.mappings.canonical.values import Message
from dragoman.mappings.pando.translator.run_input import RunInput

TYPED = Message(role="user", text="hi", id="m")


def test_publications_wait_until_each_input_of_ours_is_answered() -> None:
    begun = RunInput()
    begun.submit()
    begun.submit()
    assert (begun.answer(), begun.waits) == (False, True)
    assert (begun.answer(), begun.waits) == (True, False)


def test_an_input_is_asked_for_once_and_not_if_it_was_published() -> None:
    begun = RunInput()
    assert begun.learn(0)
    assert not begun.learn(0)
    assert begun.stop_learning()
    assert not begun.stop_learning()
    assert not begun.learn(0), "it was asked for in this run"
    begun.end()
    begun.publish(TYPED)
    assert not begun.learn(0)
    assert begun.id == "m"


def test_the_last_message_of_a_list_is_the_input_unless_it_was_known_before() -> None:
    begun = RunInput()
    begun.find((TYPED,), frozenset())
    assert (begun.id, begun.is_old) == ("m", False)
    begun.find((TYPED,), frozenset({"m"}))
    assert (begun.id, begun.is_old) == ("", True)
    begun.end()
    assert not begun.is_old


def test_a_run_forgets_the_input_of_the_one_before() -> None:
    begun = RunInput()
    begun.begin("hi")
    begun.publish(TYPED)
    begun.end()
    begun.begin(None)
    assert (begun.ours, begun.id, begun.waits) == (None, "", False)
