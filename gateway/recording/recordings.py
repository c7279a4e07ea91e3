"""Open the recordings of a gateway by its configuration: the writer, the redactors and the flush timer."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_bytes

import structlog

from dragoman.adapters.meter import STEP, Meter
from dragoman.gateway.config.model import Config, Recording, Redact
from dragoman.gateway.config.source import FILE
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.places import place
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import RedactionRules, rules
from dragoman.gateway.recording.redaction.shapes import ALWAYS, is_secret_name
from dragoman.gateway.recording.redaction_worker import RedactionWorker
from dragoman.gateway.recording.writer import Writer
from dragoman.gateway.timers import Deadline, Schedule
from dragoman.mappings.errors import ConfigError

FLUSH = 0.02  # seconds: with the writer's round, a step is on the disk within 50 ms
AT_ONCE = 4096  # bytes searched for secrets before the event loop does other work: 1 to 5 ms
LEAST = 512  # bytes that a flush counts at least: 0.2 ms

log = structlog.get_logger("dragoman.recording")

Flush = Callable[[], int]
"""Writes the gathered steps of one recording; returns the number of bytes as SessionRedactor.redact does."""


class Recordings:
    """The writer, the redactors and the flush timer that all recordings of a gateway share.

    With `everything` the frames of all clients are recorded. Bytes that wait for the writer, in redactors and for
    their thread count as memory. The threads free it, but only the event loop may change a meter. So the loop
    looks at both queues at each flush, and again while much waits. When memory is short and these hold the most, they
    are emptied: the sessions are not recorded for a while, as if the disk were full, and the lost lines are counted.
    """

    def __init__(
        self,
        writer: Writer,
        worker: RedactionWorker,
        ledger: Ledger,
        memory: MemoryBudget,
        later: Schedule,
        *,
        redactor: Callable[[], Redactor],
        everything: bool = False,
    ) -> None:
        self.writer = writer
        self.worker = worker
        self.redactor = redactor
        self.ledger = ledger
        self.memory = memory
        self.held_back: dict[Callable[[], None], int] = {}
        """Bytes that redactors hold back, by the function that drops them."""
        self._meter = Meter()
        memory.watch(self._meter, self._relieve)
        self.later = later
        self.everything = everything
        self._timer = Deadline(later)
        self._within = 0.0  # seconds of the timer
        self._waiting: dict[Flush, None] = {}
        self._round = deque[Flush]()

    def wants_flush(self, flush: Flush, within: float) -> None:
        """Call `flush` within `within` seconds."""
        self._waiting[flush] = None
        self._wake(within)

    def _wake(self, within: float) -> None:
        """Run the flush timer within `within` seconds."""
        if not self._timer.is_running or within < self._within:
            self._within = within
            self._timer.start(within, self._flush)

    def _flush(self) -> None:
        """Flush recordings until AT_ONCE bytes were searched.

        The others of this round are flushed in a later step of the event loop.
        """
        if not self._round:
            self._round, self._waiting = deque(self._waiting), {}
        searched = 0
        while self._round and searched < AT_ONCE:
            searched += max(LEAST, self._round.popleft()())
        if self._round:
            self._wake(0)
            return
        self.writer.flush()
        self._count_backlog()
        if self._waiting or self._meter.size >= STEP:
            self._wake(FLUSH)

    @contextmanager
    def redactor_replaced(self, redactor: Callable[[], Redactor]) -> Iterator[None]:
        """Redact new sessions with another redactor. If the block raises an exception, restore the former one."""
        former, self.redactor = self.redactor, redactor
        try:
            yield
        except BaseException:
            self.redactor = former
            raise

    async def close(self) -> None:
        """Write everything that is queued for the threads, and stop. Log an error if the disk takes too long."""
        await self.worker.close()
        if not await asyncio.to_thread(self.writer.close):
            log.error("the end of the recordings was not written: the disk was too slow for the deadline")
        self.memory.release(self._meter)

    def _count_backlog(self) -> None:
        size = self.writer.backlog + self.worker.backlog + sum(self.held_back.values())
        self._meter.add(size - self._meter.size)

    def _relieve(self) -> None:
        self.writer.discard()
        self.worker.discard()
        for discard in list(self.held_back):
            discard()
        self._count_backlog()


def recordings_opener(
    wanted: Recording, secrets: Iterable[str], ledger: Ledger, memory: MemoryBudget
) -> Callable[[], Recordings]:
    """Return a function that opens the recordings in the running event loop, or raises OSError.

    They never contain one of `secrets`. Raise ConfigError for a wrong setting.
    """
    where, redactor = place(wanted.path), redactors(wanted.redact, secrets)

    def open_recordings() -> Recordings:
        loop = asyncio.get_running_loop()
        writer = Writer(where, loop.call_soon_threadsafe, wanted)
        worker = RedactionWorker(loop.call_soon_threadsafe)
        try:
            worker.start()  # now, because the system may refuse a thread later
            writer.start()
        except RuntimeError as error:
            worker.stop()
            raise OSError(errno.EAGAIN, "the system cannot start a thread for recordings") from error
        if not wanted.redact.enabled:
            log.warning("RECORDINGS WILL CONTAIN SECRETS: redaction is off", path=wanted.path)
        return Recordings(
            writer,
            worker,
            ledger,
            memory,
            loop.call_later,
            redactor=redactor,
            everything=wanted.links == "all",
        )

    return open_recordings


def redactors(wanted: Redact, secrets: Iterable[str] = ()) -> Callable[[], Redactor]:
    """Return a function that makes the redactor of a recording, which also finds `secrets` themselves.

    Raise ConfigError for a wrong pattern or path.
    """
    window_bytes, window_micros = wanted.window_bytes, int(wanted.window_seconds * 1e6)
    compiled = RedactionRules(detectors=ALWAYS, window_bytes=window_bytes, window_micros=window_micros)
    if wanted.enabled:
        compiled = rules(
            wanted.patterns, wanted.paths, window_bytes=window_bytes, window_micros=window_micros, secrets=[*secrets]
        )
    return lambda: Redactor(compiled, wanted.salt.encode() or token_bytes(16))


def secrets_of(config: Config) -> Iterator[str]:
    """Yield the secrets that a gateway has: its tokens and keys, and those that its child processes get.

    A variable of a child process is a secret if its name says so, but not a path: `PWD`. Secrets that cannot be read
    now are left out.
    """
    yield from config.auth.tokens.values()
    yield config.auth.jwt.secret
    yield from config.ops.tokens if config.ops is not None else ()
    variables = dict(os.environ) if config.inherit_env else {}
    for route in config.routes:
        for endpoint in (*route.listen, *route.upstreams):
            for key in endpoint.secret_keys:
                path = endpoint.option(key).removeprefix(FILE)
                if os.path.exists(path) and not os.path.isfile(path):
                    continue  # a pipe can be read once, and the connection needs what it has
                with suppress(ConfigError):
                    yield endpoint.secret(key)
        for variable in route.env:
            name, given, value = variable.partition("=")
            variables[name] = value if given else os.environ.get(name, "")
    yield from (value for name, value in variables.items() if is_secret_name(name) and not value.startswith("/"))
