"""`dragoman replay`: a recording as a backend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.app import App
from gateway.cli.running import LogJson, LogLevel, run, serve_until_signalled, set_up
from gateway.config.check import check_route
from gateway.config.model import Config, Route
from gateway.endpoint import Endpoint, parse
from gateway.replay.options import MODES

__all__ = ["replay"]


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The recording, plain or compressed.")],
    listen: Annotated[
        list[str],
        typer.Option("--listen", metavar="ENDPOINT", help="Where clients connect; may be given several times."),
    ],
    mode: Annotated[str, typer.Option(metavar="MODE", help=f"What is not recorded: {', '.join(MODES)}.")] = "strict",
    upstream: Annotated[str, typer.Option(metavar="ENDPOINT", help="The live backend behind --mode spy.")] = "",
    until: Annotated[
        str, typer.Option(metavar="SEQ|turn:N", help="Play up to this line, or to the end of this turn ...")
    ] = "",
    then: Annotated[str, typer.Option(metavar="ENDPOINT", help="... then go on with this live backend.")] = "",
    speed: Annotated[str, typer.Option(metavar="SPEED", help="real, instant, or how many times as fast.")] = "real",
    idle_cap: Annotated[
        str, typer.Option(metavar="SECONDS", help="Pauses are at most that long, before --speed.")
    ] = "",
    auto: Annotated[bool, typer.Option("--auto", help="Play turn after turn, for clients that only watch.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each command what it was matched with, and what came near.")
    ] = False,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Serve a recording as a backend, in any dialect.

    Prints `listening ENDPOINT` on stderr for each listener once it accepts. Whoever opens a conversation gets the
    recorded one from its beginning; an input is answered as the same input was then, and what the recording has not is
    refused. No connection is made to any backend, but for `--mode spy` and `--then`.
    """
    set_up(log_level, log_json)
    said = {
        "mode": mode, "upstream": upstream, "until": until, "then": then, "speed": speed, "idle_cap": idle_cap,
        "auto": "yes" if auto else "", "explain": "yes" if explain else "",
    }  # fmt: skip
    options = tuple((key, value) for key, value in said.items() if value)
    recording = Endpoint(dialect="replay", transport="file", address=str(file), options=options)
    route = Route(name="replay", listen=tuple(map(parse, listen)), upstream=recording)
    check_route(route)
    run(serve_until_signalled(App(Config(routes=(route,)))))
