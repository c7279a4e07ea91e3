"""Directories for projects of pando whose ports are free now.

The ports follow from the path, and lie where the system takes ports for outgoing connections (pando sheet, section
1.1): on a machine that does other things, one in a few dozen is in use.
"""

from __future__ import annotations

import socket
from itertools import count
from pathlib import Path

from gateway.transports.pando_project import ports

__all__ = ["free_project"]


def free_project(base: Path) -> Path:
    """A new directory in `base`."""
    folder = next(folder for folder in (base / f"project-{number}" for number in count()) if _is_free(folder))
    folder.mkdir()
    return folder


def _is_free(folder: Path) -> bool:
    try:
        for port in ports(str(folder)):
            with socket.create_server(("127.0.0.1", port)):
                pass
    except OSError:
        return False
    return True
