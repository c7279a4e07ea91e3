"""The owners of forgotten sessions, and the sessions that clients deleted."""

from __future__ import annotations

from uuid import uuid4

from dragoman.gateway.routing.past_sessions import REMEMBERED_MAX, PastSessions


def test_a_deleted_session_is_hidden_under_each_form_of_its_name() -> None:
    past, name = PastSessions("test"), str(uuid4())
    past.hide([name])
    assert past.is_hidden(name)
    assert past.is_hidden(f"thread-{name}")
    assert not past.is_hidden(str(uuid4()))


def test_a_forgotten_session_has_another_owner_for_everybody_but_its_owner() -> None:
    past, name = PastSessions("test"), str(uuid4())
    past.remember_owner([name], "ann")
    assert past.owner_of(name) == "ann"
    assert past.has_other_owner(f"thread-{name}", "eve")
    assert not past.has_other_owner(name, "ann")


def test_the_oldest_names_are_forgotten_first() -> None:
    past = PastSessions("test")
    past.hide(f"s{number}" for number in range(REMEMBERED_MAX + 1))
    assert not past.is_hidden("s0")
    assert past.is_hidden("s1")
