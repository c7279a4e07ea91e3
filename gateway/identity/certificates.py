"""Client certificates, which TLS has verified: the subject is the principal."""

from __future__ import annotations

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.identity.principal import Principal, Refusal


class ClientCertificates:
    """Names a client by the subject of its certificate, for example `cert:CN=alice,O=Example`."""

    def identify(self, facts: PeerFacts) -> Principal | Refusal:
        if not facts.certificate:
            return Refusal(text="a client certificate with a subject is needed")
        return Principal(name=f"cert:{facts.certificate}")
