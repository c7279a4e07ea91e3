"""The file descriptors of the process: raise their limit, and keep some free so that clients can be refused in words.

Without a descriptor for it, a connection cannot even be accepted: the event loop closes it, or leaves it in the queue
of the kernel. So a client is refused while there are still descriptors for backends, children and recordings.

Linux doubles the table of descriptors when it is full. A process with several threads waits for all processors then,
which blocks its event loop for 6 to 20 ms. So the table is enlarged at the start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import sys

from dragoman.mappings.errors import ConfigError

INHERITED_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""The soft limit at the start. Children get it: a program that uses select(2) fails above 1,024."""

RESERVE = 32  # a dozen for a child, a dial or a rotated recording, and as many for clients that are being refused
ENOUGH = 65_536  # macOS refuses more than its kern.maxfilesperproc, and `links` is far below
TABLE = 16_384  # descriptors for which the table has room from the start: 128 KiB in the kernel


def raise_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, because each client and each backend needs one.

    Raise ConfigError if it is below RESERVE then: the event loop and the threads alone need about 25.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):  # a system with a further limit: the inherited one stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    if 0 <= soft < RESERVE:
        raise ConfigError(f"this process may open {soft} files only; raise the limit (ulimit -n) to 64 or more")
    room = TABLE if soft == resource.RLIM_INFINITY else min(soft, TABLE)
    with contextlib.suppress(OSError):  # without room in the table the gateway works, too
        os.close(fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, room - 1))


def first_reserved() -> int:
    """Return the first descriptor that is kept free of clients."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - RESERVE


def descriptor_shortage() -> str:
    """Return an error text for the client if too few descriptors are free; "" if there are enough.

    The system gives the lowest free number, so a number near the limit means that nearly all are in use.
    """
    try:
        lowest = os.dup(2)
    except OSError:
        lowest = sys.maxsize
    else:
        os.close(lowest)
    if lowest >= first_reserved():
        return "too many open files in the gateway; its operator can raise the limit (ulimit -n)"
    return ""
