"""The one place that knows all dialects and which transports each can use.

Third parties add dialects through the entry-point group `dragoman.dialects`; each entry is a Dialect record. Such
dialects can be translated, but their transports cannot be declared outside of this file yet.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from msgspec import structs

from dragoman.adapters.base import Listener
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.format import Header
from dragoman.gateway.replay.options import OPTIONS, read_options
from dragoman.gateway.replay.options import header as read_header
from dragoman.gateway.transports.spec import Children, Connect, ListenerCallbacks, Place, TransportSpec
from dragoman.gateway.transports.stdio import STDIO
from dragoman.gateway.transports.unix import DIRECTORY, NAME, UNIX, pods
from dragoman.gateway.transports.websocket import WS, WSS
from dragoman.gateway.transports.zeromq import PROJECT, TCP
from dragoman.mappings.canonical.events import ModelTurnStarted
from dragoman.mappings.codewhale import DIALECT as CODEWHALE
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.errors import ConfigError
from dragoman.mappings.pando import DIALECT as PANDO
from dragoman.mappings.pod import DIALECT as POD
from dragoman.mappings.smooth import DIALECT as SMOOTH

__all__ = [
    "PLAYED",
    "TRANSPORTS",
    "check_listen",
    "check_place",
    "check_session",
    "check_upstream",
    "connector",
    "dialect",
    "dialects",
    "forms",
    "listen",
    "owner_only",
    "place",
    "played",
    "pods",
    "recorded",
    "spawned",
    "upstream",
]

FOLDER = frozenset({"cwd", "model"})  # clients of other dialects cannot send these (docs/design.md, section 5)

TRANSPORTS: dict[str, dict[str, TransportSpec]] = {
    "smooth": {"ws": WS, "wss": WSS},
    "pod": {"unix": UNIX, "dir": DIRECTORY, "name": NAME},
    "pando": {"tcp": TCP, "dir": PROJECT},
    "codewhale": {"stdio": STDIO, "unix": structs.replace(UNIX, listen_options=frozenset(), dial_options=FOLDER)},
}
"""Dialect -> transport -> what can be done with it."""


def _check_recording(endpoint: Endpoint) -> None:
    """Raise ConfigError if the options are invalid or the recording cannot be read."""
    read_options(endpoint)
    read_header(endpoint)


FILE = TransportSpec(listen=None, dial_options=OPTIONS, check_upstream=_check_recording)
"""A recording as a backend: nothing is dialled, gateway/replay plays it."""

PLAYED: dict[str, dict[str, TransportSpec]] = {"replay": {"file": FILE}}
"""Backends that the app plays in process. An upstream names them in place of a dialect."""


@cache
def dialects() -> dict[str, Dialect]:
    """Return all dialects by name, ours first."""
    known = {ours.name: ours for ours in (SMOOTH, POD, PANDO, CODEWHALE)}
    for entry in entry_points(group="dragoman.dialects"):
        known.setdefault(entry.name, entry.load())
    return known


def dialect(name: str) -> Dialect:
    """Return the dialect of that name; raise ConfigError with the names of all dialects."""
    try:
        return dialects()[name]
    except KeyError:
        raise ConfigError(f"unknown dialect {name!r}: there are {', '.join(dialects())}") from None


def played(endpoint: Endpoint) -> bool:
    """Return True if a checked upstream is played in process, so that nothing is dialled."""
    return endpoint.dialect in PLAYED


def upstream(endpoint: Endpoint) -> Dialect:
    """Return the dialect of a checked upstream, which says how its backend behaves.

    A replay behaves as the recorded backend, but opens a conversation for every client that asks. With `auto` it has
    one session for all clients. If a live backend stands behind the recording, the session adds the events that one
    of the two backends does not send.
    """
    if not played(endpoint):
        return dialect(endpoint.dialect)
    options = read_options(endpoint)
    known = recorded(read_header(endpoint))
    if options.live is not None and not dialect(options.live.dialect).events.can_read_type(ModelTurnStarted):
        known = dialect(options.live.dialect)
    return structs.replace(known, single_session=options.auto, session_ref=None, turn_outlives_connection=False)


def recorded(header: Header) -> Dialect:
    """Return the dialect of the recorded backend.

    If the header's upstream is unknown, return the only dialect in the recording, else pod, which expresses most.
    """
    try:
        endpoint = parse(header.upstream)
        return recorded(read_header(endpoint)) if played(endpoint) else dialect(endpoint.dialect)
    except (ConfigError, RecursionError):  # RecursionError: a recording that names itself as its upstream
        spoken = [dialects()[name] for name in header.dialects if name in dialects()]
        return spoken[0] if len(spoken) == 1 else POD


def forms(name: str, *, listen: bool) -> list[str]:
    """Return how endpoints of a dialect begin, for listening or for dialling."""
    specs = TRANSPORTS.get(name, {})
    return [f"{name}+{t}:" for t, spec in specs.items() if (spec.listen if listen else spec.dial) is not None]


def check_listen(endpoint: Endpoint) -> None:
    """Raise ConfigError, with what to write instead, for an endpoint that we cannot listen on."""
    _check(endpoint, listen=True)


def check_upstream(endpoint: Endpoint) -> None:
    """Raise ConfigError, with what to write instead, for an endpoint that we cannot dial."""
    _check(endpoint, listen=False)


def check_place(endpoint: Endpoint) -> None:
    """Raise ConfigError if this machine cannot listen on a checked endpoint, as far as that is known without trying."""
    _spec(endpoint).check_place(endpoint)


def check_session(endpoint: Endpoint, upstream: Endpoint) -> None:
    """Raise ConfigError for a listener that names a session although the backend has only one."""
    if endpoint.option("session") and _one_session(upstream):
        raise ConfigError(f"{endpoint.masked}: leave out `session`: {upstream.masked} has only one session")


def _one_session(endpoint: Endpoint) -> bool:
    return upstream(endpoint).single_session and endpoint.transport != "dir"


def place(endpoint: Endpoint) -> Place | None:
    """Return what a checked endpoint occupies, equal for two names of the same place; None if the system chooses."""
    return _spec(endpoint).place(endpoint)


def owner_only(endpoint: Endpoint) -> bool:
    """Return True if only the user who runs the gateway can reach a checked endpoint: its socket has mode 0600."""
    return _spec(endpoint).owner_only


def spawned(endpoint: Endpoint) -> bool:
    """Return True if the only peer of a checked listener is the process that started us, with which we end."""
    return _spec(endpoint).spawned


def _check(endpoint: Endpoint, *, listen: bool) -> None:
    if not played(endpoint):
        _check_generation(endpoint, dialect(endpoint.dialect))
    elif endpoint.generation:
        raise ConfigError(f"{endpoint.masked}: leave out the generation: the recording contains it")
    spec = _find(endpoint)
    if spec is None or not (spec.listen if listen else spec.dial or played(endpoint)):
        verb = "listen on" if listen else "connect to"
        can = ", ".join(f"{form}..." for name in TRANSPORTS for form in forms(name, listen=listen))
        raise ConfigError(f"{endpoint.masked}: dragoman cannot {verb} this; it can {verb} {can}")
    spec.check(endpoint)
    if not listen:
        spec.check_upstream(endpoint)
    known_options = spec.listen_options if listen else spec.dial_options
    for key, _value in endpoint.options:
        if key not in known_options:
            takes = ", ".join(sorted(known_options)) or "none"
            raise ConfigError(f"{endpoint.masked}: unknown option {key!r}; options of {endpoint.transport}: {takes}")
    if played(endpoint):
        _check_live(endpoint)


def _check_live(endpoint: Endpoint) -> None:
    """Check the live backend behind a replay: it must be one conversation with a backend that is dialled."""
    live = read_options(endpoint).live
    if live is None:
        return
    if played(live):
        raise ConfigError(f"{live.masked}: the backend behind a recording must be live, not another recording")
    if pods(live) is not None:
        raise ConfigError(
            f"{live.masked}: the backend behind a recording must be one pod: write pod+unix:{live.address}/NAME/sock"
        )
    check_upstream(live)


def _check_generation(endpoint: Endpoint, known: Dialect) -> None:
    if endpoint.generation and endpoint.generation not in known.generations:
        raise ConfigError(f"{endpoint.masked}: unknown generation; {known.name} has {', '.join(known.generations)}")


def _find(endpoint: Endpoint) -> TransportSpec | None:
    return (TRANSPORTS | PLAYED).get(endpoint.dialect, {}).get(endpoint.transport)


def _spec(endpoint: Endpoint) -> TransportSpec:
    spec = _find(endpoint)
    if spec is None:
        raise ConfigError(f"{endpoint.masked}: unknown endpoint")
    return spec


async def listen(endpoint: Endpoint, limits: Limits, callbacks: ListenerCallbacks) -> Listener:
    """Listen on a checked endpoint; raise OSError if that fails."""
    listen = _spec(endpoint).listen
    if listen is None:
        raise ConfigError(f"{endpoint.masked}: dragoman cannot listen on this")
    return await listen(endpoint, limits, callbacks)


def connector(endpoint: Endpoint, limits: Limits, children: Children) -> Connect:
    """Return the function that connects to a checked endpoint. Processes that it starts are added to `children`."""
    dial = _spec(endpoint).dial
    if dial is None:
        raise ConfigError(f"{endpoint.masked}: dragoman cannot connect to this")
    return dial(endpoint, limits, children)
