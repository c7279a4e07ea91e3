"""Limits of what is logged: repeated lines, all lines, and the faults of a link; and contexts of W3C traces."""

from __future__ import annotations

from collections import Counter
from itertools import count
from types import SimpleNamespace

import msgspec
import pytest
import structlog
from msgspec import UNSET, Raw
from structlog.testing import capture_logs

from dragoman.gateway.observability.log_throttle import (
    KINDS_MAX,
    LINE_BURST,
    LINE_RATE,
    FaultLog,
    LineLimit,
    LogThrottle,
    bad_request_counter,
)
from dragoman.gateway.observability.trace_context import add_trace, read_trace, trace_id, trace_of_metadata
from dragoman.mappings.errors import PeerError
from tests.gateway.in_memory import ManualClock

# -- log throttle ------------------------------------------------------------------------------------


def test_each_second_has_a_line_with_the_last_item_and_the_count() -> None:
    time, lines = ManualClock(), list[tuple[str, int]]()
    throttle = LogThrottle[str](time.clock, lambda item, count: lines.append((item, count)))
    for item in "abc":
        throttle.note(item)
    time.passes(1.5)
    throttle.note("d")
    throttle.note("e")
    throttle.flush()
    throttle.flush()
    assert lines == [("a", 1), ("d", 3), ("e", 1)]


def test_malformed_requests_of_the_same_second_are_one_line_with_their_number() -> None:
    clock, counters = ManualClock(), Counter[str]()
    note = bad_request_counter(counters, clock.clock)
    with capture_logs() as logs:
        for _ in range(3):
            note("LineTooLong")
        clock.passes(1.0)
        note("BadStatusLine")
    assert [(line["cause"], line["count"]) for line in logs] == [("LineTooLong", 1), ("BadStatusLine", 3)]
    assert counters == {"refused_request_malformed": 4}


# -- line limit --------------------------------------------------------------------------------------


AUDIT = "dragoman.audit"


def admitted(limit: LineLimit, component: str, count: int, **line: str) -> int:
    """Return how many of these lines may be written."""
    return sum(limit.admit(component, line) is not None for _ in range(count))


def test_a_flood_is_cut_and_the_next_line_tells_how_many_are_missing() -> None:
    time = ManualClock()
    limit = LineLimit(time.clock)
    assert admitted(limit, "dragoman.link", LINE_BURST + 50, event="client connected") == LINE_BURST
    time.passes(1.5 / LINE_RATE)
    assert limit.admit("dragoman.link", {"event": "client connected"}) == 50
    time.passes(1.5 / LINE_RATE)
    assert limit.admit("dragoman.link", {"event": "client connected"}) == 0


def test_a_flood_hides_no_line_of_another_place_principal_action_or_outcome() -> None:
    limit = LineLimit(lambda: 0)
    flood = {"event": "audit", "action": "open", "principal": "token:alice", "outcome": "busy"}
    admitted(limit, AUDIT, LINE_BURST + 1, **flood)
    assert limit.admit(AUDIT, flood) is None
    for other in ({"event": "x"}, {"principal": "token:bob"}, {"action": "cancel"}, {"outcome": "done"}):
        assert limit.admit(AUDIT, flood | other) == 0
    assert limit.admit("dragoman.link", flood) == 0


def test_words_of_a_peer_make_no_kind_of_their_own() -> None:
    limit = LineLimit(lambda: 0)
    lines = [{"event": "audit", "action": "refusal", "outcome": str(n), "session": str(n)} for n in range(LINE_BURST)]
    assert all(limit.admit(AUDIT, line) == 0 for line in lines)
    assert limit.admit(AUDIT, {"event": "audit", "action": "refusal", "outcome": "x"}) is None
    admitted(limit, "aiohttp.server", LINE_BURST, event="Error handling request from 1.2.3.4")
    assert limit.admit("aiohttp.server", {"event": "Error handling request from 5.6.7.8"}) is None


