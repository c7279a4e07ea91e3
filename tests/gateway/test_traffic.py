"""Totals of the frames that links exchange."""

from __future__ import annotations

from dragoman.gateway.ledger import Ledger
from dragoman.gateway.traffic import Traffic, size_of_frames, timed


def test_links_of_one_dialect_and_role_add_to_the_same_totals() -> None:
    ledger = Ledger()
    assert ledger.traffic_of("pod", "client") is ledger.traffic_of("pod", "client")
    assert ledger.traffic_of("pod", "client") is not ledger.traffic_of("pod", "backend")


def test_a_timed_function_returns_its_result_and_notes_each_call() -> None:
    traffic = Traffic()
    measure = timed(len, traffic.note_read)
    assert [measure("ab"), measure("abc")] == [2, 3]
    assert traffic.reads == 2
    assert traffic.read_ns > 0


def test_the_size_of_frames_is_that_of_their_bytes() -> None:
    assert size_of_frames([b"abc", b"de"]) == 5
