"""The memory that a session holds: its log and its transcript, counted in the budget of the gateway."""

from __future__ import annotations

from dragoman.adapters.meter import Meter
from dragoman.gateway.services import Services
from dragoman.gateway.session.history import trim
from dragoman.gateway.session.log import Log
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Loss

__all__ = ["SessionMemory"]


class SessionMemory:
    """Counts what a session holds, and drops the oldest half of it if the gateway is out of memory."""

    def __init__(self, state: SessionState, log: Log, services: Services) -> None:
        self._state = state
        self._log = log
        self._services = services
        self._meter = Meter()
        self._transcript = 0  # characters
        services.memory.watch(self._meter, self._relieve)
        log.watch(self._count)

    def trim_transcript(self) -> None:
        """Drop the oldest items beyond `transcript_max`, and count the others."""
        self._trim(self._services.limits.transcript_max, "older than transcript_max")

    def close(self) -> None:
        """Count nothing more: the session has ended."""
        self._services.memory.release(self._meter)
        self._log.watch()

    def _trim(self, limit: int, why: str) -> None:
        dropped, self._transcript = trim(self._state, limit)
        if dropped:
            loss = Loss(kind="transcript", why=why, count=dropped)
            self._services.ledger.record([loss], session=self._state.id)
        self._count()

    def _relieve(self) -> None:
        self._log.drop_half()
        self._trim(self._transcript // 2, "the gateway is out of memory")

    def _count(self) -> None:
        self._meter.add(self._log.size + self._transcript - self._meter.size)
