"""`dragoman status`: show whether a running gateway is ready, and what its routes do."""

from __future__ import annotations

import typer

from dragoman.gateway.cli.options import AsJson, OpsConfig, OpsUrl
from dragoman.gateway.cli.output import print_json, print_table
from dragoman.gateway.observability.logs import escaped
from dragoman.gateway.ops.client import find_ops_port
from dragoman.gateway.recording.printable import counted

EXAMPLES = ("dragoman status --config config.toml", "dragoman status --ops http://127.0.0.1:8790 --json")

ROUTES = ("name", "upstream", "sessions", "busy", "connected", "missing", "failures", "fault")


def status(config_file: OpsConfig = None, ops: OpsUrl = None, as_json: AsJson = False) -> None:
    """Show whether a running gateway is ready for clients, and list its routes.

    The gateway needs an ops port (`ops.listen` in its configuration, or `bridge --ops`). Exits 0 if it is ready, 1 if
    not, 2 if no gateway answers.
    """
    port = find_ops_port(config_file, ops)
    with port.reading_answers():
        health = port.ask("/readyz?verbose", accepts=(503,))
        is_ready = health["ready"]
        routes = port.ask("/routes")["routes"]
        links = port.ask("/links?limit=1")["total"]
        if as_json:
            print_json({**health, "clients": links, "routes": routes})
        else:
            typer.echo(f"{health['status']}, {counted(links, 'client')}")
            for check in health["checks"]:
                if not check["ready"]:
                    typer.echo(escaped(f"  {check['name']}: {check['cause']}"))
            print_table(ROUTES, routes)
    raise typer.Exit(0 if is_ready else 1)
