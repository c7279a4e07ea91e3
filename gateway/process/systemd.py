"""Send messages to the service manager (sd_notify(3)), and take the sockets that it passes (sd_listen_fds(3)).

    listeners accept        READY=1
    configuration is read   RELOADING=1 with MONOTONIC_USEC, then READY=1 again
    signal to stop          STOPPING=1
    event loop runs         WATCHDOG=1, twice in each WATCHDOG_USEC

Each message has a STATUS, which `systemctl status` shows. The messages are datagrams to NOTIFY_SOCKET; without this
variable there are none. Children do not inherit the variables, because they could speak for the gateway.

A listener takes an inherited socket by its name: `smooth+ws://127.0.0.1:8787/ws?fd=NAME`. LISTEN_FDNAMES has the names;
a .socket unit sets its own with FileDescriptorName. The address of the endpoint must be that of the socket, so that the
endpoint still says who can reach it. The service manager keeps the socket open: clients that connect while the gateway
restarts wait in its queue. So a listener gets a duplicate, which it may close.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from ipaddress import ip_address

import structlog

from dragoman.mappings.errors import ConfigError

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
        """True if there is a service manager that wants messages."""
        return self._address.startswith(("/", "\0"))

    async def follow(self, ready: asyncio.Event, stop: asyncio.Event) -> None:
        """Report when the gateway is ready and when it stops, and send the watchdog's beats; runs until cancelled."""
        await ready.wait()
        self._notify("READY=1", f"STATUS={self._line()}")
        await self._beat_until(stop)
        self._notify("STOPPING=1", "STATUS=stopping: open turns finish")
        await self._beat_until(asyncio.Event())

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report that the configuration is being reloaded, and after the block that this is done or was refused.

        A reload that the end of the gateway interrupts is not followed by READY=1.
        """
        self._notify(
            "RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", "STATUS=reloading the configuration"
        )
        yield
        self._notify("READY=1", f"STATUS={self._line()}")

    async def _beat_until(self, end: asyncio.Event) -> None:
        """Send a watchdog beat at regular intervals until `end` is set."""
        while not end.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._beat):
                    await end.wait()
            if self._beat is not None:
                self._notify("WATCHDOG=1")

    def _line(self) -> str:
        return " ".join(self._status().split())[:STATUS_MAX]

    def _notify(self, *assignments: str) -> None:
        """Send assignments as one datagram, without waiting. A datagram that cannot be sent is dropped."""
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


FIRST = 3  # SD_LISTEN_FDS_START


class InheritedSockets:
    """The sockets that this process was given, by name. Several sockets may have one name."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[socket.socket]] = {}
        self._taken: set[str] = set()

    def adopt(self, environment: MutableMapping[str, str] = os.environ, first: int = FIRST) -> None:
        """Take the sockets that `environment` names, and remove the variables from it. Children inherit neither."""
        process, count, names = (environment.pop(f"LISTEN_{key}", "") for key in ("PID", "FDS", "FDNAMES"))
        if process != str(os.getpid()) or not count.isdecimal():
            return  # the sockets are meant for another process
        given = names.split(":") if names else []
        for index, number in enumerate(range(first, first + int(count))):
            os.set_inheritable(number, False)
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                name = given[index] if index < len(given) else "unknown"  # sd_listen_fds_with_names(3)
                self._by_name.setdefault(name, []).append(socket.socket(fileno=number))

    def take_port(self, name: str, host: str, port: int) -> socket.socket:
        """Return the socket of this name that listens at a TCP port; port 0 is any. Raise ConfigError if none does."""
        return self._take(name, f"{host}:{port}", lambda one: _is_at_port(one, host, port))

    def take_path(self, name: str, path: str) -> socket.socket:
        """Return the socket of this name that listens at the path of a Unix socket; raise ConfigError if none does."""
        return self._take(name, path, lambda one: _is_at_path(one, path))

    @property
    def untaken(self) -> list[str]:
        """The names of the sockets that no listener has taken: their clients would wait forever."""
        return sorted(self._by_name.keys() - self._taken)

    def _take(self, name: str, address: str, fits: Callable[[socket.socket], bool]) -> socket.socket:
        found = self._by_name.get(name, [])
        for one in found:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and fits(one):
                self._taken.add(name)
                return one.dup()
        if found:
            others = ", ".join(_address(one) for one in found)
            raise ConfigError(f"fd={name}: the socket of this name is not at {address}, but at {others}")
        known = ", ".join(sorted(self._by_name)) or "none"
        raise ConfigError(
            f"fd={name}: the gateway was started without a socket of this name (it has {known}); "
            "start it by its .socket unit, or leave out `fd`"
        )


INHERITED = InheritedSockets()
"""The sockets of this process. The command line adopts them before it opens anything."""


def _is_at_port(one: socket.socket, host: str, port: int) -> bool:
    if one.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    at = one.getsockname()
    there = ip_address(at[0])
    if port not in (0, at[1]):
        return False
    if host == "localhost":
        return there.is_loopback
    try:
        wanted = ip_address(host)
    except ValueError:
        return False  # a name may lead anywhere
    return there == wanted or (there.is_unspecified and wanted.is_unspecified)


def _is_at_path(one: socket.socket, path: str) -> bool:
    return one.family == socket.AF_UNIX and os.path.realpath(_address(one)) == os.path.realpath(path)


def _address(one: socket.socket) -> str:
    """Return the address of a socket, for comparison and for errors."""
    at = one.getsockname()
    if isinstance(at, tuple):
        return f"{at[0]}:{at[1]}"
    return at.decode(errors="replace") if isinstance(at, bytes) else str(at)
