"""Failed attempts to authenticate: each one is answered late, and counted for its address."""

from __future__ import annotations

from collections import Counter

import structlog

from dragoman.gateway.observability import audit
from dragoman.mappings.bounded import remember

ADDRESSES_MAX = 10_000  # addresses whose failures are remembered, the latest

log = structlog.get_logger("dragoman.identity")


class FailedAttempts:
    """The failures of each address. The first one and each power of two of them is logged."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._failures: dict[str, int] = {}

    def count_failure(self, address: str, cause: str) -> None:
        """Count a peer that could not be authenticated."""
        failures = self._failures.get(address, 0) + 1
        remember(self._failures, address, failures, ADDRESSES_MAX)
        self._counters["authentication_failed"] += 1
        audit.refuse("unknown", cause, address=address, failures=failures)
        if failures & (failures - 1) == 0:
            log.warning("client not authenticated", address=address, cause=cause, failures=failures)
