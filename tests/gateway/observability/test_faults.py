"""The faults of a link: each is counted, and one log line a second has their number."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import structlog
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway.observability.faults import FaultLog
from dragoman.gateway.observability.ledger import Ledger
from dragoman.mappings.errors import PeerError
from tests.gateway.in_memory import ManualClock
from tests.services import services


def test_a_flood_costs_one_line_a_second_and_each_fault_is_in_one_count() -> None:
    time, ledger = ManualClock(), Ledger()
    faults = FaultLog("pod", SimpleNamespace(log=structlog.get_logger()), services(time, ledger=ledger))
    with capture_logs() as lines:
        for _ in range(4):
            for number in range(1_000):
                faults.note_all([PeerError("invalid", f"bad {number}", can_continue=True)])
            time.passes(1.5)
        faults.flush()
        faults.flush()
    assert [line["count"] for line in lines] == [1, 1_000, 1_000, 1_000, 999]
    assert lines[-1]["reason"] == "bad 999"
    assert ledger.counters["faults_pod_invalid"] == 4_000


def test_all_faults_of_one_step_read_the_clock_twice() -> None:
    looks, ledger = count(), Ledger()
    own = structs.replace(services(ManualClock(), ledger=ledger), monotonic=lambda: next(looks))
    faults = FaultLog("pod", SimpleNamespace(log=structlog.get_logger()), own)
    with capture_logs() as lines:
        faults.note_all([PeerError("not_json", "bad"), *(PeerError("invalid", f"bad {n}") for n in range(500))])
        assert next(looks) == 2
        faults.flush()
    counted = {name: count for name, count in ledger.counters.items() if name.startswith("faults_")}
    assert (faults.total, counted) == (501, {"faults_pod_not_json": 1, "faults_pod_invalid": 500})
    assert [(line["reason"], line["count"]) for line in lines] == [("bad", 1), ("bad 499", 500)]
