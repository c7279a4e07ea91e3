"""The command line: every command, its help and its exit code (0 well, 1 the work failed, 2 bad usage or
configuration).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from adapters.lines import LineSplitter
from gateway import config, logs, ownership, registry
from gateway.app import App
from gateway.config import Config, ConfigFile, Limits, Route
from gateway.demo.client import demo as play_demo
from gateway.demo.client import demo_backend as make_demo_backend
from gateway.endpoint import parse
from gateway.matrix import markdown, show
from gateway.translate import Report
from gateway.translate import translate as run_translate
from mappings import fidelity
from mappings.canonical import Command, Event
from mappings.dialect import Frame
from mappings.errors import ConfigError, DragomanError

__all__ = ["app", "main"]

app = typer.Typer(
    name="dragoman",
    help="A gateway and translator between AI-agent clients and backends that speak different wire dialects.",
    epilog="First try: dragoman demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    add_completion=False,
)

LogLevel = Annotated[str, typer.Option("--log-level", help=f"One of {', '.join(logs.LEVELS)}.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Logs as JSON lines.")]
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"dragoman {version('dragoman')}")
    except PackageNotFoundError:
        typer.echo("dragoman, from a checkout that is not installed")
    raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; errors of ours are one line on stderr that says what to do."""
    code: object = 0
    try:
        code = app(standalone_mode=False)  # what a command raises as typer.Exit comes back as its number
    except ConfigError as error:
        _fail(error, 2)
    except (DragomanError, OSError) as error:
        _fail(error, 1)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        usage = getattr(error, "show", None)  # click's own usage errors print themselves
        if usage is None:
            raise
        usage()
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(error: Exception, code: int) -> None:
    typer.echo(f"error: {error}", err=True)
    sys.exit(code)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` on uvloop where it is installed (performance.md: 0.85x CPU), else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work)
    except asyncio.CancelledError:
        raise typer.Exit(1) from None  # the second signal: ended before everything was told
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a TaskGroup: the first one that is no group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _serve(gateway: App) -> None:
    gateway.on_signals()
    await gateway.run(lambda endpoint: logs.tell(f"listening {endpoint}", sys.stderr))


def _set_up(log_level: str, log_json: bool) -> None:
    if log_level not in logs.LEVELS:
        raise ConfigError(f"--log-level {log_level}: write one of {', '.join(logs.LEVELS)}")
    logs.configure(log_level, as_json=log_json)
    ownership.check()


@app.command(
    epilog="Example: dragoman bridge smooth+ws://127.0.0.1:8787/ws pod+unix:/run/user/1000/insomnia/atlas/sock"
)
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
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Join clients of one dialect to a backend of another, without a config file.

    Prints `listening ENDPOINT` on stderr for each listener once it accepts (port 0 lets the system choose). SIGTERM
    lets open turns finish, then tells the clients and exits 0.
    """
    _set_up(log_level, log_json)
    if len(endpoints) < 2:
        raise ConfigError("bridge needs at least two endpoints: where clients connect, and the backend")
    listen, upstream = tuple(map(parse, endpoints[:-1])), parse(endpoints[-1])
    route = Route(name="bridge", listen=listen, upstream=upstream, overflow=overflow, approvals=approvals)
    _run(_serve(App(Config(routes=(route,)))))


@app.command(epilog="Example: dragoman serve --config config.toml   (config.example.toml shows every key)")
def serve(
    config_file: Annotated[Path, typer.Option("--config", help="The configuration, TOML.")],
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Run the gateway as the configuration says."""
    _set_up(log_level, log_json)
    _run(_serve(App(config.load(config_file))))


@app.command("demo-backend", epilog="Example: dragoman demo-backend pod+unix:/tmp/demo.sock")
def demo_backend(
    endpoint: Annotated[
        str, typer.Argument(metavar="ENDPOINT", help="Where to serve it, for example pod+unix:/tmp/demo.sock")
    ],
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Serve a scripted backend, to try without an agent.

    It answers any input with the next turn of a conversation with thinking, a tool call and streamed text. Begin an
    input with [bold]fail[/], [bold]retry[/], [bold]limit[/], [bold]slow[/] (a minute of text, to cancel), [bold]wait[/]
    (a minute of silence) or [bold]count N[/] (N tokens at full speed) to see those.
    """
    _set_up(log_level, log_json)
    _run(_serve(make_demo_backend(parse(endpoint))))


@app.command(epilog="Example: dragoman demo")
def demo() -> None:
    """Show a conversation between a smooth client and a pod backend through the gateway; needs nothing else."""
    logs.configure("error")
    ownership.check()
    _run(play_demo(Console(highlight=False)))


@app.command(epilog="Example: dragoman translate --from pod --to smooth < events.jsonl")
def translate(
    source: Annotated[str, typer.Option("--from", metavar="DIALECT", help="The dialect of the lines on stdin.")],
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="The dialect of the lines on stdout.")],
    commands: Annotated[
        bool, typer.Option("--commands", help="Client to backend; without it backend to client.")
    ] = False,
) -> None:
    """Translate frames, one a line, as a filter.

    Losses and bad lines come as JSON lines on stderr; the rest goes on, and the exit code is 1 if any line was bad.
    Equal input gives equal output.
    """
    encoder = msgspec.json.Encoder()
    stdout, stderr = sys.stdout.buffer, sys.stderr.buffer

    def said(report: Report) -> None:
        stdout.flush()
        stderr.write(encoder.encode(report) + b"\n")
        stderr.flush()

    good = run_translate(
        registry.dialect(source), registry.dialect(target), _lines(), commands=commands,
        out=lambda frame: (stdout.write(frame + b"\n"), None)[1], said=said,
    )  # fmt: skip
    stdout.flush()
    raise typer.Exit(0 if good else 1)


def _lines() -> Iterator[tuple[int, Frame]]:
    """The frames on stdin, each with the number of its line: blank ones count and are no frames."""
    splitter = LineSplitter(Limits().max_message)
    number = 1
    while data := os.read(0, 1 << 16):
        *whole, rest = data.split(b"\n")
        for line in whole:
            for frame in splitter.feed(line + b"\n"):
                yield number, frame
            number += 1
        splitter.feed(rest)
    for frame in splitter.finish():
        yield number, frame


@app.command(epilog="Example: dragoman schema events > events.schema.json")
def schema(
    what: Annotated[
        str, typer.Argument(metavar="events|config", help="The canonical model, or the configuration file.")
    ] = "events",
) -> None:
    """Print a JSON Schema: of the canonical events and commands, or of the configuration file."""
    if what == "config":
        document = msgspec.json.schema(ConfigFile)
    elif what == "events":
        (events, commands), components = msgspec.json.schema_components((Event, Command), ref_template="#/$defs/{name}")
        document = {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "dragoman canonical model",
            "anyOf": [{"title": "Event", **events}, {"title": "Command", **commands}], "$defs": components,
        }  # fmt: skip
    else:
        raise ConfigError(f"schema {what}: write events or config")
    typer.echo(msgspec.json.format(msgspec.json.encode(document)).decode())


@app.command(epilog="Example: dragoman dialects --json")
def dialects(as_json: AsJson = False) -> None:
    """List the dialects and how each can be reached."""
    rows = [
        {
            "dialect": d.name, "generations": list(d.generations),
            "listen": [f"{d.name}+{t}:" for t in registry.LISTEN.get(d.name, ())],
            "connect": [f"{d.name}+{t}:" for t in registry.DIAL.get(d.name, ())],
        }
        for d in registry.dialects().values()
    ]  # fmt: skip
    if as_json:
        typer.echo(msgspec.json.encode(rows).decode())
        return
    table = Table("dialect", "generations", "clients connect to", "backends are dialled at")
    for row in rows:
        table.add_row(
            str(row["dialect"]), *(", ".join(row[key]) or "-" for key in ("generations", "listen", "connect"))
        )
    Console().print(table)


@app.command(epilog="Example: dragoman matrix --from smooth --to pod")
def matrix(
    as_json: AsJson = False,
    source: Annotated[str, typer.Option("--from", metavar="DIALECT", help="Only what this dialect says.")] = "",
    target: Annotated[str, typer.Option("--to", metavar="DIALECT", help="Only what is said to this one.")] = "",
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As docs/fidelity.md.")] = False,
) -> None:
    """Show what becomes of each kind of event and command between every two dialects.

    With --from and --to both, also what gets lost, or how it arrives. --json is one array of cells.
    """
    if as_json and as_markdown:
        raise ConfigError("--json and --markdown exclude each other: write one of them")
    for name in filter(None, (source, target)):
        registry.dialect(name)
    cells = [
        cell
        for cell in fidelity.matrix(list(registry.dialects().values()))
        if source in ("", cell.source) and target in ("", cell.target)
    ]
    if as_json:
        typer.echo(msgspec.json.encode(cells).decode())
    elif as_markdown:
        typer.echo(markdown(cells), nl=False)
    else:
        show(cells, Console())
