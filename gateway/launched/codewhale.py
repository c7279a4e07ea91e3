"""Run `dragoman-codewhale`, which an unchanged client starts in place of `codewhale` (docs/dialects/codewhale.md,
section 1).

    dragoman-codewhale app-server --stdio [--config FILE]

The environment selects the route (route.py). `--config` names a configuration of codewhale and is ignored, as any other
option before or after the command. The program speaks on its stdin and stdout, and ends with the client that started
it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

import structlog
from msgspec import structs

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.launched.route import choose_route, make_parser, run_program

STDIO = Endpoint(dialect="codewhale", transport="stdio", address="")

log = structlog.get_logger("dragoman.codewhale")


def main() -> None:
    """Serve the client that started us. Exit codes: 0 success, 1 failure, 2 bad usage or configuration."""
    run_program(lambda: _serve(launch(sys.argv[1:], os.environ)))


def launch(arguments: Sequence[str], environment: Mapping[str, str]) -> Config:
    """Return a configuration whose only route listens on our stdin and stdout; raise ConfigError if a setting is
    missing.

    Raise SystemExit(2) for arguments that ask for anything else than a server on stdio.
    """
    parser = make_parser("codewhale")
    parser.usage = "%(prog)s app-server --stdio"
    parser.add_argument("--stdio", action="store_true", required=True, help="serve on stdin and stdout")
    parser.add_argument("--config", metavar="FILE", help=argparse.SUPPRESS)
    _, others = parser.parse_known_args(arguments)
    if "app-server" not in others:  # a value of an unknown option may stand before the command
        parser.error("the only command of a codewhale that dragoman serves is app-server")
    others.remove("app-server")
    if others:  # a newer client may send new arguments: serve it anyway
        log.warning("ignored unknown arguments", arguments=others)
    whole, route = choose_route(environment)
    return structs.replace(whole, routes=(structs.replace(route, listen=(STDIO,)),))


async def _serve(config: Config) -> None:
    app = App(config)
    app.on_signals()
    await app.run()
