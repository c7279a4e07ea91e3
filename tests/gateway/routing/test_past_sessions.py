"""The owners of forgotten sessions, and the sessions that clients deleted."""

from __future__ import annotations

from uuid import uuid4

from dragoman.gateway.endpoint import parse
from dragoman.gateway.routing.past_sessions import REMEMBERED_MAX, KnownBackends, KnownSessions, PastSessions


def test_a_deleted_session_is_hidden_under_each_form_of_its_name() -> None:
    past, name = PastSessions("test", KnownSessions()), str(uuid4())
    past.hide([name])
    assert past.is_hidden(name)
    assert past.is_hidden(f"thread-{name}")
    assert not past.is_hidden(str(uuid4()))


def test_a_forgotten_session_has_another_owner_for_everybody_but_its_owner() -> None:
    past, name = PastSessions("test", KnownSessions()), str(uuid4())
    past.note_owner([name], "ann")
    assert past.owner_of(name) == "ann"
    assert past.has_other_owner(f"thread-{name}", "eve")
    assert not past.has_other_owner(name, "ann")


def test_the_oldest_names_are_forgotten_first() -> None:
    past = PastSessions("test", KnownSessions())
    past.hide(f"s{number}" for number in range(REMEMBERED_MAX + 1))
    assert not past.is_hidden("s0")
    assert past.is_hidden("s1")


def test_all_routes_to_a_backend_know_the_owners_of_its_sessions_until_they_have_none() -> None:
    known, name = KnownSessions(), str(uuid4())
    one, other = PastSessions("one", known), PastSessions("other", known)
    one.note_owner([name], "ann")
    assert other.has_other_owner(name, "eve")
    other.note_owner([name], "")
    assert not one.has_other_owner(name, "eve")


def test_routes_with_a_common_upstream_share_what_is_known_as_long_as_one_of_them_uses_it() -> None:
    backends = KnownBackends()
    both, one, other = ([parse(f"pod+unix:/{name}") for name in names] for names in ("ab", "a", "c"))
    known = backends.sessions_of(both)
    assert backends.sessions_of(one) is known
    assert backends.sessions_of(other) is not known
    known.owners["s"] = "ann"
    del known
    assert backends.sessions_of(one).owners == {}
