"""`dragoman sessions`: list the sessions of a running gateway, show one, close it or disconnect its clients."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import typer

from dragoman.gateway.cli.options import AsJson, OpsConfig, OpsUrl
from dragoman.gateway.cli.output import print_json, print_table
from dragoman.gateway.ops.client import OpsClient, find_ops_port
from dragoman.gateway.recording.printable import counted
from dragoman.mappings.errors import ConfigError

EXAMPLES = (
    "dragoman sessions --config config.toml",
    "dragoman sessions show 5f1d8c3e-5d0f-4a53-8f0e-2f1e0c6b7a90 --ops http://127.0.0.1:8790",
    "dragoman sessions close 5f1d8c3e-5d0f-4a53-8f0e-2f1e0c6b7a90 --ops http://127.0.0.1:8790",
)

COLUMNS = ("id", "route", "backend", "status", "clients", "messages", "owner", "updated_at", "title")
LINKS = ("id", "dialect", "peer", "principal", "queued", "behind")


def sessions(
    action: Annotated[
        Literal["list", "show", "close", "detach"],
        typer.Argument(metavar="list|show|close|detach", help="The action; without one, list.", show_default=False),
    ] = "list",
    session: Annotated[str, typer.Argument(metavar="ID", help="The id of the session.", show_default=False)] = "",
    route: Annotated[str, typer.Option(metavar="NAME", help="List only sessions of this route.")] = "",
    state: Annotated[
        str, typer.Option(metavar="STATE", help="List only sessions in this state: idle, running or paused.")
    ] = "",
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help="List only sessions whose backend speaks this dialect.")
    ] = "",
    owner: Annotated[str, typer.Option(metavar="NAME", help="List only sessions of this principal.")] = "",
    sort: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            help="Sort by id, opened_at, updated_at, memory or clients; a `-` before it reverses the order.",
        ),
    ] = "id",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="The maximum number of sessions to list.")
    ] = 100,
    config_file: OpsConfig = None,
    ops: OpsUrl = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions of a running gateway, show one with its clients, close it, or disconnect its clients.

    The gateway needs an ops port (`ops.listen` in its configuration, or `bridge --ops`). Exits 1 if there is no such
    session or it cannot be closed, 2 if no gateway answers.
    """
    if (action == "list") is bool(session):
        raise ConfigError(f"sessions {action} takes no session" if session else f"write dragoman sessions {action} ID")
    port = find_ops_port(config_file, ops)
    if action == "list":
        filters = {"route": route, "state": state, "dialect": dialect, "owner": owner}
        query = {**filters, "sort": sort if sort != "id" else "", "limit": str(limit)}
        answer = port.ask(f"/sessions?{urlencode({key: value for key, value in query.items() if value})}")
    else:
        answer = _act(port, action, f"/sessions/{quote(session, safe='')}")
    if as_json:
        print_json(answer)
    else:
        with port.reading_answers():
            _print(action, session, answer)


def _act(port: OpsClient, action: str, path: str) -> Any:
    if action == "close":
        port.ask(path, "DELETE")
        return {"closed": True}
    return port.ask(f"{path}/detach", "POST") if action == "detach" else port.ask(path)


def _print(action: str, session: str, answer: Any) -> None:
    if action == "list":
        print_table(COLUMNS, answer["sessions"])
        if len(answer["sessions"]) < answer["total"]:
            typer.echo(f"{len(answer['sessions'])} of {answer['total']} sessions; --limit shows more")
    elif action == "show":
        print_table(("key", "value"), [{"key": key, "value": value} for key, value in answer["session"].items()])
        print_table(LINKS, answer["links"])
    elif action == "close":
        typer.echo(f"closed {session}")
    else:
        typer.echo(f"disconnected {counted(answer['detached'], 'client')} of {session}")
