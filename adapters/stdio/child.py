"""A child as a peer: its stdin and stdout are one transport.

It is gone when it has ended, or has closed its stdout: what it wrote before is given first. Whoever inherited its
stdout does not keep it alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence

from dragoman.adapters.base import CloseReason, Limits, Sink
from dragoman.adapters.stdio.ends import REST
from dragoman.adapters.stdio.last_words import LastWords
from dragoman.adapters.stdio.process import Bounds, Process
from dragoman.adapters.stdio.stream import LineStream
from dragoman.adapters.stdio.watchdog import Watchdog

__all__ = ["Bounds", "ChildTransport"]

LAST_BREATH = 0.1  # seconds between the closing of its pipes and its end: the kernel takes microseconds


class ChildTransport(LineStream):
    """One child; made by `Children.spawn`."""

    def __init__(
        self, argv: Sequence[str], limits: Limits, bounds: Bounds, *, env: Mapping[str, str], cwd: str | None,
        over: Callable[[ChildTransport], None], watchdog: Watchdog,
    ) -> None:  # fmt: skip
        self._program = os.path.basename(argv[0]) if argv else ""
        self._bounds = bounds
        self._over = over
        self._rest = REST
        self._begun = asyncio.Event()  # it has said something, or ended
        self._process = Process(argv, env, cwd, bounds, self._exited, over=watchdog.forget)
        self.pid = self._process.pid
        watchdog.watch(self.pid)
        self.peer = f"{self._program} pid={self.pid}"
        self._words = LastWords(self._process.streams.stderr, bounds.stderr, pid=self.pid)
        super().__init__(self._process.streams.stdout, self._process.streams.stdin, limits)

    @property
    def reason(self) -> str:
        """How it ended, or that it runs, and the last lines of its stderr: what to tell whose backend is gone."""
        told = self._words.told()
        lives = not self._process.exited.is_set()
        status = "closed its stdout" if lives and self._in.closed else self._process.status()
        said = f"{self._program} {status}"
        return f"{said}: {told}" if told else said

    async def run(self, sink: Sink) -> None:
        await super().run(sink)
        await self._last_breath()

    async def send(self, frames: Sequence[bytes]) -> None:
        try:
            await super().send(frames)
        except ConnectionError as error:
            await self._last_breath()
            raise ConnectionResetError(f"nobody reads any more: {self.reason}") from error

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        """Write what waits, EOF, and the way of `Bounds` to its end; idempotent, and nobody is left after it."""
        try:
            await self._finish()
        except BaseException:
            self._process.kill()
            raise
        finally:
            try:
                await self._process.end()
            finally:
                self._in.close()
                self._words.close()
                self._over(self)

    def kill(self) -> None:
        """KILL to its group at once, without an event loop: for when we end and nobody can wait."""
        self._process.kill()

    async def begun(self) -> None:
        """Wait until it has said something or has lived for `start_watch`; OSError when it ended first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.start_watch):
                await self._begun.wait()
        if self._process.exited.is_set() and self._inbound.empty:
            raise OSError(f"it ended at once: {self.reason}")

    # --------------------------------------------------------------------------------------------------

    async def _last_breath(self) -> None:
        """Its pipes are closed, mostly because it ends just now: then `reason` shall say how."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_BREATH):
                await self._process.exited.wait()

    def _take(self, data: bytes) -> None:
        self._begun.set()
        super()._take(data)

    def _read_on(self) -> None:
        if not self._process.exited.is_set():
            self._in.resume()
            return
        while not self._in.closed and not self._inbound.full:
            self._rest -= 1
            if not self._in.read() or not self._rest:
                self._in.close()

    def _exited(self) -> None:
        self._words.finish()
        self._in.pause()
        self._read_on()
        self._out.close()
        self._begun.set()
