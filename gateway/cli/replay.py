"""`dragoman replay`: serve a recording as a backend."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from dragoman.gateway.cli.options import LogJson, LogLevel, RecordingFile
from dragoman.gateway.cli.running import run, serve_until_signalled, set_up
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability import logs
from dragoman.gateway.process.signals import cancel_end_deadline
from dragoman.gateway.recording.printable import counted
from dragoman.gateway.replay.missing import check_appendable, keep_missing, missing_folder
from dragoman.gateway.replay.standalone import replaying
from dragoman.mappings.errors import ConfigError

EXAMPLES = (
    "dragoman replay session.jsonl --listen smooth+ws://127.0.0.1:8787/ws --speed instant",
    "dragoman replay session.jsonl --listen pod+unix:/tmp/replay.sock --auto --idle-cap 2",
    "dragoman replay session.jsonl --listen pod+unix:/tmp/replay.sock --until turn:2 --then pod+name:atlas",
    "dragoman replay session.jsonl --listen pod+unix:/tmp/replay.sock --mode spy --upstream pod+name:atlas",
)

Mode = Literal["strict", "spy", "record-missing"]
"""The modes of a replay. `record-missing` works like spy and also adds the missing turns to the recording."""


def replay(
    file: RecordingFile,
    listen: Annotated[
        list[str],
        typer.Option("--listen", metavar="ENDPOINT", help="The endpoint at which clients connect; can be repeated."),
    ],
    mode: Annotated[
        Mode,
        typer.Option(
            metavar="MODE", help=f"The treatment of inputs that are not recorded: {', '.join(get_args(Mode))}."
        ),
    ] = "strict",
    upstream: Annotated[
        str, typer.Option(metavar="ENDPOINT", help="The live backend for --mode spy and record-missing.")
    ] = "",
    until: Annotated[
        str, typer.Option(metavar="SEQ|turn:N", help="Play only up to this line, or to the end of this turn.")
    ] = "",
    then: Annotated[str, typer.Option(metavar="ENDPOINT", help="The live backend that continues after --until.")] = "",
    speed: Annotated[
        str, typer.Option(metavar="SPEED", help="The speed: real, instant, or a factor such as 4.")
    ] = "real",
    idle_cap: Annotated[
        str, typer.Option(metavar="SECONDS", help="The maximum length of a pause, before --speed is applied.")
    ] = "",
    auto: Annotated[bool, typer.Option("--auto", help="Play turn after turn without waiting for input.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Log how each command was matched, with the candidates.")
    ] = False,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Serve a recording as a backend, in any dialect.

    Prints `listening ENDPOINT` on stderr when a listener accepts connections. Each client gets the recorded
    conversation from its beginning. An input that was recorded gets the recorded answer; any other is refused. No
    backend is contacted, except those of `--upstream` and `--then`.
    """
    set_up(log_level, log_json)
    if mode != "strict" and not upstream:
        raise ConfigError(f"--mode {mode} needs a live backend: add --upstream ENDPOINT")
    kept = None
    if mode == "record-missing":
        file = check_appendable(file)
        kept = missing_folder(file)
        _keep_missing(file)
    app = replaying(
        file,
        tuple(map(parse, listen)),
        record=kept,
        mode="spy" if kept is not None else mode,
        upstream=upstream,
        until=until,
        then=then,
        speed=speed,
        idle_cap=idle_cap,
        auto="yes" if auto else "",
        explain="yes" if explain else "",
    )
    try:
        run(serve_until_signalled(app))
    finally:
        if kept is not None:
            cancel_end_deadline()  # the whole recording is read, which may be large
            _keep_missing(file)


def _keep_missing(file: Path) -> None:
    if count := keep_missing(file, lambda error: logs.write_line(f"not added to {file}: {error}", sys.stderr)):
        logs.write_line(f"added {counted(count, 'turn')} to {file}", sys.stderr)
