"""Commands that serve, or say whether something could be served: bridge, serve, check, demo-backend, demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import structs
from rich.console import Console
from rich.text import Text

from dragoman.gateway import logs
from dragoman.gateway.app import App
from dragoman.gateway.cli.running import AsJson, LogJson, LogLevel, run, serve_until_signalled, set_up
from dragoman.gateway.config import model as config
from dragoman.gateway.config.check import Checked, Problem, check_route
from dragoman.gateway.config.check import check as check_file
from dragoman.gateway.config.lines import written
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.config.probe import probe as probe_upstreams
from dragoman.gateway.demo.app import demo_backend as make_demo_backend
from dragoman.gateway.demo.conversation import demo as play_demo
from dragoman.gateway.demo.script import load as load_script
from dragoman.gateway.endpoint import parse
from dragoman.mappings.errors import ConfigError

__all__ = ["bridge", "check", "demo", "demo_backend", "serve"]


def bridge(
    endpoints: Annotated[
        list[str],
        typer.Argument(
            metavar="LISTEN... UPSTREAM",
            help="Where clients connect, one endpoint or several, then the backend: DIALECT+TRANSPORT:ADDRESS.",
        ),
    ],
    overflow: Annotated[
        config.Overflow, typer.Option(help="A slow client: merge its text deltas, or disconnect it.")
    ] = "coalesce",
    approvals: Annotated[
        config.Approvals, typer.Option(help="A question toward a client that knows none: ask in words, deny, approve.")
    ] = "ask",
    record: Annotated[
        str | None,
        typer.Option("--record", metavar="FILE|DIR", help="Record each session: into a new file, or a folder."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Take secrets out of what is recorded, before it is written.")
    ] = True,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Join clients of one dialect to a backend of another, without a config file.

    Prints `listening ENDPOINT` on stderr for each listener once it accepts (port 0 lets the system choose). SIGTERM
    lets open turns finish, then tells the clients and exits 0.
    """
    set_up(log_level, log_json)
    if len(endpoints) < 2:
        raise ConfigError("bridge needs at least two endpoints: where clients connect, and the backend")
    listen, upstream = tuple(map(parse, endpoints[:-1])), parse(endpoints[-1])
    route = Route(name="bridge", listen=listen, upstream=upstream, overflow=overflow, approvals=approvals)
    check_route(route)
    if record is None and not redact:
        raise ConfigError("--no-redact is for what is recorded: it goes with --record")
    redaction = config.Redact(enabled=redact)
    recording = config.Recording(path=record, compress=False, redact=redaction) if record is not None else None
    run(serve_until_signalled(App(Config(routes=(route,), recording=recording))))


def serve(
    config_file: Annotated[Path, typer.Option("--config", metavar="FILE", help="The configuration, TOML.")],
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Run the gateway as the configuration says.

    Prints `listening ENDPOINT` on stderr for each listener once it accepts. A configuration with an error is refused
    with the words of `dragoman check`. SIGTERM lets open turns finish, then tells the clients and exits 0.
    """
    set_up(log_level, log_json)
    checked = check_file(config_file)
    if checked.config is None:
        raise ConfigError("\n".join(map(str, checked.errors)))
    for warning in checked.problems:
        logs.tell(str(warning), sys.stderr)
    run(serve_until_signalled(App(checked.config)))


def check(
    config_file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration, TOML.")],
    probe: Annotated[bool, typer.Option("--probe", help="Also connect to the backend of each route.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say everything that is wrong with a configuration, each with its line and key.

    Exits 2 if there is an error, else 1 if --probe could not reach a backend, else 0. --json is an array of
    {file, line, path, text}, empty if all is well; what is only a warning has "level": "warning" too.
    """
    logs.configure("error")  # a backend that is probed may say things of its own
    console = Console(highlight=False, soft_wrap=True)
    checked = check_file(config_file)
    problems = list(checked.problems)
    if not as_json:
        for problem in problems:
            console.print(Text(str(problem), style="yellow" if problem.level == "warning" else "red"))
    if probe:
        problems += _probed(config_file, checked, console, quiet=as_json)
    if as_json:
        typer.echo(msgspec.json.encode([_row(problem) for problem in problems]).decode())
    elif checked.config is not None and not probe:
        names = ", ".join(route.name for route in checked.config.routes)
        console.print(Text(f"{config_file}: ok, it can be served: {names}", style="green"))
    if checked.config is None:
        raise typer.Exit(2)
    raise typer.Exit(1 if any(problem.level == "error" for problem in problems) else 0)


def _probed(path: Path, checked: Checked, console: Console, *, quiet: bool) -> list[Problem]:
    """Dial the backend of each route and tell how that went; the ones that cannot be reached."""
    config, lines = checked.config, checked.lines
    if config is None or lines is None:
        return []
    with console.status("connecting to the backends") if console.is_terminal and not quiet else console:
        answers = run(probe_upstreams(config))
    problems = []
    for index, (route, answer) in enumerate(zip(config.routes, answers, strict=True)):
        if answer:
            key = ("route", index, "upstream")
            problems.append(Problem(file=str(path), line=lines.of(key), path=written(key), text=answer))
        if not quiet and answer:
            console.print(Text(str(problems[-1]), style="red"))
        elif not quiet:
            console.print(Text.assemble(f"{route.name}: ", ("ok", "green"), f", {route.upstream.masked}"))
    return problems


def _row(problem: Problem) -> dict[str, object]:
    """A problem for scripts: the level of an error goes without saying."""
    row = structs.asdict(problem)
    if problem.level == "error":
        del row["level"]
    return row


def demo_backend(
    endpoint: Annotated[
        str, typer.Argument(metavar="ENDPOINT", help="Where to serve it, for example pod+unix:/tmp/demo.sock")
    ],
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="Answer every input from this script instead.")
    ] = None,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Serve a scripted backend, to try without an agent.

    It answers any input with the next turn of a conversation with thinking, a tool call and streamed text. Begin an
    input with [bold]fail[/], [bold]retry[/], [bold]limit[/], [bold]approve[/] (asks before it writes), [bold]form[/]
    (asks for a name), [bold]slow[/] (a minute of text, to cancel), [bold]wait[/] (a minute of silence) or
    [bold]count N[/] (N tokens at full speed) to see those.

    A script is canonical events (`dragoman schema events`), one a line as JSON, with an optional `delay_ms`; a
    `turn_ended` line ends a turn, and turn follows turn. A question parks its turn until it is answered; a line behind
    it with `"when": "approved"`, denied, submitted or declined is said for that answer alone.
    """
    set_up(log_level, log_json)
    turns = load_script(script) if script is not None else []
    run(serve_until_signalled(make_demo_backend(parse(endpoint), turns)))


def demo() -> None:
    """Show one backend in conversation with clients of all four dialects through the gateway; needs nothing else."""
    logs.configure("error")
    run(play_demo(Console(highlight=False)))
