"""The memory that a session holds, counted in the budget of the gateway.

It consists of its log, its transcript, the history rendered for pod clients, its facts and its unanswered commands. The
transcript is counted as it grows (digest.py).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from dragoman.adapters.meter import Meter
from dragoman.gateway.services import Services
from dragoman.gateway.session.digest import TranscriptDigest
from dragoman.gateway.session.log import Log
from dragoman.gateway.session.weight import of_values
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Loss

NO_MEMORY = "the gateway is out of memory"
SHARED = 1024 * 1024  # bytes of a rendered history that is kept for further clients: a shorter one takes 3 ms to render

_FACTS = attrgetter(
    "opening", "title", "agent", "backend", "snapshot_ext", "backend_ids", "chosen_ids", "goal", "listed", "otp"
)
"""The fields of a session's state that a client or the backend sets as a whole, and may replace."""

_FRAME = attrgetter("frame")


class SessionMemory:
    """Counts the memory of a session, and drops the oldest half of it if the gateway is out of memory.

    If unanswered commands take most of it, `drop_commands` is called instead.
    """

    __slots__ = (
        "_commands",
        "_drop_commands",
        "_facts",
        "_facts_size",
        "_log",
        "_meter",
        "_services",
        "_state",
        "digest",
    )

    def __init__(self, state: SessionState, log: Log, services: Services, drop_commands: Callable[[], None]) -> None:
        self._state = state
        self._log = log
        self._services = services
        self._drop_commands = drop_commands
        self._commands = 0  # bytes of the commands without an answer
        self._facts: tuple[object, ...] = ()  # as they were counted
        self._facts_size = 0  # bytes
        self._meter = Meter()
        self.digest = TranscriptDigest()
        services.memory.watch(self._meter, self._relieve)
        log.watch(self._count)

    @property
    def counted(self) -> int:
        return self._meter.counted

    def trim_transcript(self) -> None:
        """Drop the oldest items beyond `transcript_max`, and count the others."""
        self._state.rendered.clear()
        self._trim(self._services.limits.transcript_max, "older than transcript_max")

    def count_commands(self, change: int) -> None:
        """Add `change` bytes, which may be negative, to the size of the unanswered commands."""
        self._commands += change
        if _FACTS(self._state) == self._facts:
            self._meter.add(change)  # which takes fewer calls
        else:
            self._count()

    def count_rendered(self) -> None:
        """Count the rendered history that was just sent to a client, or drop it if it is short."""
        for name, history in list(self._state.rendered.items()):
            if len(history.frame) < SHARED:
                del self._state.rendered[name]
        self._count()

    def drop_rendered(self) -> None:
        """Drop the rendered history, because no client is attached."""
        self._state.rendered.clear()
        self._count()

    def close(self) -> None:
        """Count nothing more: the session has ended."""
        self._services.memory.release(self._meter)
        self._log.watch()

    def _trim(self, limit: int, why: str) -> None:
        state = self._state
        dropped = self.digest.drop_oldest(state.transcript, limit)
        if dropped:
            state.fresh = max(0, state.fresh - dropped)
            state.summed_up = max(0, state.summed_up - dropped)
            loss = Loss(kind="transcript", why=why, count=dropped)
            self._services.ledger.record([loss], session=state.id)
        self._count()

    def _relieve(self) -> None:
        state = self._state
        kept = self._facts_size - of_values(state.snapshot_ext)
        if 2 * self._commands > self._meter.size - kept:
            self._drop_commands()
            return
        self._log.drop_half()
        state.rendered.clear()
        if state.snapshot_ext:
            state.snapshot_ext, state.summed_up = {}, 0  # clients are shown the items in its place
            loss = Loss(kind="HistorySnapshot", field="ext", why=NO_MEMORY)
            self._services.ledger.record([loss], session=state.id)
        self._trim(self.digest.size // 2, NO_MEMORY)

    def _count(self) -> None:
        """Count everything. While a client reads slowly, the log may also hold turns that are in the transcript."""
        state = self._state
        facts = _FACTS(state)
        if facts != self._facts:
            self._facts_size = of_values(*facts)
        self._facts = facts  # also if they are equal: else the former ones would be kept, too
        texts = self._log.size + self.digest.size
        rendered = sum(map(len, map(_FRAME, state.rendered.values())))
        self._meter.add(texts + rendered + self._commands + self._facts_size - self._meter.size)
