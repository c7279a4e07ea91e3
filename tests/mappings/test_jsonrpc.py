"""The calls that wait for an answer."""

from __future__ import annotations

from dragoman.mappings.jsonrpc import WAITING_MAX, PendingCalls


def test_the_table_is_full_at_its_limit_and_not_before() -> None:
    calls = PendingCalls[int]((str(n), n) for n in range(WAITING_MAX - 1))
    assert not calls.full
    calls["last"] = WAITING_MAX
    assert calls.full


def test_what_is_drained_comes_in_the_order_of_asking_and_is_forgotten() -> None:
    calls = PendingCalls[str](b="first", a="second")
    assert (calls.drain(), dict(calls)) == (["first", "second"], {})