def test_the_number_of_remembered_kinds_is_bounded() -> None:
    limit = LineLimit(lambda: 0)
    for number in range(KINDS_MAX + 5):
        limit.admit(AUDIT, {"event": "audit", "principal": str(number)})
    assert len(limit._kinds) == KINDS_MAX


# -- faults ------------------------------------------------------------------------------------------


def test_a_flood_costs_one_line_a_second_and_each_fault_is_in_one_count() -> None:
    time, counters = ManualClock(), Counter[str]()
    faults = FaultLog("pod", SimpleNamespace(log=structlog.get_logger()), counters, time.monotonic)
    with capture_logs() as lines:
        for _ in range(4):
            for number in range(1_000):
                faults.note_all([PeerError("invalid", f"bad {number}", can_continue=True)])
            time.passes(1.5)
        faults.flush()
        faults.flush()
    assert [line["count"] for line in lines] == [1, 1_000, 1_000, 1_000, 999]
    assert lines[-1]["reason"] == "bad 999"
    assert counters == {"faults_pod_invalid": 4_000}


def test_all_faults_of_one_step_read_the_clock_twice() -> None:
    looks, counters = count(), Counter[str]()
    faults = FaultLog("pod", SimpleNamespace(log=structlog.get_logger()), counters, lambda: next(looks))
    with capture_logs() as lines:
        faults.note_all([PeerError("not_json", "bad"), *(PeerError("invalid", f"bad {n}") for n in range(500))])
        assert next(looks) == 2
        faults.flush()
    assert (faults.total, counters) == (501, {"faults_pod_not_json": 1, "faults_pod_invalid": 500})
    assert [(line["reason"], line["count"]) for line in lines] == [("bad", 1), ("bad 499", 500)]


# The example of the specification, section 3.2.5.


# -- trace context -----------------------------------------------------------------------------------


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_example_of_the_specification_is_read() -> None:
    trace = read_trace({"traceparent": PARENT, "tracestate": "congo=t61rcWkgMzE"})
    assert trace == {"traceparent": PARENT, "tracestate": "congo=t61rcWkgMzE"}
    assert trace_id(trace) == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
        f"ff{PARENT[2:]}",
        f"{PARENT}-more",
        f"{PARENT}\n",
        f"01{PARENT[2:]}-{'x' * 200}",
        7,
        f"01{PARENT[2:]}-\rX: y",
    ],
)
def test_a_malformed_context_is_ignored(parent: object) -> None:
    assert read_trace({"traceparent": parent}) is None


def test_a_later_version_may_be_longer() -> None:
    assert read_trace({"traceparent": f"01{PARENT[2:]}-more"}) is not None


@pytest.mark.parametrize("state", ["", "a=b\r\nX: y", "x" * 513, "é=1"])
def test_an_invalid_tracestate_is_dropped_and_the_traceparent_kept(state: str) -> None:
    assert read_trace({"traceparent": PARENT, "tracestate": state}) == {"traceparent": PARENT}


@pytest.mark.parametrize("metadata", [b"[]", b"7", b'"x"', b"{", b'{"traceparent":null}', b"[" * 5000])
def test_metadata_without_a_context_has_none(metadata: bytes) -> None:
    assert trace_of_metadata(Raw(metadata)) is None


def test_a_context_is_added_to_metadata_that_has_none() -> None:
    trace = {"traceparent": PARENT}
    added = add_trace(Raw(b'{"a":1}'), trace)
    assert isinstance(added, Raw)
    assert msgspec.json.decode(added) == {"a": 1, **trace}
    assert trace_of_metadata(add_trace(UNSET, trace)) == trace


@pytest.mark.parametrize("metadata", [b"[]", b'{"traceparent":"mine"}'])
def test_metadata_that_cannot_take_a_context_stays_as_it_is(metadata: bytes) -> None:
    assert add_trace(Raw(metadata), {"traceparent": PARENT}) == Raw(metadata)
