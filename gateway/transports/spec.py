"""The interface of a transport to the gateway: how to check, listen at and dial its endpoints."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from dragoman.adapters.base import (
    Accept,
    ConnectionCallbacks,
    Listener,
    PeerFacts,
    Transport,
    TransportLimits,
    do_nothing,
)
from dragoman.adapters.stdio import Children, ChildSettings, ChildTransport
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, Place
from dragoman.mappings.dialect import Instance, Loss

Connect = Callable[[], Awaitable[Transport]]
FORWARDED: ContextVar[str] = ContextVar("FORWARDED", default="")
"""The token of the client for whose session the current task connects to a backend; "" without such a route."""


class ListenerCallbacks(ConnectionCallbacks, frozen=True, kw_only=True):
    """The callbacks of a listener.

    `accept_as` returns the function that accepts a connected peer with these facts. `accept` accepts a peer without
    known facts. `authenticated` says that no peer is accepted for its address alone. `not_authenticated` is called with
    the listener and the reason for each peer that the transport itself has refused. `publish` accepts the transport to
    all subscribers, if there is one. `subscribed` is called for each subscription, and `lost` with each undelivered
    message. `instance` identifies the gateway there.
    """

    accept: Accept
    accept_as: Callable[[PeerFacts], Accept]
    publish: Accept
    lost: Callable[[Loss], None]
    instance: Instance
    authenticated: bool = False
    subscribed: Callable[[], None] = do_nothing
    not_authenticated: Callable[[str, str], None] = do_nothing


def _accept_any(_endpoint: Endpoint) -> None:
    """Accept every endpoint."""


def _occupy_nothing(_endpoint: Endpoint) -> tuple[Place, ...]:
    """Return nothing: the endpoint occupies no place that another listener could need."""
    return ()


async def _by_the_app(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    raise NotImplementedError(f"{endpoint.masked}: the app itself listens on this endpoint")


async def _end_none() -> bool:
    return False


class Spawner(Struct, frozen=True):
    """Starts the child processes of a route, among all `children` of the gateway.

    `end_one` ends another child that is not needed now; it returns False if there is none.
    """

    children: Children
    settings: ChildSettings
    end_one: Callable[[], Awaitable[bool]] = _end_none

    async def spawn(self, argv: Sequence[str], limits: TransportLimits, cwd: str | None) -> ChildTransport:
        """Start a child; raise OSError with the reason, EBUSY if the limit is reached and all children are needed."""
        while self.children.are_full and await self.end_one():
            pass
        return await self.children.spawn(argv, limits, self.settings, cwd=cwd)


class TransportSpec(Struct, frozen=True, kw_only=True):
    """The functions and properties of one transport.

    `listen` or `dial` is None if the gateway does only the other. `check`, `check_upstream` and `check_place` raise
    ConfigError: for any invalid endpoint, for an invalid upstream, and for an address on which this machine cannot
    listen. `find_hazard` returns what is wrong with a listener although it can be opened, or "". `places` returns the
    Places that a listener occupies, which are those that an upstream reaches; none that the system chooses. `free` is
    an address at which the system chooses the port, or one below `{folder}`; "" if there is no such address.
    `kept_limits` are the limits that an open listener does not read again after a reload. `counts_connections`: its
    listener counts the connections of each address from their accept.
    """

    listen: Callable[[Endpoint, Limits, ListenerCallbacks], Awaitable[Listener]] | None = _by_the_app
    dial: Callable[[Endpoint, Limits, Spawner], Connect] | None = None
    listen_options: frozenset[str] = frozenset()
    dial_options: frozenset[str] = frozenset()
    check: Callable[[Endpoint], Any] = _accept_any
    check_upstream: Callable[[Endpoint], Any] = _accept_any
    check_place: Callable[[Endpoint], Any] = _accept_any
    find_hazard: Callable[[Endpoint], str] = lambda _endpoint: ""
    places: Callable[[Endpoint], tuple[Place, ...]] = _occupy_nothing
    free: str = ""
    kept_limits: tuple[str, ...] = ("max_message",)
    counts_connections: bool = False


def transport_limits(limits: Limits) -> TransportLimits:
    return TransportLimits(
        max_message=limits.max_message,
        max_parts=limits.message_parts,
        heartbeat=limits.heartbeat,
        handshake_deadline=limits.handshake_deadline,
    )


def bind_failure(listener: str, address: str, error: OSError) -> OSError:
    """Return the error of a listener whose address cannot be bound, in words that name both."""
    number = error.errno or errno.EIO
    if number == errno.EADDRINUSE:
        text = f"{address} is in use by another program; write another port, or 0 to let the system choose one"
    elif number == errno.EACCES:
        text = f"{address}: {os.strerror(number)}; write a port above 1023, or grant CAP_NET_BIND_SERVICE"
    elif number in (errno.EADDRNOTAVAIL, errno.ENODEV):  # libzmq says the latter
        text = f"{address}: this machine has no such address; write one of its own, or 127.0.0.1"
    elif number > 0:
        text = f"{address}: {os.strerror(number)}"
    else:  # a name that cannot be resolved
        text = f"{address}: {error.strerror}"
    return OSError(number, f"{listener}: {text}")
