"""Directories for projects of pando whose ports are free and stay free.

The ports follow from the path, and lie where the system takes ports for outgoing connections
(docs/dialects/pando.md, section 1.1): on a machine that does other things, one in a few dozen is in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from dragoman.gateway.transports.pando_project import derive_ports
from tests.reserved_ports import reserve


@contextmanager
def free_project(base: Path) -> Iterator[Path]:
    """Return a new directory in `base`."""
    with ExitStack() as stack:
        folders = (base / f"project-{number}" for number in count())
        folder = next(folder for folder in folders if _is_free(folder, stack))
        folder.mkdir()
        yield folder


def _is_free(folder: Path, stack: ExitStack) -> bool:
    try:
        for port in derive_ports(str(folder)):
            stack.enter_context(reserve(port))
    except OSError:
        return False
    return True
