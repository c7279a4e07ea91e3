"""The log lines of each kind are bounded, and the next line tells how many are missing."""

from __future__ import annotations

from dragoman.gateway.observability.line_limit import KINDS_MAX, LINE_BURST, LINE_RATE, LineLimit
from tests.gateway.in_memory import ManualClock

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
