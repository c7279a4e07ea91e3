"""A recording as a backend, and as a client: `dragoman replay`, `dragoman drive`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from dragoman.gateway import logs
from dragoman.gateway.cli.progress import steps
from dragoman.gateway.cli.recordings import tell_problems
from dragoman.gateway.cli.running import AsJson, LogJson, LogLevel, run, serve_until_signalled, set_up
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.printable import printable
from dragoman.gateway.replay.driving import DEADLINE, Driven
from dragoman.gateway.replay.missing import check_appendable, keep_missing, missing_folder
from dragoman.gateway.replay.options import MODES
from dragoman.gateway.replay.standalone import drive as drive_play
from dragoman.gateway.replay.standalone import driven_play, replaying
from dragoman.mappings.errors import ConfigError

__all__ = ["drive", "replay"]

RECORD_MISSING = "record-missing"
"""As spy, and what was missing is added to the recording."""


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording: its file, any part of it, or its folder.")],
    listen: Annotated[
        list[str],
        typer.Option("--listen", metavar="ENDPOINT", help="Where clients connect; may be given several times."),
    ],
    mode: Annotated[
        str, typer.Option(metavar="MODE", help=f"What is not recorded: {', '.join((*MODES, RECORD_MISSING))}.")
    ] = "strict",
    upstream: Annotated[
        str, typer.Option(metavar="ENDPOINT", help="The live backend behind --mode spy and record-missing.")
    ] = "",
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
    refused. No connection is made to any backend, but for `--upstream` and `--then`.
    """
    set_up(log_level, log_json)
    _check_mode(mode, upstream)
    kept = None
    if mode == RECORD_MISSING:
        file = check_appendable(file)
        kept = missing_folder(file)
        _keep_missing(file)
    app = replaying(
        file, tuple(map(parse, listen)), record=kept, mode="spy" if kept is not None else mode, upstream=upstream,
        until=until, then=then, speed=speed, idle_cap=idle_cap, auto="yes" if auto else "",
        explain="yes" if explain else "",
    )  # fmt: skip
    try:
        run(serve_until_signalled(app))
    finally:
        if kept is not None:
            _keep_missing(file)


def _check_mode(mode: str, upstream: str) -> None:
    if mode not in (*MODES, RECORD_MISSING):
        raise ConfigError(f"--mode {mode!r}: write {', '.join(MODES)} or {RECORD_MISSING}")
    if mode != MODES[0] and not upstream:
        raise ConfigError(f"--mode {mode} wants the live backend: add --upstream ENDPOINT")


def _keep_missing(file: Path) -> None:
    if count := keep_missing(file):
        logs.tell(f"added {count} turns to {file}", sys.stderr)


def drive(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording: its file, any part of it, or its folder.")],
    upstream: Annotated[str, typer.Argument(metavar="UPSTREAM", help="The live backend, in any dialect.")],
    deadline: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="For each turn.")] = DEADLINE,
    as_json: AsJson = False,
    log_level: LogLevel = "error",
    log_json: LogJson = False,
) -> None:
    """Say what clients said in a recording to a live backend, and compare what comes of it.

    Its inputs, cancels and answers to questions, in their order. Input, text, tools, questions, answers and ends are
    compared as `dragoman diff` does: what is missing has -, what is new +. Exits 0 if all is the same, 1 if not.
    --json is {turns, differences: [{turn, what, a, b}], refusals}.
    """
    set_up(log_level, log_json)
    play, backend = driven_play(file), parse(upstream)
    tell_problems(play.recording)
    with steps(file.name, len(play.scenes) - 1) as progress:
        driven = run(drive_play(play, backend, deadline=deadline, progress=progress))
    if as_json:
        typer.echo(msgspec.json.encode(driven).decode())
    else:
        _tell(driven, file, backend)
    raise typer.Exit(0 if driven.same else 1)


def _tell(driven: Driven, file: Path, backend: Endpoint) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for refusal in driven.refusals:
        console.print(Text(printable(refusal), style="yellow"))
    for difference in driven.differences:
        title, *lines = str(difference).split("\n")
        console.print(Text(printable(title), style="bold"))
        for line in lines:
            console.print(Text(printable(line), style="red" if line.startswith("-") else "green"))
    if driven.same:
        console.print(Text(f"{driven.turns} turns, the same as in {file}", style="green"))
    else:
        console.print(Text(f"- {file}\n+ {backend.masked}", style="dim"))
