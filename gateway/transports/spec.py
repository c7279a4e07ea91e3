"""A way: everything that can be done with the endpoints of one transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from dragoman.adapters.base import Accept, Listener, Transport
from dragoman.adapters.base import Limits as AdapterLimits
from dragoman.adapters.stdio import Children
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.mappings.dialect import Instance, Loss

__all__ = ["Children", "Connect", "ListenerCallbacks", "Place", "TransportSpec", "adapter_limits"]

Connect = Callable[[], Awaitable[Transport]]
Place = tuple[object, ...]


class ListenerCallbacks(Struct, frozen=True, kw_only=True):
    """Who receives peers at a listener.

    `accept` takes each, `publish` the transport to everybody who subscribes, where there is one; `subscribed` is called
    for each who does, `lost` hears of what was not delivered. `instance` is who we are there.
    """

    accept: Accept
    publish: Accept
    lost: Callable[[Loss], None]
    instance: Instance
    subscribed: Callable[[], None] = lambda: None


def _nothing(_endpoint: Endpoint) -> None:
    """Whatever is written there is right."""


def _elsewhere(_endpoint: Endpoint) -> None:
    """It takes no place that another listener could want."""


async def _not_listened(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    raise NotImplementedError(f"{endpoint.masked}: the app serves it by itself")


class TransportSpec(Struct, frozen=True, kw_only=True):
    """One transport.

    `listen` and `dial` are None where we do only the other. `check`, `check_upstream` and `check_place` raise
    ConfigError: for what is written wrong anywhere, or where we dial, and for where nothing can listen on this machine.
    `place` is what a listener there has for itself, None where it has nothing or the system chooses. `owner_only` says
    that nobody but the user who runs the gateway can reach it, `spawned` that its one peer is who spawned us.
    """

    listen: Callable[[Endpoint, Limits, ListenerCallbacks], Awaitable[Listener]] | None = _not_listened
    dial: Callable[[Endpoint, Limits, Children], Connect] | None = None
    listen_options: frozenset[str] = frozenset()
    dial_options: frozenset[str] = frozenset()
    check: Callable[[Endpoint], Any] = _nothing
    check_upstream: Callable[[Endpoint], Any] = _nothing
    check_place: Callable[[Endpoint], Any] = _nothing
    place: Callable[[Endpoint], Place | None] = _elsewhere
    owner_only: bool = False
    spawned: bool = False


def adapter_limits(limits: Limits) -> AdapterLimits:
    """The bounds of one transport."""
    return AdapterLimits(
        max_message=limits.max_message, max_parts=limits.message_parts, heartbeat=limits.heartbeat,
        handshake_deadline=limits.handshake_deadline,
    )  # fmt: skip
