"""Bearer tokens: named secrets of the configuration, each of which is one principal."""

from __future__ import annotations

from collections.abc import Mapping
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
