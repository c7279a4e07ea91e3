"""Certificates for tests: an authority, and the certificates that it issues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC)

SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)
"""The key of an authority signs certificates and lists, which Python requires from 3.13 on (RFC 5280, 4.2.1)."""

CURVE = ec.SECP256R1()


class Authority:
    """A certificate authority; its certificate is in the file `path`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(CURVE)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = self._builder(self._name, self._key).add_extension(basic, critical=True)
        certificate = certificate.add_extension(identifier, critical=False).add_extension(SIGNS, critical=True)
        self.path = folder / f"{name}.pem"
        signed = certificate.sign(self._key, hashes.SHA256())
        self.path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        organization: str = "",
        around: datetime = NOW,
        curve: ec.EllipticCurve = CURVE,
    ) -> tuple[str, str]:
        """Write a certificate for this name and 127.0.0.1; return the paths of certificate and key.

        It is valid for an hour before and after the time `around`.
        """
        key = ec.generate_private_key(curve)
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        certificate = self._builder(x509.Name(parts), key, around).add_extension(address, critical=False)
        certificate = certificate.add_extension(self._identifier(), critical=False)
        paths = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        signed = certificate.sign(self._key, hashes.SHA256())
        paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return str(paths[0]), str(paths[1])

    def revoke(self, certificate: str) -> bytes:
        """Return a list of revoked certificates (PEM) with the certificate in this file."""
        revoked = x509.load_pem_x509_certificate(Path(certificate).read_bytes())
        entry = x509.RevokedCertificateBuilder().serial_number(revoked.serial_number).revocation_date(NOW).build()
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name).add_revoked_certificate(entry)
        dated = builder.last_update(NOW - timedelta(hours=1)).next_update(NOW + timedelta(hours=1))
        dated = dated.add_extension(self._identifier(), critical=False)
        return dated.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _identifier(self) -> x509.AuthorityKeyIdentifier:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, around: datetime = NOW
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(around - timedelta(hours=1))
            .not_valid_after(around + timedelta(hours=1))
        )
