"""Look up the addresses of a host, each name in a daemon thread of its own.

A lookup cannot be cancelled, and takes half a minute if no name server answers. An event loop looks up four to six
names at once, and at its end waits for all of them. So one slow name would keep backends with other names from being
dialled, and the gateway from ending. A second caller waits for a lookup of the same name that runs already. The names
are those of configured backends, which bounds the number of threads.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from contextlib import suppress
from typing import Any

Key = tuple[str, socket.AddressFamily]
Addresses = list[tuple[socket.AddressFamily, str]]
Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Future[Addresses]]

_waiting: dict[Key, list[Waiter]] = {}  # the lookups that run, and who waits for them
_lock = threading.Lock()


async def look_up(host: str, family: socket.AddressFamily = socket.AF_UNSPEC) -> Addresses:
    """Return the addresses of a host with their families; raise OSError if there are none."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[Addresses] = loop.create_future()
    with _lock:
        waiters = _waiting.setdefault((host, family), [])
        waiters.append((loop, waiter))
        if len(waiters) == 1:
            try:
                threading.Thread(target=_run, args=((host, family),), name="lookup", daemon=True).start()
            except RuntimeError as error:
                del _waiting[host, family]
                raise OSError(errno.EAGAIN, "the system cannot start a thread for the lookup") from error
    return await waiter


def find_addresses(host: str, family: socket.AddressFamily, flags: int) -> Addresses:
    """Ask the system for the addresses of a host, and wait for its answer; raise OSError if there are none."""
    try:
        answers = socket.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM, flags=flags)
    except ValueError:  # a label is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, f"{host[:100]!r} is not a valid host name") from None
    return [(one, _address(at)) for one, _kind, _protocol, _name, at in answers]


def _address(at: tuple[Any, ...]) -> str:
    """Return an address with its zone, which only a link-local one of IPv6 has."""
    return f"{at[0]}%{at[3]}" if len(at) == 4 and at[3] else str(at[0])


def _run(key: Key) -> None:
    host, family = key
    found: Addresses | OSError
    try:
        found = find_addresses(host, family, socket.AI_ADDRCONFIG)
    except OSError as error:
        found = error
    with _lock:
        waiters = _waiting.pop(key)
    for loop, waiter in waiters:
        with suppress(RuntimeError):  # the loop is closed, and its callers with it
            loop.call_soon_threadsafe(_settle, waiter, found)


def _settle(waiter: asyncio.Future[Addresses], found: Addresses | OSError) -> None:
    if waiter.done():  # its caller has given up
        return
    if isinstance(found, OSError):
        waiter.set_exception(found)
    else:
        waiter.set_result(found)
