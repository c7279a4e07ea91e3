"""Tell the service manager when the gateway is ready, reloads its configuration and stops (sd_notify(3)).

    listeners accept        READY=1
    configuration is read   RELOADING=1 with MONOTONIC_USEC, then READY=1 again
    signal to stop          STOPPING=1
    event loop runs         WATCHDOG=1, twice in each WATCHDOG_USEC

Each message has a STATUS, which `systemctl status` shows. The messages are datagrams to NOTIFY_SOCKET; without this
variable there are none. Children do not inherit the variables, because they could speak for the gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager

import structlog

US = 1_000_000
DIGITS = 18  # of WATCHDOG_USEC: more would be over 30,000 years
BEAT_MIN = 0.001  # seconds between two beats: a shorter watchdog is a mistake, which must not keep a core busy
STATUS_MAX = 256  # characters: one line of `systemctl status`

log = structlog.get_logger("dragoman")


class ServiceNotifier:
    """Speaks to the service manager that `environment` names, and removes its variables there.

    `status` returns what the gateway does now.
    """

    def __init__(self, status: Callable[[], str], environment: MutableMapping[str, str] = os.environ) -> None:
        self._status = status
        self._address = environment.pop("NOTIFY_SOCKET", "")
        self._beat = _watchdog_beat(environment)
        if self._address.startswith("@"):  # an abstract socket
            self._address = "\0" + self._address[1:]

    @property
    def is_used(self) -> bool:
        """True if there is a service manager that wants to be told."""
        return self._address.startswith(("/", "\0"))

    async def follow(self, ready: asyncio.Event, stop: asyncio.Event) -> None:
        """Tell when the gateway is ready and when it stops, and beat for the watchdog; runs until cancelled."""
        await ready.wait()
        self._tell("READY=1", f"STATUS={self._line()}")
        await self._beat_until(stop)
        self._tell("STOPPING=1", "STATUS=stopping: open turns finish")
        await self._beat_until(asyncio.Event())

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Tell that the configuration is being reloaded, and afterwards that this is done or was refused.

        A reload that the end of the gateway interrupts is not followed by READY=1.
        """
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", "STATUS=reloading the configuration")
        yield
        self._tell("READY=1", f"STATUS={self._line()}")

    async def _beat_until(self, end: asyncio.Event) -> None:
        """Report that the event loop runs, again and again until `end` is set."""
        while not end.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._beat):
                    await end.wait()
            if self._beat is not None:
                self._tell("WATCHDOG=1")

    def _line(self) -> str:
        return " ".join(self._status().split())[:STATUS_MAX]

    def _tell(self, *assignments: str) -> None:
        """Send assignments as one datagram, without waiting: a service manager that does not read stops nothing."""
        if not self.is_used:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifying:
                notifying.setblocking(False)
                notifying.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            log.warning("cannot notify the service manager", message=assignments[0], cause=str(error))


def _watchdog_beat(environment: MutableMapping[str, str]) -> float | None:
    """Return the seconds between two beats, None without a watchdog, or if it watches another process."""
    interval, process = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
    if not interval.isdecimal() or len(interval) > DIGITS or process not in ("", str(os.getpid())):
        return None
    return max(BEAT_MIN, int(interval) / US / 2) if int(interval) else None
