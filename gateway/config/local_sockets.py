"""The sockets of this machine: whether a server listens at an address, and who could replace the file of a socket.

The kernel's tables tell who listens (proc(5), proc_net(5)). Nothing connects: a backend that serves one peer, or counts
its peers, does not notice.

A user who may write to a folder can delete the socket in it and listen there instead. The user can also lead its path
elsewhere by a link. Clients would then talk to that program. In a folder with the sticky bit, such as /tmp, only the
owner of a file can delete it.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.adapters.host_names import is_loopback
from dragoman.gateway.endpoint import DEFAULT_PORTS, Endpoint

TABLES = Path("/proc/net")
ACCEPTS = 1 << 16  # __SO_ACCEPTCON among the flags of /proc/net/unix
LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp
ROWS_MAX = 512  # rows that are read, of which there may be thousands


def find_local_server(endpoint: Endpoint, tables: Path = TABLES) -> bool | None:
    """Return whether a server listens at a Unix socket or a loopback port; None if the tables do not show it."""
    try:
        if endpoint.is_socket:
            return _has_unix_socket(endpoint.address, tables)
        if endpoint.is_of_network:
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
    lines = (tables / "unix").read_text("utf-8", "replace").splitlines()  # most of thousands are without a path
    rows = (line.split(maxsplit=7) for line in lines if line.endswith(os.path.basename(path)))
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
    tables_read = [_first_rows(tables / name) for name in ("tcp", "tcp6")]
    for rows in tables_read:
        if any(row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port for row in rows):
            return True
    return False if all(map(_has_all_listeners, tables_read)) else None


def _has_all_listeners(rows: list[list[str]]) -> bool:
    """Return True if the first rows of the kernel's table include all listening sockets.

    Linux lists them before all connections. Other kernels, such as that of gVisor, list sockets in any order.
    """
    states = [row[3] for row in rows]
    listening = states.count(LISTEN)
    is_linux = states[:listening] == [LISTEN] * listening
    return len(rows) < ROWS_MAX or (0 < listening < ROWS_MAX and is_linux)


def _first_rows(table: Path) -> list[list[str]]:
    """Return the first rows of a table of the kernel; none without it (a system without IPv6 has no tcp6)."""
    if table.name == "tcp6" and not table.exists():
        return []
    with table.open(encoding="ascii") as lines:
        return [line.split() for line in islice(lines, 1, ROWS_MAX + 1)]


# -- who could replace a socket ---------------------------------------------------------------------


OTHERS = stat.S_IWGRP | stat.S_IWOTH


def find_path_hazard(path: Path) -> str:
    """Return why another user could replace the file at a path; "" if none can, or if a folder cannot be looked at."""
    try:
        folders = dict.fromkeys((*path.absolute().parents, *Path(os.path.realpath(path)).parents))
        for folder in folders:
            if why := _fault(folder):
                return f"other users could replace the socket {path}: {folder} {why}"
    except OSError:  # it does not exist, which is an error of its own
        pass
    return ""


def _fault(folder: Path) -> str:
    """Return why a folder, or the link of this name, is not safe from other users."""
    trusted = (0, os.geteuid())
    status = folder.lstat()
    if status.st_uid not in trusted:
        return "belongs to another user"
    if not stat.S_ISLNK(status.st_mode) and status.st_mode & OTHERS and not status.st_mode & stat.S_ISVTX:
        return f"has the mode {stat.S_IMODE(status.st_mode):04o}; `chmod go-w {folder}`"
    return ""
