"""The authentication of listeners: it names each peer, or refuses it.

A failed attempt at a WebSocket listener is answered after `auth_delay`. A route without authentication names everybody
`local`, also at Unix sockets: its sessions belong to all.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import structlog
from msgspec import structs

from dragoman.adapters.base import Accept, Admission, PeerFacts, Transport
from dragoman.adapters.host_names import address_of
from dragoman.gateway.config.model import Auth, Config, Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.identity.authenticators import (
    SEVERAL,
    bearer_tokens,
    client_certificate,
    either_token,
    jwt_digest,
    local_users,
    token_digest,
)
from dragoman.gateway.identity.principal import LOCAL, Authenticator, Principal, Refusal
from dragoman.gateway.observability import audit

Welcome = Callable[[Transport, Principal | Refusal], None]
"""Serves a peer as this principal. With a Refusal, the peer is told the reason in its dialect."""

log = structlog.get_logger("dragoman.identity")


def names_clients(endpoint: Endpoint, auth: Auth) -> bool:
    """Return True if a listener at this endpoint can distinguish its clients."""
    if endpoint.is_web_socket:
        return bool(auth.tokens or auth.jwt.is_used or endpoint.option("client_ca"))
    return endpoint.is_of_local_users


def _bearer(auth: Auth) -> Authenticator | None:
    """Return the authenticator for bearer tokens; None if the configuration has no tokens."""
    named = bearer_tokens(auth.tokens) if auth.tokens else None
    if not auth.jwt.is_used:
        return named
    from dragoman.gateway.identity.json_web_tokens import JsonWebTokens, KeySet, file_loader  # an extra

    keys = KeySet(file_loader(auth.jwt.jwks), time.monotonic) if auth.jwt.jwks else None
    signed = JsonWebTokens(auth.jwt, keys).identify
    return either_token(named, signed) if named is not None else signed


def authenticates(endpoint: Endpoint, auth: Auth) -> bool:
    """Return True if only clients with a credential can use a listener, whether it names them or not."""
    return names_clients(endpoint, auth) or bool(endpoint.option("curve_key"))


class Identities:
    """The authenticators of a gateway, and the principals that are one person."""

    def __init__(self, config: Config, counters: Counter[str]) -> None:
        self.delay = config.limits.auth_delay
        self._counters = counters
        self._persons = {alias: person for person, aliases in config.principals.items() for alias in aliases}
        self._bearer = _bearer(config.auth)
        self._of_jwt = jwt_digest(config.auth.jwt)
        self._of_tokens = {
            token_digest(secret): self._persons.get(f"token:{name}", f"token:{name}")
            for name, secret in config.auth.tokens.items()
        }

    def listener(self, endpoint: Endpoint, route: Route, welcome: Welcome) -> ListenerIdentity:
        """Return the authentication of a listener, whose peers are given to `welcome`."""
        authenticator = self._authenticator(endpoint) if route.authenticated else None
        return ListenerIdentity(self, authenticator, welcome, keeps_token=route.upstream_auth == "forward")

    def join_names(self, named: Principal | Refusal) -> Principal | Refusal:
        """Return the person of [principals] that this principal is, or the principal itself."""
        if isinstance(named, Principal) and named.name in self._persons:
            return structs.replace(named, name=self._persons[named.name], groups=named.groups | {named.name})
        return named

    def is_revoked(self, principal: Principal) -> bool:
        """Return True if the token of this client is not valid any more, names another principal, or is checked in
        another way.
        """
        if principal.credential in (b"", self._of_jwt):
            return False
        return self._of_tokens.get(principal.credential) != principal.name

    def count_failure(self, address: str, cause: str) -> None:
        """Count and log a peer that could not be authenticated."""
        self._counters["refused_client_authentication"] += 1
        audit.refuse("unknown", cause, address=address)
        log.warning("client not authenticated", address=address, cause=cause)

    def _authenticator(self, endpoint: Endpoint) -> Authenticator | None:
        if endpoint.option("client_ca"):
            return client_certificate
        if endpoint.is_web_socket:
            return self._bearer
        if endpoint.is_of_local_users:
            return local_users(*(tuple(map(int, endpoint.all(key))) for key in ("uid", "gid")))
        return None  # ZeroMQ has no principals: every client of the port is `local`


class ListenerIdentity:
    """Names the peers of one listener; without an authenticator everybody is `local`.

    With `keeps_token` a principal has the token that it was named by.
    """

    def __init__(
        self,
        identities: Identities,
        authenticator: Authenticator | None,
        welcome: Welcome,
        *,
        keeps_token: bool,
    ) -> None:
        self._identities = identities
        self._authenticator = authenticator
        self._welcome = welcome
        self._keeps_token = keeps_token
        self.authenticated = authenticator is not None

    def accept_as(self, facts: PeerFacts) -> Accept:
        """Return a function that accepts the transport of a connected peer, or sends the reason for a refusal."""
        named = self._identify(facts)
        if isinstance(named, Refusal):
            self._count(facts, named)
        return lambda transport: self._welcome(transport, named)

    def admit(self, facts: PeerFacts) -> Admission:
        """Return a function that accepts a peer's transport after its handshake, or an awaitable for a second check."""
        named = self._identify(facts)
        if isinstance(named, Refusal):
            return self._look_again(facts, named)
        return lambda transport: self._welcome(transport, named)

    async def _look_again(self, facts: PeerFacts, refusal: Refusal) -> Accept | str:
        """Identify a peer again after a refresh of the keys.

        Return the function that accepts it, or its refusal after `auth_delay`.
        """
        named: Principal | Refusal = refusal
        if refusal.refresh is not None and await refusal.refresh():
            named = self._identify(facts)
        if isinstance(named, Refusal):
            self._count(facts, named)
            await asyncio.sleep(self._identities.delay)
            return named.text
        return lambda transport: self._welcome(transport, named)

    def _identify(self, facts: PeerFacts) -> Principal | Refusal:
        if self._authenticator is None:
            return LOCAL
        if facts.several_tokens:
            return SEVERAL
        named = self._identities.join_names(self._authenticator(facts))
        if self._keeps_token and isinstance(named, Principal):
            named = structs.replace(named, token=facts.token)
        return named

    def _count(self, facts: PeerFacts, refusal: Refusal) -> None:
        self._identities.count_failure(address_of(facts.address), refusal.text)
