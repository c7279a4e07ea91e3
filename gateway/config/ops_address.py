"""Read the address of the ops port, and find what is wrong with its options (docs/operations.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.adapters.host_names import is_host_name, is_loopback
from dragoman.gateway.config.lines import Found
from dragoman.gateway.config.model import Ops
from dragoman.gateway.config.source import expand_home, why_guessable
from dragoman.gateway.endpoint import Place, tcp_places
from dragoman.mappings.errors import ConfigError

UNIX = "unix:"
EXAMPLES = "http://127.0.0.1:8790 or unix:/run/user/1000/dragoman-ops.sock"


class OpsAddress(Struct, frozen=True, kw_only=True):
    """A host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_public(self) -> bool:
        """True if other machines can reach it."""
        return not self.path and not is_loopback(self.host)

    @property
    def places(self) -> tuple[Place, ...]:
        """The Places that the address occupies; none if the system chooses the port."""
        return (("unix", os.path.realpath(self.path)),) if self.path else tcp_places(self.host, self.port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"unix:{self.path}" if self.path else f"http://{host}:{self.port}"


def parse_ops_address(text: str) -> OpsAddress:
    """Return the address that `http://HOST:PORT` or `unix:PATH` names; raise ConfigError for any other text."""
    if text.startswith(UNIX) and text != UNIX:
        return OpsAddress(path=expand_home(text.removeprefix(UNIX)))
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError as error:
        raise ConfigError(f"invalid ops address: {error}; write for example {EXAMPLES}") from error
    if url.scheme != "http" or not host or port is None or url.path not in ("", "/") or url.query or url.username:
        raise ConfigError(f"an ops address is only http://HOST:PORT or unix:PATH; write for example {EXAMPLES}")
    return OpsAddress(host=host, port=port)


def check_ops(ops: Ops) -> None:
    """Raise ConfigError with the first error in the options of an ops port."""
    if fault := next(faults_of_ops(ops), None):
        raise ConfigError(fault[1])


def faults_of_ops(ops: Ops) -> Iterator[Found]:
    """Yield each error in the options of an ops port, with its key."""
    try:
        address = parse_ops_address(ops.listen)
        if address.path:
            from dragoman.gateway.transports.unix import check_bindable  # not needed without such a socket

            check_bindable(address.path)
    except ConfigError as error:
        yield ("listen",), str(error)
        return
    if address.is_public and not ops.tokens:
        text = f"other machines can reach {address}: add a token to `tokens` (with --ops: DRAGOMAN_OPS_TOKEN)"
        yield ("listen",), f"{text}, or listen on 127.0.0.1"
    for index, host in enumerate(ops.hosts):
        if host == "*" or not is_host_name(host):
            yield ("hosts", index), f"{host!r}: write only a name of this machine, for example agents.example"
    for index, token in enumerate(ops.tokens):
        text = why_guessable("token", token)
        if not text and not (token.isascii() and token.isprintable() and " " not in token):
            text = "a token has only ASCII letters, digits and marks, because it is sent in an HTTP header"
        if text:
            yield ("tokens", index), text
