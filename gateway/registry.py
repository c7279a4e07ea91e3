"""The registry of all dialects, and of the transports that each can use.

A dialect or transport is imported by name when an endpoint first names it. The rules of a dialect cost 7 to 20 ms of
CPU at the start, and the libraries of a transport up to 80 (docs/performance.md). Every endpoint is checked before the
gateway listens, so nothing is imported while it serves clients, except what a reload names.

Third parties add dialects through the entry-point group `dragoman.dialects`; each entry is a Dialect record. Such a
dialect has the transports of OF_BYTES.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from msgspec import structs

from dragoman.adapters.base import Listener
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, Place, parse
from dragoman.gateway.transports.spec import Connect, ListenerCallbacks, Spawner, TransportSpec
from dragoman.mappings.canonical.events import ModelTurnStarted
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from dragoman.gateway.pods.live import Pods
    from dragoman.gateway.recording.format import Header

OURS = ("smooth", "pod", "pando", "codewhale")
"""The dialects of this package: each is a package of mappings with a DIALECT."""

TRANSPORTS = {
    "smooth": {"ws": "websocket.WS", "wss": "websocket.WSS"},
    "pod": {"unix": "unix.UNIX", "dir": "unix.DIRECTORY", "name": "unix.NAME"},
    "pando": {"tcp": "zeromq.TCP", "dir": "zeromq.PROJECT"},
    "codewhale": {"stdio": "stdio.STDIO", "unix": "unix.APP_SERVER"},
}
"""Dialect -> transport -> module and name of its TransportSpec in gateway/transports."""

OF_BYTES = {"unix": "unix.UNIX", "stdio": "stdio.STDIO", "ws": "websocket.WS", "wss": "websocket.WSS"}
"""The transports of the dialects of other packages: all whose frames are bytes, because no adapter knows a dialect."""

PLAYED = {"replay": {"file": "file.FILE"}}
"""Backends that the app plays in process. An upstream names them in place of a dialect."""


@cache
def entry_points() -> EntryPoints:
    """Return the dialects of other packages. They are searched once: that reads the metadata of all packages."""
    from importlib import metadata

    return metadata.entry_points(group="dragoman.dialects")


def names() -> tuple[str, ...]:
    """Return the names of all dialects, ours first."""
    return (*OURS, *(entry.name for entry in entry_points() if entry.name not in OURS))


def dialects() -> dict[str, Dialect]:
    """Import and return all dialects by name, ours first."""
    return {name: dialect(name) for name in names()}


def ours() -> dict[str, Dialect]:
    """Import and return the dialects of this package by name, also in a thread: none of them counts as used."""
    return {name: _import_dialect(name) for name in OURS}


def imported() -> Mapping[str, Dialect]:
    """Return the dialects that this process has used so far, by name: those of its clients and backends.

    A reload adds further ones in a thread, so only a copy of the values may be iterated over.
    """
    return _IMPORTED


_IMPORTED: dict[str, Dialect] = {}


def dialect(name: str) -> Dialect:
    """Return the dialect of that name; raise ConfigError with the names of all dialects."""
    if name not in _IMPORTED:
        _IMPORTED[name] = _import_dialect(name)
    return _IMPORTED[name]


def _import_dialect(name: str) -> Dialect:
    if name in OURS:
        return cast(Dialect, import_module(f"dragoman.mappings.{name}").DIALECT)
    for entry in entry_points():
        if entry.name == name:
            return _load_theirs(entry)
    raise ConfigError(f"unknown dialect {name!r}; the dialects are {', '.join(names())}")


def _load_theirs(entry: EntryPoint) -> Dialect:
    """Return the dialect of another package; raise ConfigError with the reason if it cannot be used."""
    why = ""
    try:
        loaded = entry.load()
    except Exception as error:  # noqa: BLE001  # the code of another package may raise anything
        loaded, why = None, f"{type(error).__name__}: {error}"
    if isinstance(loaded, Dialect) and loaded.name == entry.name:
        return loaded
    if isinstance(loaded, Dialect):
        why = f"its record has the name {loaded.name!r}"
    text = f"the dialect {entry.name!r} of another package cannot be used"
    raise ConfigError(f"{text}: {why or f'{entry.value} is no Dialect'}; repair or uninstall that package")


def played(endpoint: Endpoint) -> bool:
    """Return True if a checked upstream is played in process, so that nothing is dialled."""
    return endpoint.dialect in PLAYED


def is_dialled(endpoint: Endpoint) -> bool:
    """Return True if the gateway connects to an upstream; it plays a recording, or the demo backend, in process."""
    spec = _find(endpoint)
    return spec is not None and spec.dial is not None


def upstream(endpoint: Endpoint) -> Dialect:
    """Return the dialect of a checked upstream, which says how its backend behaves.

    A replay behaves as the recorded backend, but opens a conversation for every client that asks. With `auto` it has
    one session for all clients. If there is a live backend behind the recording, the session adds the events that one
    of the two backends does not send.
    """
    if not played(endpoint):
        return dialect(endpoint.dialect)
    from dragoman.gateway.replay.options import header as read_header
    from dragoman.gateway.replay.options import read_options

    options = read_options(endpoint)
    known = recorded(read_header(endpoint))
    if options.live is not None and not dialect(options.live.dialect).events.can_read_type(ModelTurnStarted):
        known = dialect(options.live.dialect)
    lost_turn = "ends" if known.lost_turn == "goes_on" else known.lost_turn
    return structs.replace(known, single_session=options.auto, session_ref=None, lost_turn=lost_turn)


def recorded(header: Header) -> Dialect:
    """Return the dialect of the recorded backend.

    If the header's upstream is unknown, return the only dialect in the recording, else pod, which expresses most.
    """
    from dragoman.gateway.replay.options import header as read_header

    try:
        endpoint = parse(header.upstream)
        return recorded(read_header(endpoint)) if played(endpoint) else dialect(endpoint.dialect)
    except (ConfigError, RecursionError):  # RecursionError: a recording that names itself as its upstream
        known_names = [name for name in header.dialects if name in names()]
        return dialect(known_names[0] if len(known_names) == 1 else "pod")


def forms(name: str, *, listen: bool) -> list[str]:
    """Return the prefixes of endpoints of a known dialect, for listening or for dialling."""
    specs = {transport: _import_spec(path) for transport, path in TRANSPORTS.get(name, OF_BYTES).items()}
    return [f"{name}+{t}:" for t, spec in specs.items() if (spec.listen if listen else spec.dial) is not None]


def free_form(name: str) -> str:
    """Return an endpoint of a known dialect to listen on at a free address, which may be below `{folder}`."""
    specs = {transport: _import_spec(path) for transport, path in TRANSPORTS.get(name, OF_BYTES).items()}
    return next(f"{name}+{transport}:{spec.free}" for transport, spec in specs.items() if spec.free)


def owner_only_forms() -> list[str]:
    """Return the prefixes of endpoints that only the user who runs the gateway can reach."""
    ends = [Endpoint(dialect=name, transport=one, address="") for name, paths in TRANSPORTS.items() for one in paths]
    return [str(endpoint) for endpoint in ends if endpoint.is_owner_only]


def has_option(name: str) -> bool:
    """Return True if endpoints of any transport have an option of this name. This imports every transport."""
    specs = [_import_spec(path) for paths in (TRANSPORTS | PLAYED).values() for path in paths.values()]
    return any(name in spec.listen_options | spec.dial_options for spec in specs)


def pods(endpoint: Endpoint) -> Pods | None:
    """Return the pods of a checked upstream that is a directory of pods; None for any other upstream."""
    if not endpoint.is_pod_directory:
        return None
    from dragoman.gateway.transports.unix import pods

    return pods(endpoint)


def check_listen(endpoint: Endpoint) -> None:
    """Raise ConfigError, with what to write instead, for an endpoint that we cannot listen on."""
    _check(endpoint, listen=True)


def check_upstream(endpoint: Endpoint) -> None:
    """Raise ConfigError, with what to write instead, for an endpoint that we cannot dial."""
    _check(endpoint, listen=False)


def check_place(endpoint: Endpoint) -> None:
    """Raise ConfigError if this machine cannot listen on a checked endpoint, as far as that is known without trying."""
    spec_of(endpoint).check_place(endpoint)


def find_hazard(endpoint: Endpoint) -> str:
    """Return what is wrong with a checked listener although it can be opened, or ""."""
    return spec_of(endpoint).find_hazard(endpoint)


def check_session(endpoint: Endpoint, upstream: Endpoint) -> None:
    """Raise ConfigError for a listener that names a session although the backend has only one."""
    if endpoint.option("session") and _one_session(upstream):
        raise ConfigError(f"{endpoint.masked}: leave out `session`: {upstream.masked} has only one session")


def _one_session(endpoint: Endpoint) -> bool:
    return upstream(endpoint).single_session and not endpoint.is_pod_directory


def places(endpoint: Endpoint) -> tuple[Place, ...]:
    """Return the Places that an endpoint occupies.

    Two names of one address give equal Places. An address that the system chooses gives none.
    """
    return spec_of(endpoint).places(endpoint)


def _check(endpoint: Endpoint, *, listen: bool) -> None:
    if not played(endpoint):
        _check_generation(endpoint, dialect(endpoint.dialect))
    elif endpoint.generation:
        raise ConfigError(f"{endpoint.masked}: leave out the generation: the recording contains it")
    spec = _find(endpoint)
    if spec is None or not (spec.listen if listen else spec.dial or played(endpoint)):
        verb = "listen on" if listen else "connect to"
        can = ", ".join(f"{form}..." for name in names() for form in forms(name, listen=listen))
        raise ConfigError(f"{endpoint.masked}: dragoman cannot {verb} this; it can {verb} {can}")
    spec.check(endpoint)
    if not listen:
        spec.check_upstream(endpoint)
    known_options = spec.listen_options if listen else spec.dial_options
    for key, _value in endpoint.options:
        if key not in known_options:
            takes = ", ".join(sorted(known_options)) or "none"
            raise ConfigError(f"{endpoint.masked}: unknown option {key!r}; options of {endpoint.transport}: {takes}")
    for key in endpoint.secret_keys:
        endpoint.secret(key)
    if played(endpoint):
        _check_live(endpoint)


def _check_live(endpoint: Endpoint) -> None:
    """Check the live backend behind a replay: it must be one conversation with a backend that is dialled."""
    from dragoman.gateway.replay.options import read_options

    live = read_options(endpoint).live
    if live is None:
        return
    if played(live):
        raise ConfigError(f"{live.masked}: the backend behind a recording must be live, not another recording")
    if live.is_pod_directory:
        raise ConfigError(
            f"{live.masked}: the backend behind a recording must be one pod: write pod+unix:{live.address}/NAME/sock"
        )
    check_upstream(live)
    if dialect(live.dialect).session_ref is not None:
        raise ConfigError(
            f"{live.masked}: the backend behind a recording needs a connection for each session, "
            f"and a {live.dialect} has one for all sessions"
        )


def _check_generation(endpoint: Endpoint, known: Dialect) -> None:
    if endpoint.generation and endpoint.generation not in known.generations:
        raise ConfigError(f"{endpoint.masked}: unknown generation; {known.name} has {', '.join(known.generations)}")


def _find(endpoint: Endpoint) -> TransportSpec | None:
    path = (TRANSPORTS | PLAYED).get(endpoint.dialect, OF_BYTES).get(endpoint.transport)
    return _import_spec(path) if path is not None else None


@cache
def _import_spec(path: str) -> TransportSpec:
    """Return the spec of a transport: `websocket.WS` is WS in gateway/transports/websocket.py."""
    module, _, name = path.partition(".")
    return cast(TransportSpec, getattr(import_module(f"dragoman.gateway.transports.{module}"), name))


def spec_of(endpoint: Endpoint) -> TransportSpec:
    """Return the transport of a checked endpoint."""
    spec = _find(endpoint)
    if spec is None:
        raise ConfigError(f"{endpoint.masked}: unknown endpoint")
    return spec


async def listen(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    """Listen on a checked endpoint; raise OSError if that fails."""
    listen = spec_of(endpoint).listen
    if listen is None:
        raise ConfigError(f"{endpoint.masked}: dragoman cannot listen on this")
    return await listen(endpoint, limits, callbacks)


def connector(endpoint: Endpoint, limits: Limits, spawner: Spawner) -> Connect:
    """Return the function that connects to a checked endpoint. `spawner` starts its process, if it needs one."""
    dial = spec_of(endpoint).dial
    if dial is None:
        raise ConfigError(f"{endpoint.masked}: dragoman cannot connect to this")
    return dial(endpoint, limits, spawner)
