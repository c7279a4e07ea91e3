"""The program at the other end of a link, as the gateway knows it when the connection is made."""

from __future__ import annotations

from msgspec import Struct

from dragoman.gateway.config.model import Role
from dragoman.gateway.identity.principal import LOCAL, Principal
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.observability.traffic import Traffic
from dragoman.mappings.dialect import Dialect


class Peer(Struct, frozen=True, kw_only=True):
    """The program at the other end of a link.

    `id` is unique in this process. `ingress` is the listener by which the peer came. `attaches` is False for a peer
    that only makes calls and gets only their answers. `publishes` is True for the one peer that stands for all
    subscribers.
    """

    id: str
    dialect: Dialect
    principal: Principal = LOCAL
    """The user; `local` without authentication."""
    roles: frozenset[Role] | None = None
    """The roles of the user on this route; None allows everything."""
    ingress: Ingress = Ingress()
    attaches: bool = True
    publishes: bool = False
    limited: bool = False
    """True for clients: `Limits` bounds each message, and more messages or faults in a time end the link."""
    traffic: Traffic | None = None
    """Totals to which the link adds its frames and the time of their translation."""
