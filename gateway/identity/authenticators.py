"""The authenticators of listeners: each names a peer by one kind of credential.

    BearerTokens         a token of the configuration      the principal `token:NAME`
    ClientCertificates   a certificate that TLS verified   `cert:SUBJECT`
    LocalUsers           the user of a process             `uid:NUMBER`, which the kernel tells (SO_PEERCRED)

json_web_tokens.py has the one of JSON Web Tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256
from hmac import compare_digest

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.identity.principal import Authenticator, Principal, Refusal

NEEDED = Refusal(text="a token is needed: send `Authorization: Bearer TOKEN`, or from a browser the parameter `token`")
NOT_ACCEPTED = Refusal(text="this token is not accepted")
SEVERAL = Refusal(text="this request has several tokens: send one, in the header or as the parameter `token`")


class BearerTokens:
    """The tokens that are accepted, as principal name -> secret.

    Only digests are kept and compared. Each comparison takes the same time for every token, also for one of another
    length, and no comparison is left out after a match.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._digests = [(_digest(secret), Principal(name=f"token:{name}")) for name, secret in tokens.items()]

    def identify(self, facts: PeerFacts) -> Principal | Refusal:
        if not facts.token:
            return NEEDED
        given = _digest(facts.token)
        found = [principal for digest, principal in self._digests if compare_digest(digest, given)]
        return found[0] if found else NOT_ACCEPTED


class EitherToken:
    """Names a peer by the first of two authenticators that accepts its token."""

    def __init__(self, first: Authenticator, second: Authenticator) -> None:
        self._first, self._second = first, second

    def identify(self, facts: PeerFacts) -> Principal | Refusal:
        named = self._first.identify(facts)
        return named if isinstance(named, Principal) or not facts.token else self._second.identify(facts)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


class ClientCertificates:
    """Names a client by the subject of its certificate, for example `cert:CN=alice,O=Example`."""

    def identify(self, facts: PeerFacts) -> Principal | Refusal:
        if not facts.certificate:
            return Refusal(text="a client certificate with a subject is needed")
        return Principal(name=f"cert:{facts.certificate}")


class LocalUsers:
    """The users and groups that may connect; without any, everybody who can open the socket may.

    A process has one group here: the effective group of the process that connected, and no supplementary one.
    """

    def __init__(self, uids: Collection[int] = (), gids: Collection[int] = ()) -> None:
        self._uids = frozenset(uids)
        self._gids = frozenset(gids)

    def identify(self, facts: PeerFacts) -> Principal | Refusal:
        if facts.uid is None:
            return Refusal(text="this system does not tell which user connects to a Unix socket")
        if (self._uids or self._gids) and facts.uid not in self._uids and facts.gid not in self._gids:
            return Refusal(text="your user may not use this socket")
        return Principal(name=f"uid:{facts.uid}", groups=frozenset({f"gid:{facts.gid}"}))
