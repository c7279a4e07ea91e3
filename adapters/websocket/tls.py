"""TLS of WebSocket listeners and connections: certificates from files, at least TLS 1.2.

A renewed certificate is taken without a restart. For each connection the listener looks whether its files have changed;
then it reads them again. If they cannot be used, the old ones stay in use, and the reason is told once for each change.
New files make a new context, so no session of TLS that began with the old files can be resumed.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from dragoman.mappings.errors import ConfigError

SHORT_NAMES = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
}
MINIMUM = ssl.TLSVersion.TLSv1_2  # Debian's Python leaves the minimum to the configuration of OpenSSL
FILE_MAX = 16 * 1024 * 1024  # bytes of a file, which OpenSSL reads in one step: lists of revoked certificates are large
DATE_FAULTS = (9, 10)  # codes of OpenSSL: the certificate is not yet valid, or has expired
SPECIAL = ',+"\\<>;='  # characters with a meaning in a subject (RFC 4514)


class CertificateFiles(Struct, frozen=True, kw_only=True):
    """The files of one side: its certificate with chain, its key, and the authorities of the other side's certificate.

    An empty name means that there is no such file.
    """

    certificate: str = ""
    key: str = ""
    authorities: str = ""


class ServerTls:
    """The TLS of one listener. With authorities, every client must have a certificate of theirs.

    `tell` gets the reason if a renewed certificate cannot be used; then the old one stays in use.
    """

    def __init__(self, files: CertificateFiles, tell: Callable[[str], None]) -> None:
        self._files = files
        self._tell = tell
        self._seen = self._states()
        self._context = _server_context(files)

    def newest_context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins, after reading the files again if they have changed."""
        states = self._states()
        if states != self._seen:
            self._seen = states
            try:
                self._context = _server_context(self._files)
            except ConfigError as error:
                self._tell(str(error))
        return self._context

    def _states(self) -> list[tuple[int, int, int] | None]:
        return [_state(path) for path in (self._files.certificate, self._files.key, self._files.authorities)]


def client_context(files: CertificateFiles) -> ssl.SSLContext:
    """Return the context of a connection that we open; raise ConfigError that names the file that cannot be used."""
    context = ssl.create_default_context()
    context.minimum_version = MINIMUM
    context.set_alpn_protocols(("http/1.1",))
    _trust(context, files.authorities)
    if files.certificate or files.key:
        _load_pair(context, files)
    return context


def find_date_fault(files: CertificateFiles) -> str:
    """Return why clients refuse the certificate of a listener now, if its dates are the reason, or "".

    A client in memory that trusts this certificate makes a handshake: `ssl` has no function that reads the dates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(files.certificate)
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(received, sent)
    server = _server_context(files).wrap_bio(sent, received, server_side=True)
    try:
        for side in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message if error.verify_code in DATE_FAULTS else ""
    except ssl.SSLError:  # other clients may accept what this one does not, for example an elliptic curve
        pass
    return ""


def subject_of(certificate: dict[str, Any]) -> str:
    """Return the subject of a verified certificate, for example `CN=alice,O=Example`; "" if it has none.

    A group of several attributes is written `CN=alice+OU=Example`: another subject than that of two groups.
    """
    return ",".join(
        "+".join(f"{SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in group)
        for group in certificate.get("subject", ())
    )


def end_of(certificate: dict[str, Any]) -> float:
    """Return the time at which a verified certificate expires, in seconds since 1970."""
    return ssl.cert_time_to_seconds(certificate["notAfter"])


def _server_context(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = MINIMUM
    context.set_alpn_protocols(("http/1.1",))
    _load_pair(context, files)
    if files.authorities:
        _trust(context, files.authorities)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load_pair(context: ssl.SSLContext, files: CertificateFiles) -> None:
    for kind, path in (("certificate", files.certificate), ("key", files.key)):
        _check_readable(kind, path)
    try:
        context.load_cert_chain(files.certificate, files.key, _no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"the key {files.key} does not belong to the certificate {files.certificate}") from error
        both = f"the certificate {files.certificate} or the key {files.key} is not valid PEM"
        raise ConfigError(f"{both} ({error.reason or error})") from error


def _trust(context: ssl.SSLContext, authorities: str) -> None:
    if not authorities:
        return
    _check_readable("authorities", authorities)
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError as error:
        raise ConfigError(f"the authorities {authorities} are not valid PEM ({error.reason or error})") from error
    if context.cert_store_stats()["crl"]:  # OpenSSL ignores a list of revoked certificates unless it is told to
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _check_readable(kind: str, path: str) -> None:
    if not path:
        raise ConfigError(f"TLS needs the file of a {kind}")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        status = os.fstat(descriptor)
        os.close(descriptor)
    except OSError as error:
        raise ConfigError(f"the {kind} {path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_MAX:  # OpenSSL would wait for the writer of a pipe
        raise ConfigError(f"the {kind} {path} is not a regular file of at most {FILE_MAX:,} bytes")


def _no_password() -> str:
    raise ConfigError("the key is encrypted; dragoman cannot ask for its password")


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _escaped(value: str) -> str:
    return "".join(f"\\{letter}" if letter in SPECIAL else letter for letter in value)
