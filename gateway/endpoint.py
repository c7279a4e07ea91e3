"""Parse endpoints: `DIALECT[@GENERATION]+TRANSPORT:ADDRESS[?OPTIONS]` (docs/design.md, section 7).

    smooth+ws://127.0.0.1:8787/ws      pod+unix:/run/x/sock      pod@seed+unix:/run/x/sock?session=latest
    codewhale+stdio:codewhale app-server --stdio -- ?cwd=/src    codewhale+stdio:

The address of `stdio` is a command line. Its options follow ` -- ?`, so that no argument is mistaken for one. Without
an address it means our own stdin and stdout. gateway/registry.py knows which dialects and transports go together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path, PurePath
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct, structs

from dragoman.gateway.config.source import ENV, FILE, expand_home, find_secret
from dragoman.mappings.errors import ConfigError

EXAMPLES = "smooth+ws://127.0.0.1:8787/ws or pod+unix:/run/x/sock"

PATHS = ("unix", "dir", "file")  # the transports whose address is a path

_GRAMMAR = re.compile(
    r"(?P<dialect>[a-z][a-z0-9]*)(@(?P<generation>[A-Za-z0-9.]+))?\+(?P<transport>[a-z]+):(?P<address>.*)", re.DOTALL
)

WRONG_PORT = "each port must be a number from 0 to 65535, and an IPv6 address needs brackets, as in [::1]:8787"
DEFAULT_PORTS = {"ws": 80, "wss": 443}

Place = tuple[object, ...]
"""A TCP address, a path or a stream that only one listener can have."""

LOOPBACK = {"localhost": ("127.0.0.1", "::1"), "0.0.0.0": ("127.0.0.1",), "::": ("::1",)}  # noqa: S104  # names of addresses
"""A name of this machine, or a host that stands for all of its addresses -> the loopback addresses that it includes."""

FILES = ("cert", "key", "ca", "client_ca", "client_keys")  # paths of files (TLS, CURVE), and no secrets themselves
FOLDER = "cwd"  # the option with the working folder of a backend
MASK = "***"
_SECRET_WORDS = ("token", "key", "secret", "passw", "auth")
_IN_TEXT = re.compile(
    r"(?i)(?<=//)[^/@\s'\"]+(?=@)"  # user and password of a URL
    r"|(?P<name>[\w-]*(?:tok|key|secret|passw|auth)\w*=|--?[\w-]*(?:tok|key|secret|passw|auth)\w*\s+)[^&\s'\"]+"
)
_HINTS = ("@", "tok", "key", "secret", "passw", "auth")  # each secret in a text has one of them

# Only characters with a meaning are escaped, so that an endpoint looks as its user wrote it.
_IN_VALUE = str.maketrans({"%": "%25", "&": "%26", "+": "%2B"})
_IN_KEY = {**_IN_VALUE, ord("="): "%3D"}


class Endpoint(Struct, frozen=True, kw_only=True):
    """A dialect, a transport and an address. An empty `generation` means the default; an option key may repeat."""

    dialect: str
    transport: str
    address: str
    generation: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def versioned_dialect(self) -> str:
        """The dialect, with its generation if the endpoint names one: `smooth@1.3.0`."""
        return f"{self.dialect}@{self.generation}" if self.generation else self.dialect

    @property
    def is_command(self) -> bool:
        """True for `stdio:`. The address is a command line, or it is empty and means our own stdin and stdout."""
        return self.transport == "stdio"

    @property
    def options_mark(self) -> str:
        """The text between the address and the options."""
        return " -- ?" if self.is_command else "?"

    @property
    def is_of_network(self) -> bool:
        """True if the address is a host and a port."""
        return self.address.startswith("//")

    @property
    def is_pod_directory(self) -> bool:
        """True for `pod+dir:`, a folder with a socket for each pod."""
        return (self.dialect, self.transport) == ("pod", "dir")

    @property
    def is_web_socket(self) -> bool:
        """True if the clients of a listener can show a token or a certificate in their handshake."""
        return self.transport in ("ws", "wss")

    @property
    def is_of_local_users(self) -> bool:
        """True if the kernel reports the user of each client of a listener: at a Unix socket, and on stdio."""
        return self.is_socket or self.transport == "name" or self.is_command or self.is_pod_directory

    @property
    def is_owner_only(self) -> bool:
        """True if only the user who runs the gateway can reach a listener: its socket has mode 0600.

        An inherited socket (`fd`) has the mode that its service manager gave it.
        """
        return self.is_of_local_users and not any(map(self.option, ("mode", "owner", "group", "fd")))

    @property
    def is_socket(self) -> bool:
        """True if the address is the path of a Unix socket."""
        return self.transport == "unix"

    @property
    def pod_name(self) -> str:
        """The name of a single pod: the folder of its socket (docs/dialects/pod.md, section 2); "" for no pod."""
        if self.dialect != "pod" or self.is_pod_directory:
            return ""
        if self.transport == "name":
            return self.address
        path = PurePath(self.address)
        return path.parent.name if path.name == "sock" else path.stem

    def option(self, key: str, default: str = "") -> str:
        """Return the last value of option `key`."""
        return dict(self.options).get(key, default)

    def all(self, key: str) -> tuple[str, ...]:
        return tuple(value for name, value in self.options if name == key)

    def secret(self, key: str) -> str:
        """Return the secret of option `key`, read from its variable or file; raise ConfigError if it is missing.

        The event loop reads it for each connection, so a pipe is not waited for.
        """
        try:
            return find_secret(self.option(key), wait=0)
        except ConfigError as error:
            raise ConfigError(f"{self.masked}: {key}: {error}") from error

    @property
    def secret_keys(self) -> list[str]:
        return [key for key, _value in self.options if _names_secret(key)]

    @property
    def has_literal_secret(self) -> bool:
        """True if a secret itself is written in the endpoint, instead of the name of its variable or file."""
        return any(self.option(key) and not self.option(key).startswith((ENV, FILE)) for key in self.secret_keys)

    def relative_to(self, folder: Path) -> Endpoint:
        """Return the endpoint with its relative paths below `folder`: its address, and those of its options."""
        return self._with_paths(lambda path: str(folder / path))

    @property
    def in_homes(self) -> Endpoint:
        """The endpoint with each `~` at the beginning of a path replaced by the home of its user."""
        return self._with_paths(expand_home)

    def _with_paths(self, place: Callable[[str], str]) -> Endpoint:
        options = tuple(
            (key, f"{FILE}{place(value.removeprefix(FILE))}")
            if _names_secret(key) and value.startswith(FILE)
            else (key, place(value) if key in (*FILES, FOLDER) else value)
            for key, value in self.options
        )
        address = place(self.address) if self.transport in PATHS else self.address
        return structs.replace(self, address=address, options=options)

    @property
    def masked(self) -> str:
        """The endpoint for logs and errors: secrets masked, and a command line without its arguments."""
        if not self.options and not self.is_command:
            return masked_text(str(self))
        options = tuple((key, MASK if _names_secret(key) else value) for key, value in self.options)
        address = self.address
        if self.is_command:
            program, *arguments = address.split(None, 1) or [""]
            address = f"{program} ..." if arguments else program
        return masked_text(str(structs.replace(self, address=address, options=options)))

    def __str__(self) -> str:
        address = f"{self.versioned_dialect}+{self.transport}:{self.address}"
        if not self.options:
            return address
        options = "&".join(f"{key.translate(_IN_KEY)}={value.translate(_IN_VALUE)}" for key, value in self.options)
        return f"{address}{self.options_mark}{options}"


@contextmanager
def naming(endpoint: Endpoint) -> Iterator[None]:
    """Name the endpoint in each ConfigError of this context."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{endpoint.masked}: {error}") from error


