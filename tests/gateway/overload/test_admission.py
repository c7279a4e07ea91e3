"""New connections are refused if their address has or makes too many, or if memory is short."""

from __future__ import annotations

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway.config.model import Limits
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload import admission
from dragoman.gateway.overload.admission import Admission
from dragoman.gateway.overload.memory import MemoryBudget
from tests.gateway.in_memory import ManualClock

LIMITS = Limits(address_links=3, connection_rate=2.0, connection_burst=5)


def admitting(time: ManualClock, limits: Limits = LIMITS) -> Admission:
    return Admission(limits, MemoryBudget(), Ledger(), time.clock)


def test_an_address_has_at_most_so_many_links_at_once_and_others_have_their_own() -> None:
    admits = admitting(ManualClock())
    for _ in range(3):
        assert admits.connect("a") == ""
    assert "`address_links`" in admits.connect("a")
    assert admits.connect("b") == ""
    admits.disconnect("a")
    assert admits.connect("a") == ""


def test_an_address_connects_in_a_burst_and_then_at_its_rate() -> None:
    time = ManualClock()
    admits = admitting(time)
    for _ in range(5):
        assert admits.connect("a") == ""
        admits.disconnect("a")
    assert "`connection_rate`" in admits.connect("a")
    assert admits.connect("b") == ""
    time.passes(0.6)
    assert admits.connect("a") == ""


def test_another_rate_counts_at_once_for_addresses_that_are_known() -> None:
    admits = admitting(ManualClock())
    for _ in range(5):
        assert admits.connect("a") == ""
        admits.disconnect("a")
    admits.change_limits(structs.replace(LIMITS, links=9))
    assert "`connection_rate`" in admits.connect("a")
    admits.change_limits(structs.replace(LIMITS, connection_burst=1))
    assert admits.connect("a") == ""
    admits.disconnect("a")
    assert "`connection_rate`" in admits.connect("a")


def test_a_link_counts_with_its_connection_unless_its_listener_counted_that() -> None:
    admits = admitting(ManualClock(), Limits(address_links=1, links=2))
    assert admits.enter("a") == ""
    assert "`address_links`" in admits.enter("a")
    assert admits.enter() == ""
    assert "`links`" in admits.enter()
    admits.leave("a")
    assert admits.enter("a") == ""


def test_refusals_are_counted_and_logged_once_a_second() -> None:
    time, ledger = ManualClock(), Ledger()
    admits = Admission(LIMITS, MemoryBudget(), ledger, time.clock)
    for _ in range(3):
        admits.connect("a")
    with capture_logs() as lines:
        for _ in range(10):
            admits.connect("a")
        admits.flush()
    assert [(line["event"], line["count"]) for line in lines] == [("clients refused", 1), ("clients refused", 9)]
    assert sum(ledger.counters.values()) == 10


def test_no_client_is_admitted_without_file_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "descriptor_shortage", lambda: "too many open files")
    assert admitting(ManualClock()).connect("a") == "too many open files"


def test_the_latest_of_very_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "ADDRESSES_MAX", 10)
    admits = admitting(ManualClock())
    for number in range(100):
        admits.connect(str(number))
        admits.disconnect(str(number))
    assert [*admits._rates] == [str(number) for number in range(90, 100)]
    assert not admits._connections
