"""`dragoman bridge`: serve one route, given as endpoints on the command line."""

from __future__ import annotations

import os
from typing import Annotated

import structlog
import typer

from dragoman.gateway.app import App
from dragoman.gateway.cli.options import ExitOnBackendLoss, LogContent, LogJson, LogLevel
from dragoman.gateway.cli.running import run, serve_until_signalled, set_up
from dragoman.gateway.config import model as config
from dragoman.gateway.config.access import public_faults, resolve_access
from dragoman.gateway.config.check import check_route
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.config.ops_address import check_ops
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.mappings.errors import ConfigError

EXAMPLES = (
    "dragoman bridge smooth+ws://127.0.0.1:8787/ws pod+unix:/run/user/1000/insomnia/atlas/sock",
    "dragoman bridge smooth+ws://127.0.0.1:0/ws pod+unix:/tmp/front.sock smooth+ws://127.0.0.1:8787/ws",
    "dragoman bridge smooth+ws://127.0.0.1:8787/ws pod+name:atlas --record atlas.jsonl",
    "dragoman bridge smooth+ws://127.0.0.1:8787/ws pod+name:atlas --record atlas.jsonl --no-redact",
)

log = structlog.get_logger("dragoman")


def bridge(
    endpoints: Annotated[
        list[str],
        typer.Argument(
            metavar="LISTEN... UPSTREAM",
            help="One or more endpoints for clients, then that of the backend: DIALECT+TRANSPORT:ADDRESS.",
        ),
    ],
    overflow: Annotated[
        config.Overflow,
        typer.Option(metavar="MODE", help="For a slow client: coalesce its text deltas, or disconnect it."),
    ] = "coalesce",
    approvals: Annotated[
        config.Approvals,
        typer.Option(metavar="MODE", help="For a client that cannot show a question: ask in words, deny or approve."),
    ] = "ask",
    record: Annotated[
        str | None,
        typer.Option("--record", metavar="FILE|DIR", help="Record each session into a new file, or into a folder."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Remove secrets from recordings before they are written.")
    ] = True,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Accept clients from other machines without authentication.")
    ] = False,
    ops: Annotated[
        str | None,
        typer.Option(
            metavar="ENDPOINT",
            help="Serve health, metrics and administration at http://HOST:PORT or unix:PATH; "
            "DRAGOMAN_OPS_TOKEN is its token.",
        ),
    ] = None,
    exit_on_backend_loss: ExitOnBackendLoss = False,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
    log_content: LogContent = False,
) -> None:
    """Connect clients of one dialect to a backend of another, without a configuration file.

    Prints `listening ENDPOINT` on stderr when a listener accepts connections. Port 0 lets the system choose a port. On
    SIGTERM, open turns can finish; then the clients are notified and the exit code is 0.
    """
    set_up(log_level, log_json, log_content)
    if len(endpoints) < 2:
        raise ConfigError("bridge needs at least two endpoints: where clients connect, and the backend")
    listen, upstream = tuple(map(parse, endpoints[:-1])), parse(endpoints[-1])
    route = Route(name="bridge", listen=listen, upstream=upstream, overflow=overflow, approvals=approvals)
    route = resolve_access(route, config.Auth())
    check_route(route)
    faults = public_faults({("listen", at): one for at, one in enumerate(listen)}, config.Auth(), "--insecure")
    if not insecure and (fault := next(faults, None)):
        raise ConfigError(fault[1])
    _warn_of_secrets(listen, upstream)
    if record is None and not redact:
        raise ConfigError("--no-redact needs --record")
    redaction = config.Redact(enabled=redact)
    recording = config.Recording(path=record, compress=False, redact=redaction) if record is not None else None
    app = App(Config(routes=(route,), recording=recording, ops=_ops_port(ops) if ops is not None else None))
    run(serve_until_signalled(app, exit_on_backend_loss=exit_on_backend_loss))


def _warn_of_secrets(listen: tuple[Endpoint, ...], upstream: Endpoint) -> None:
    for endpoint in (*listen, upstream):
        if endpoint.has_literal_secret:
            log.warning(
                "other users of this machine can see a secret on a command line, for example with `ps`; "
                "write env:NAME or file:PATH in its place",
                endpoint=endpoint.masked,
            )


def _ops_port(listen: str) -> config.Ops:
    token = os.environ.get("DRAGOMAN_OPS_TOKEN", "")
    ops = config.Ops(listen=listen, tokens=(token,) if token else ())
    check_ops(ops)
    return ops
