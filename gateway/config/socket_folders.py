"""The folders of listening Unix sockets: who else could replace the socket.

A user who may write to a folder can delete the socket in it and listen there instead. The user can also lead its path
elsewhere by a link. Clients would then talk to that program. In a folder with the sticky bit, such as /tmp, only the
owner of a file can delete it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dragoman.gateway.endpoint import Endpoint

OTHERS = stat.S_IWGRP | stat.S_IWOTH


def find_socket_hazard(endpoint: Endpoint) -> str:
    """Return why another user could replace the socket of a listener; "" if none can."""
    if endpoint.transport == "unix":
        return find_path_hazard(Path(endpoint.address))
    return find_path_hazard(Path(endpoint.address) / "sock") if endpoint.transport == "dir" else ""


def find_path_hazard(path: Path) -> str:
    """Return why another user could replace the file at a path; "" if none can, or if a folder cannot be looked at."""
    try:
        folders = dict.fromkeys((*path.absolute().parents, *Path(os.path.realpath(path)).parents))
        faults = ((folder, _fault(folder)) for folder in folders)
        return next(
            (f"other users could replace the socket {path}: {folder} {why}" for folder, why in faults if why), ""
        )
    except OSError:  # it does not exist, which is an error of its own
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
