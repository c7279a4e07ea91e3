"""TLS of WebSocket listeners and connections: certificates from files, at least TLS 1.2.

A renewed certificate is used without a restart. At each connection the listener checks whether its files have changed,
and if so reads them again. If they cannot be used, the old ones stay in use, and the reason is reported once for each
change. New files make a new context, so no session of TLS that began with the old files can be resumed.

The listener warns of a certificate that nobody renews: at a connection, once before it expires and once after that.
"""

from __future__ import annotations

import os
import ssl
import stat
import time
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
NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which `ssl` does not name
SOON = 0.1  # part of a certificate's life in which a renewal is late: they are renewed when a third is left
SOON_MAX = 14 * 86_400  # seconds: a certificate for ten years expires soon two weeks before
RENEWAL_FAILED = "cannot load the renewed certificate; the old one stays in use"
RENEWAL_LATE = "the certificate of a listener needs a renewal"
SPECIAL = ',+"\\<>;='  # characters with a meaning in a subject (RFC 4514)


class CertificateFiles(Struct, frozen=True, kw_only=True):
    """The files of one side: its certificate with chain, its key, and the authorities of the other side's certificate.

    An empty name means that there is no such file.
    """

    certificate: str = ""
    key: str = ""
    authorities: str = ""


class CertificateDates(Struct, frozen=True, kw_only=True):
    """The dates of a certificate, in seconds since 1970."""

    begin: float
    end: float

    def find_fault(self, now: float) -> str:
        """Return why clients refuse the certificate now or soon, or ""."""
        if now < self.begin:
            return f"certificate is not yet valid, only from {_day(self.begin)} on"
        if now >= self.end:
            return f"certificate has expired on {_day(self.end)}"
        if now >= self.end - min(SOON * (self.end - self.begin), SOON_MAX):
            return f"certificate expires soon, on {_day(self.end)}"
        return ""


class ServerTls:
    """The TLS of one listener. With authorities, every client must have a certificate of theirs.

    `report` is called with an event, RENEWAL_FAILED or RENEWAL_LATE, and its cause. The old certificate then stays in
    use.
    """

    def __init__(self, files: CertificateFiles, report: Callable[[str, str], None]) -> None:
        self._files = files
        self._report = report
        self._late = ""  # what was told of the dates
        self._load()

    @property
    def certificate_end(self) -> float | None:
        """Return the time at which the certificate in use expires; None if it cannot be read."""
        return self._dates.end if self._dates is not None else None

    def newest_context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins, after reading the files again if they have changed."""
        if self._states() != self._seen:
            try:
                self._load()
            except ConfigError as error:
                self._report(RENEWAL_FAILED, str(error))
        late = self._dates.find_fault(time.time()) if self._dates is not None else ""
        if late != self._late:
            self._late = late
            if late:
                self._report(RENEWAL_LATE, late)
        return self._context

    def _load(self) -> None:
        self._seen = self._states()
        self._context = _server_context(self._files)
        self._dates = read_dates(self._files)

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


def read_dates(files: CertificateFiles) -> CertificateDates | None:
    """Return the dates of the certificate of a listener, None if our TLS cannot use it.

    A client in memory that trusts this certificate makes a handshake: `ssl` has no function that reads the dates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
    context.load_verify_locations(files.certificate)
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(received, sent)
    server = _server_context(files).wrap_bio(sent, received, server_side=True)
    try:
        for side in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        certificate: dict[str, Any] = client.getpeercert() or {}
    except (ssl.SSLError, ValueError):  # other clients may accept what this one does not, for example a curve
        return None
    return CertificateDates(begin=ssl.cert_time_to_seconds(certificate["notBefore"]), end=end_of(certificate))


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


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


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
