"""Start a command that runs a gateway with less CPU and memory, without parts of libraries that it never uses.

    structlog   imports rich, with which it could draw tracebacks; our logs show them as plain text
    aiohttp     reads the certificates of all authorities twice; a `wss:` URL reads them when it is dialled
    Python      collects garbage many times while modules are imported, although they leave none

Together this takes 0.15 s of CPU from a start that takes 0.24 s without it (docs/performance.md). Only the command line
does it: in a process of another program, its code may need these parts.
"""

from __future__ import annotations

import gc
import ssl
import sys
from importlib import import_module


def begin() -> None:
    """Prepare this process for the imports of a command that runs a gateway."""
    gc.disable()
    _import_without("structlog", "rich")
    ssl.SSLContext.set_default_verify_paths = _trust_nobody  # type: ignore[assignment, method-assign]  # until `end`


def end() -> None:
    """Undo what `begin` did, now that everything is imported. The app turns garbage collection on once it listens."""
    if "set_default_verify_paths" in vars(ssl.SSLContext):
        del ssl.SSLContext.set_default_verify_paths  # that of its base class is found again


def _trust_nobody(_context: ssl.SSLContext) -> None:
    """Leave a new TLS context without authorities, so that it accepts no certificate at all."""


def _import_without(library: str, optional: str) -> None:
    """Import a library as if another one, which it can do without, were not installed."""
    if library in sys.modules or optional in sys.modules:
        return
    sys.modules[optional] = None  # type: ignore[assignment]  # Python then raises ImportError for it
    try:
        import_module(library)
    finally:
        del sys.modules[optional]
