"""The clients of a gateway: accept or refuse each connection, serve its link, and count it while it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any

from msgspec import Struct

from dragoman.adapters.base import CloseReason, Transport
from dragoman.adapters.host_names import address_of
from dragoman.gateway.identity.listeners import Identities
from dragoman.gateway.identity.principal import LOCAL, Principal, Refusal, roles_of
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.link import Link, LinkEvents, end_denied, expiring
from dragoman.gateway.observability import audit, logs
from dragoman.gateway.observability.log_throttle import bad_request_counter
from dragoman.gateway.overload.admission import Admission
from dragoman.gateway.peer import Peer
from dragoman.gateway.routing.router import LEFT_AT_ONCE, Router
from dragoman.gateway.services import Services
from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.values import Cause
from dragoman.mappings.dialect import Dialect, Loss, Translator

STOPS = "the gateway stops"


class ListenerTarget(Struct, kw_only=True, eq=False):
    """The router, and the authenticators, for new clients of a listener."""

    router: Router
    identities: Identities

    def change(self, router: Router, identities: Identities) -> None:
        """Use another router and other authenticators for clients that connect from now on."""
        self.router = router
        self.identities = identities


class ClientPort(Struct, frozen=True, kw_only=True):
    """The dialect and ingress that clients of one listener have in common, and the target of the listener.

    `counts` is True if the listener itself counts the connections of each address.
    """

    dialect: Dialect
    target: ListenerTarget
    ingress: Ingress
    counts: bool = False


class Clients:
    """The links of all clients. `gone` is called with each client that left."""

    def __init__(self, services: Services, gone: Callable[[Link], None]) -> None:
        self.services = services
        self.links: dict[str, Link] = {}
        self._gone = gone
        self._routers: dict[str, Router] = {}  # link id -> its router
        self._by_token: dict[str, Principal] = {}  # link id -> whom a token names
        self._left = asyncio.Event()  # set when a client leaves
        self._numbers = count(1)
        self.note_bad_request = bad_request_counter(services.ledger.counters, services.monotonic)
        self.admission = Admission(services.limits, services.memory, services.ledger, services.monotonic)
        self._closing = False

    def change_services(self, services: Services) -> None:
        self.services = services
        self.admission.change_limits(services.limits)

    def connect(self, peer: str) -> str:
        """Count a connection of this peer and return "", or return the reason why it is not accepted now."""
        text = self.admission.connect(address_of(peer))
        if text:
            audit.refuse("unknown", text, peer=peer)
        return text

    def disconnect(self, peer: str) -> None:
        self.admission.disconnect(address_of(peer))

    def welcome(
        self,
        port: ClientPort,
        transport: Transport,
        translator: Translator[Command, Event],
        principal: Principal | Refusal = LOCAL,
        *,
        attaches: bool = True,
        publishes: bool = False,
    ) -> None:
        """Serve a client that has connected, or refuse it: it has no principal, or there are too many."""
        router = port.target.router
        named = principal if isinstance(principal, Principal) else LOCAL
        if named.token:
            most = self.services.limits.links
            remember(self.services.tokens, (router.route.name, named.name), named.token, most)
        peer = Peer(
            id=f"{port.dialect.name}-{next(self._numbers)}",
            dialect=port.dialect,
            ingress=port.ingress,
            principal=named,
            roles=roles_of(named, router.route) if not publishes else None,
            attaches=attaches,
            publishes=publishes,
            limited=not publishes,
            traffic=self.services.ledger.counted_traffic(port.dialect.name, "client"),
        )
        link = _make_link(peer, transport, translator, router)
        refused = principal.text if isinstance(principal, Refusal) else ""
        # A listener bounds clients that only make calls, and there is one publication.
        address = address_of(transport.peer) if attaches and not port.counts else ""
        full = refused or (self.admission.enter(address) if attaches else "")
        if full:
            if not refused:  # a failed authentication was written to the audit log already
                audit.refuse(link, full)
            serving = self._reject(link, full, "denied" if refused else "busy")
        else:
            serving = self._serve(link, router, address if attaches else None, named.expires)
        if self._start(serving, link) and not full:
            self.links[link.id], self._routers[link.id] = link, router
            if named.credential:
                self._by_token[link.id] = named

    def _start(self, serving: Coroutine[Any, Any, None], link: Link) -> bool:
        """Serve a link in a task of its own; return False if the app has ended."""
        try:
            _ = self.services.start_task(serving, link.id)
        except RuntimeError:  # the end of the loop closes the connection
            serving.close()
            return False
        if self._closing:  # the connection was made while the listener closed
            link.end(CloseReason.GOING_AWAY, STOPS)
        return True

    def links_of(self, router: Router, endpoint: str = "") -> list[Link]:
        """Return the links whose commands go to this router; with `endpoint`, those of this listener."""
        links = [self.links[name] for name, one in self._routers.items() if one is router]
        return [link for link in links if not endpoint or link.ingress.endpoint == endpoint]

    async def end(self, links: Sequence[Link], why: str) -> None:
        """Disconnect these clients, in turn with the work of others, and return once they are gone."""
        for link in links:
            self.services.queue.departures.add_piece(partial(link.end, CloseReason.GOING_AWAY, why))
        while any(link.id in self.links for link in links):
            self._left.clear()
            await self._left.wait()

    def end_revoked(self, is_revoked: Callable[[Principal], bool]) -> None:
        revoked = [self.links[name] for name, principal in self._by_token.items() if is_revoked(principal)]
        self.deny(revoked, "the token was revoked: connect again with another one")

    def deny(self, links: Iterable[Link], text: str) -> None:
        """Disconnect clients whose credential is not accepted any more, in turn with the work of others."""
        for link in links:
            link.log.info("client denied", cause=text)
            self.services.queue.departures.add_piece(partial(end_denied, link, text))

    async def wait_until_gone(self, router: Router) -> None:
        while router in self._routers.values():
            self._left.clear()
            await self._left.wait()

    def close(self) -> None:
        """Disconnect every client, including those that connect later."""
        self._closing = True
        for link in list(self.links.values()):
            link.end(CloseReason.GOING_AWAY, STOPS)

    async def _reject(self, link: Link, text: str, cause: Cause) -> None:
        """Send the reason in the peer's dialect, if it has unsolicited errors, and disconnect the peer."""
        why = "too many clients, or too little memory" if cause == "busy" else "not authenticated"
        self.services.ledger.record([Loss(kind="link", why=why)], target=link.dialect.name)

        def refuse(link: Link) -> None:
            _refuse(link, text, cause)
            link.end(CloseReason.FULL, text)

        await link.run(refuse)

    async def _serve(self, link: Link, router: Router, address: str | None, expires: float | None) -> None:
        """Serve a link until it ends.

        `address` is the address under which its connection is counted, None if it is not.
        """
        _log(link, "client connected")
        try:
            with expiring(link, expires, self.services):
                await link.run(router.connected)
            while len(link.sessions) > LEFT_AT_ONCE:
                await self.services.queue.departures.wait_for_turn()
                router.leave_some(link)
        finally:
            del self.links[link.id], self._routers[link.id]
            self._by_token.pop(link.id, None)
            self._left.set()
            if address is not None:
                self.admission.leave(address)
            router.gone(link)
            _log(link, "client disconnected")
            self._gone(link)


def _log(link: Link, event: str) -> None:
    if logs.LEVEL.passes("link", "info"):  # a line that is dropped later takes 20 us
        link.log.info(event)


def _make_link(peer: Peer, transport: Transport, translator: Translator[Command, Event], router: Router) -> Link:
    translator.limit_requests(router.services.limits.pending_commands, transport.meter.add)
    translator.note_backend(router.upstream)
    recorder = router.recorder
    return Link(
        peer,
        transport,
        translator,
        router.services,
        LinkEvents(sink=router.receive, drained=router.drained, refused=_refuse),
        recorder.tap(peer.id, peer.dialect.name) if recorder is not None else None,
    )


def _refuse(link: Link, text: str, cause: Cause = "busy") -> None:
    """Tell a client, in its dialect, why it is disconnected; `busy` means that the gateway has no room for it."""
    link.refuse("", cause, text)
