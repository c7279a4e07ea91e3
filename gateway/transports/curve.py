"""The CURVE keys of `pando+tcp:` endpoints, by which two gateways authenticate each other (docs/security.md, section
5).

A key is 40 characters (Z85), or a certificate as pyzmq's `zmq.auth.create_certificates` writes it. The keys of an
upstream are read for each connection, and `client_keys` again when it has changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import structlog

from dragoman.adapters import zeromq
from dragoman.gateway.config.source import read_secret
from dragoman.gateway.endpoint import Endpoint, naming
from dragoman.mappings.errors import ConfigError

SERVER_OPTIONS = frozenset({"curve_key", "client_keys"})
CLIENT_OPTIONS = frozenset({"curve_key", "server_key"})
EXAMPLE = {
    SERVER_OPTIONS: "?curve_key=file:server.key_secret&client_keys=FOLDER",
    CLIENT_OPTIONS: "?curve_key=file:client.key_secret&server_key=file:server.key",
}

log = structlog.get_logger("dragoman.curve")


class ClientKeys:
    """The public keys of the clients that may connect: of one file, or of the files `*.key` of a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: dict[Path, int] | None = None  # of each file, the time of its last change
        self._keys: frozenset[bytes] = frozenset()
        self._load()
        if not self._keys:
            raise ConfigError(f"client_keys: the folder {path} has no file `*.key`, so no client could connect")

    def has_key(self, key: bytes) -> bool:
        """Return True for a known key, after reading the keys again if they have changed."""
        try:
            self._load()
        except ConfigError as error:
            log.warning(
                "cannot reload the keys of clients, keeping the known ones", cause=str(error), known=len(self._keys)
            )
        return key in self._keys

    def _load(self) -> None:
        """Read the keys if a file was changed, added or removed; raise ConfigError if a key is invalid."""
        try:
            files = sorted(self._path.glob("*.key")) if self._path.is_dir() else [self._path]
            stamp = {file: file.stat().st_mtime_ns for file in files}
        except OSError as error:
            raise ConfigError(f"client_keys: {self._path}: {error.strerror}") from error
        if stamp == self._stamp:
            return
        self._stamp = stamp
        self._keys = frozenset(_key(f"the file {file}", read_secret(file, wait=0), "public") for file in files)


def server_keys(endpoint: Endpoint, refused: Callable[[str], None]) -> zeromq.CurveServer | None:
    """Return the CURVE of a listener, None without one; raise ConfigError if a key cannot be read.

    `refused` is called with the reason for each client whose key is unknown.
    """
    if not _uses_curve(endpoint, SERVER_OPTIONS):
        return None
    with naming(endpoint):
        known = ClientKeys(Path(endpoint.option("client_keys")))

    def accepts(key: bytes) -> bool:
        accepted = known.has_key(key)
        if not accepted:
            refused(f"the public key {key.decode()} is not in client_keys")
        return accepted

    return zeromq.CurveServer(secret=_option(endpoint, "curve_key", "secret"), accepts=accepts)


def client_keys(endpoint: Endpoint) -> zeromq.CurveClient | None:
    """Return the CURVE of an upstream, None without one; raise ConfigError if a key cannot be read."""
    if not _uses_curve(endpoint, CLIENT_OPTIONS):
        return None
    secret, server = _option(endpoint, "curve_key", "secret"), _option(endpoint, "server_key", "public")
    return zeromq.CurveClient(secret=secret, server=server)


def _uses_curve(endpoint: Endpoint, options: frozenset[str]) -> bool:
    """Return True if an endpoint has these options; raise ConfigError if it has only one, or libzmq has no CURVE."""
    given = {option for option in options if endpoint.option(option)}
    if not given:
        return False
    if given != options:
        raise ConfigError(f"{endpoint.masked}: CURVE needs both keys: `{EXAMPLE[options]}`")
    if not zeromq.has_curve():
        raise ConfigError(f"{endpoint.masked}: this libzmq has no CURVE; install pyzmq from its wheel")
    return True


def _option(endpoint: Endpoint, option: str, kind: str) -> bytes:
    secret = endpoint.secret(option)
    with naming(endpoint):
        return _key(option, secret, kind)


def _key(what: str, text: str, kind: str) -> bytes:
    """Return the key of this kind (public or secret) in a certificate, or in a text that is only the key."""
    found = re.search(rf'\b{kind}-key\s*=\s*"([^"\n]*)"', text)
    key = found[1] if found else text.strip()
    if not zeromq.is_key(key):
        raise ConfigError(f"{what} has no {kind} key: write its 40 characters, or a certificate of zmq.auth")
    return key.encode()
