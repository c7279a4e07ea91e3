"""The listening sockets that a service manager passes to the gateway at its start (sd_listen_fds(3)).

A listener takes one by its name: `smooth+ws://127.0.0.1:8787/ws?fd=NAME`. LISTEN_FDNAMES has the names; a .socket unit
sets its own with FileDescriptorName. The address of the endpoint must be that of the socket, so that the endpoint still
says who can reach it. The service manager keeps the socket open: clients that connect while the gateway restarts wait
in its queue. So a listener gets a duplicate, which it may close.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, MutableMapping
from ipaddress import ip_address

from dragoman.mappings.errors import ConfigError

FIRST = 3  # SD_LISTEN_FDS_START


class InheritedSockets:
    """The sockets that this process was given, by name. Several sockets may have one name."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[socket.socket]] = {}
        self._taken: set[str] = set()

    def adopt(self, environment: MutableMapping[str, str] = os.environ, first: int = FIRST) -> None:
        """Take the sockets that `environment` tells of, and remove its variables there. Children inherit neither."""
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
