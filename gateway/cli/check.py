"""`dragoman check`: report what is wrong with a configuration file, and optionally dial its backends."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs
from rich.console import Console
from rich.text import Text

from dragoman.gateway.cli.options import AsJson
from dragoman.gateway.cli.output import print_json
from dragoman.gateway.cli.running import run
from dragoman.gateway.config.check import Checked, Problem
from dragoman.gateway.config.check import check as check_file
from dragoman.gateway.config.lines import format_key
from dragoman.gateway.config.startup import probe as probe_upstreams
from dragoman.gateway.observability import logs

EXAMPLES = ("dragoman check config.toml", "dragoman check config.toml --probe", "dragoman check config.toml --json")


def check(
    config_file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file (TOML).")],
    probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Also connect to the backend of each route, and check that it speaks its dialect."
        ),
    ] = False,
    launched: Annotated[
        bool,
        typer.Option(
            "--launched", help="Check the file for `dragoman-pod` and `dragoman-codewhale`: a route needs no `listen`."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Report every error in a configuration file, each with its line and key.

    If there are more than 100 errors, the others are only counted. Exits 2 if there is an error, 1 if --probe finds a
    backend that it cannot reach or that speaks another dialect, else 0. --json prints an array of {file, line, path,
    text}, which is empty if there are no problems. A warning also has "level": "warning".
    """
    logs.configure("error")  # hides what a probed backend writes to stderr
    console = Console(highlight=False, soft_wrap=True)
    checked = check_file(config_file, listens=not launched)
    problems = list(checked.problems)
    if not as_json:
        for problem in problems:
            console.print(_printable(str(problem), "yellow" if problem.level == "warning" else "red"))
    if probe:
        problems += _probed(config_file, checked, console, quiet=as_json)
    if as_json:
        print_json([_row(problem) for problem in problems])
    elif checked.config is not None and not probe:
        names = ", ".join(route.name for route in checked.config.routes)
        console.print(_printable(f"{config_file}: ok, it can be served: {names}", "green"))
    if checked.config is None:
        raise typer.Exit(2)
    raise typer.Exit(1 if any(problem.level == "error" for problem in problems) else 0)


def _probed(path: Path, checked: Checked, console: Console, *, quiet: bool) -> list[Problem]:
    """Dial the backend of each route, print the results, and return one problem for each that cannot be reached."""
    config, lines = checked.config, checked.lines
    if config is None or lines is None:
        return []
    shows_progress = console.is_terminal and not quiet
    with console.status("connecting to the backends") if shows_progress else contextlib.nullcontext():
        answers = run(probe_upstreams(config))
    problems = []
    upstreams = [
        (("route", index, "upstream", *((place,) if route.failover else ())), route.name, upstream)
        for index, route in enumerate(config.routes)
        for place, upstream in enumerate(route.upstreams)
    ]
    for (key, name, upstream), answer in zip(upstreams, answers, strict=True):
        if answer:
            problems.append(Problem(file=str(path), line=lines.of(key), path=format_key(key), text=answer))
        if not quiet and answer:
            console.print(_printable(str(problems[-1]), "red"))
        elif not quiet:
            console.print(Text.assemble(_printable(f"{name}: "), ("ok", "green"), _printable(f", {upstream.masked}")))
    return problems


def _printable(text: str, style: str = "") -> Text:
    """Return one line of text, in which every control character is escaped: it may quote the file or a backend."""
    return Text(logs.escaped(text).replace("\n", "\\n"), style)


def _row(problem: Problem) -> dict[str, object]:
    """Return a problem as a JSON row; only a warning has its level in it."""
    row = structs.asdict(problem) | {"file": logs.escaped(problem.file)}  # its name may not be UTF-8
    if problem.level == "error":
        del row["level"]
    return row
