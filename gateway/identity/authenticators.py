"""The authenticators of listeners: each names a peer by one kind of credential.

    bearer_tokens        a token of the configuration      the principal `token:NAME`
    client_certificate   a certificate that TLS verified   `cert:SUBJECT`
    local_users          the user of a process             `uid:NUMBER`, which the kernel tells (SO_PEERCRED)

json_web_tokens.py has the one of JSON Web Tokens.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from hashlib import sha256
from hmac import compare_digest

import msgspec

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.config.model import Jwt
from dragoman.gateway.identity.principal import Authenticator, Principal, Refusal

NEEDED = Refusal(text="a token is needed: send `Authorization: Bearer TOKEN`, or from a browser the parameter `token`")
NOT_ACCEPTED = Refusal(text="this token is not accepted")
SEVERAL = Refusal(text="this request has several tokens: send one, in the header or as the parameter `token`")


def bearer_tokens(tokens: Mapping[str, str]) -> Authenticator:
    """Return the authenticator for these tokens, as principal name -> secret.

    Only digests are kept and compared. Each comparison takes the same time for every token, also for one of another
    length, and no comparison is left out after a match.
    """
    known = [Principal(name=f"token:{name}", credential=token_digest(secret)) for name, secret in tokens.items()]

    def identify(facts: PeerFacts) -> Principal | Refusal:
        if not facts.token:
            return NEEDED
        given = token_digest(facts.token)
        found = [principal for principal in known if compare_digest(principal.credential, given)]
        return found[0] if found else NOT_ACCEPTED

    return identify


def either_token(first: Authenticator, second: Authenticator) -> Authenticator:
    """Return an authenticator that tries two others and names a peer by the first that accepts its token."""

    def identify(facts: PeerFacts) -> Principal | Refusal:
        named = first(facts)
        return named if isinstance(named, Principal) or not facts.token else second(facts)

    return identify


def token_digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


def jwt_digest(config: Jwt) -> bytes:
    """Return the digest by which clients are known whose JSON Web Tokens were checked with this configuration."""
    return token_digest(msgspec.json.encode(config).decode())


def client_certificate(facts: PeerFacts) -> Principal | Refusal:
    """Name a client by the subject of its certificate, for example `cert:CN=alice,O=Example`."""
    if not facts.certificate:
        return Refusal(text="a client certificate with a subject is needed")
    if facts.certificate_end is not None and facts.certificate_end <= time.time():  # a session of TLS was resumed
        return Refusal(text="the certificate has expired")
    return Principal(name=f"cert:{facts.certificate}", expires=facts.certificate_end)


def local_users(uids: Collection[int] = (), gids: Collection[int] = ()) -> Authenticator:
    """Return the authenticator for these users and groups; without any, everybody who can open the socket may connect.

    A process has one group here: the effective group of the process that connected, and no supplementary one.
    """

    def identify(facts: PeerFacts) -> Principal | Refusal:
        if facts.uid is None:
            return Refusal(text="this system does not tell which user connects to a Unix socket")
        if (uids or gids) and facts.uid not in uids and facts.gid not in gids:
            return Refusal(text="your user may not use this socket")
        return Principal(name=f"uid:{facts.uid}", groups=frozenset({f"gid:{facts.gid}"}))

    return identify
