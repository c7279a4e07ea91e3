"""Look up in the kernel's tables whether a server of this machine listens at an address (proc(5), proc_net(5)).

Nothing connects: a backend that serves one peer, or counts its peers, does not notice.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.adapters.host_names import is_loopback
from dragoman.gateway.endpoint import DEFAULT_PORTS, Endpoint

TABLES = Path("/proc/net")
ACCEPTS = 1 << 16  # __SO_ACCEPTCON among the flags of /proc/net/unix
LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp


def find_local_server(endpoint: Endpoint, tables: Path = TABLES) -> bool | None:
    """Return whether a server listens at a Unix socket or a loopback port; None if the tables do not tell."""
    try:
        if endpoint.transport == "unix":
            return _has_unix_socket(endpoint.address, tables)
        if endpoint.transport in ("ws", "wss", "tcp"):
            return _has_port(endpoint, tables)
    except (OSError, ValueError):
        return None  # another system than Linux, or an address that is no URL
    return None


def _has_unix_socket(path: str, tables: Path) -> bool | None:
    """Return True if a process listens at this path; None if this user may not connect, and connecting says why."""
    if not os.path.exists(path):
        return False
    if not os.access(path, os.W_OK):
        return None
    rows = (row.split(maxsplit=7) for row in (tables / "unix").read_text("utf-8", "replace").splitlines()[1:])
    return any(len(row) == 8 and int(row[3], 16) & ACCEPTS and _may_be(row[7], path) for row in rows)


def _may_be(known: str, path: str) -> bool:
    """Return True if a socket that the kernel knows by one path can be that at another.

    The folder may have another name for its process, for example in a container: then it has no such file here.
    """
    if os.path.basename(known) != os.path.basename(path):
        return False
    return not os.path.exists(known) or os.path.samefile(known, path)


def _has_port(endpoint: Endpoint, tables: Path) -> bool | None:
    url = urlsplit(f"{endpoint.transport}:{endpoint.address}")
    if not is_loopback(url.hostname or ""):
        return None
    port = url.port or DEFAULT_PORTS.get(endpoint.transport, 0)
    rows = [row.split() for name in ("tcp", "tcp6") for row in _rows(tables / name)]
    return any(row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port for row in rows)


def _rows(table: Path) -> list[str]:
    """Return the rows of a table: a system without IPv6 has no tcp6."""
    missing = table.name == "tcp6" and not table.exists()
    return [] if missing else table.read_text("ascii").splitlines()[1:]