def masked_text(text: str) -> str:
    """Return text that may contain an endpoint, for an error: the secrets in it are masked."""
    folded = text.casefold()
    if not any(map(folded.__contains__, _HINTS)):  # the search takes 35 us, and each connect to a backend needs one
        return text
    return _IN_TEXT.sub(lambda match: f"{match['name'] or ''}{MASK}", text)


def _names_secret(key: str) -> bool:
    """Return True if an option of this name, which may be misspelt, holds a secret."""
    name = key.lower()
    if name in FILES:
        return False
    return any(word in name for word in _SECRET_WORDS) or bool(get_close_matches(name, _SECRET_WORDS, n=1))


def parse(text: str) -> Endpoint:
    """Parse an endpoint; raise ConfigError with the fault and a correct example."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"invalid endpoint {masked_text(text)!r}: write DIALECT+TRANSPORT:ADDRESS, for example {EXAMPLES}"
        )
    endpoint = Endpoint(
        dialect=match["dialect"], generation=match["generation"] or "", transport=match["transport"], address=""
    )
    mark = endpoint.options_mark
    address, _, query = match["address"].partition(mark)
    if not address and not endpoint.is_command:
        raise ConfigError(f"endpoint {masked_text(text)!r} has no address: write for example {EXAMPLES}")
    try:
        options = tuple(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else ()
    except ValueError as error:
        raise ConfigError(f"{masked_text(text)!r}: write the options after `{mark}` as KEY=VALUE&KEY=VALUE") from error
    if empty := [key for key, value in options if not value]:
        raise ConfigError(f"{masked_text(text)!r}: write a value for `{empty[0]}`, or leave it out")
    return structs.replace(endpoint, address=address, options=options).in_homes


def split_url(endpoint: Endpoint) -> tuple[str, int, str]:
    """Return host, port and path of a `ws:` or `wss:` endpoint; raise ConfigError for no host, or a fragment.

    The port is 80 or 443 by default, and the path is `/`.
    """
    try:
        url = urlsplit(f"ws:{endpoint.address}")
        host, port = url.hostname, url.port
    except ValueError as error:
        words = WRONG_PORT if str(error).startswith("Port ") else str(error)
        raise ConfigError(f"{endpoint.masked}: {words}") from error
    if not host:
        raise ConfigError(f"{endpoint.masked}: write host and port, for example smooth+ws://127.0.0.1:8787/ws")
    if url.fragment:  # RFC 6455, section 3
        raise ConfigError(f"{endpoint.masked}: the address of a WebSocket has no #{url.fragment}; write %23 for a #")
    return host, DEFAULT_PORTS[endpoint.transport] if port is None else port, url.path or "/"


def tcp_places(host: str, *ports: int) -> tuple[Place, ...]:
    """Return the TCP addresses that a host has at these ports, without those at port 0, which the system chooses.

    Loopback is the only address of this machine that is known here.
    """
    name = host.lower()
    return tuple(("tcp", address, port) for address in LOOPBACK.get(name, (name,)) for port in ports if port)
