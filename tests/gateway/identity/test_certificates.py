"""Client certificates: the subject of the certificate is the principal."""

from __future__ import annotations

from dragoman.adapters.base import PeerFacts
from dragoman.gateway.identity.certificates import ClientCertificates
from dragoman.gateway.identity.principal import Principal, Refusal


def test_a_subject_names_the_principal() -> None:
    named = ClientCertificates().identify(PeerFacts(certificate="CN=alice,O=Example", token="ignored"))
    assert named == Principal(name="cert:CN=alice,O=Example")


def test_a_certificate_without_a_subject_is_refused() -> None:
    assert isinstance(ClientCertificates().identify(PeerFacts()), Refusal)
