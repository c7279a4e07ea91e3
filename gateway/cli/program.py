"""The program: its table of commands, what an error of each kind looks like, and the exit code.

The exit code is 0 for success, 1 if the work failed, 2 for bad usage, configuration or file, or a full disk. If the
reader of the output closes it, the exit code is that of a program that SIGPIPE ended. With `--json` an error is also
JSON on stdout.

A command's module is imported when the command is used, so that `--help` and `--version` load neither the gateway nor
its libraries. The module has the command's name. It holds a function of the same name, whose docstring is the help, and
its EXAMPLES. The summaries in `--help` are repeated here; a test compares them with the docstrings.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from types import ModuleType
from typing import Annotated, Any, TextIO, cast

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from dragoman import __version__
from dragoman.gateway.cli.plain_values import convert_plainly, show_plainly
from dragoman.mappings.errors import ConfigError, DragomanError

COMMANDS: dict[str, tuple[str, str]] = {
    "bridge": ("Run", "Connect clients of one dialect to a backend of another, without a configuration file."),
    "serve": ("Run", "Run the gateway with a configuration file; `dragoman config example` shows every key of it."),
    "check": ("Run", "Report every error in a configuration file, each with its line and key."),
    "translate": ("Run", "Translate frames from one dialect to another, one frame a line."),
    "status": ("Operate", "Show whether a running gateway is ready for clients, and list its routes."),
    "sessions": (
        "Operate",
        "List the sessions of a running gateway, show one with its clients, close it, or disconnect its clients.",
    ),
    "show": ("Recordings", "Show a recording: who said what when, with tools, questions and losses."),
    "diff": ("Recordings", "Compare two recordings: input, text, tools, questions, answers and ends, turn by turn."),
    "replay": ("Recordings", "Serve a recording as a backend, in any dialect."),
    "drive": ("Recordings", "Send the recorded inputs to a live backend, and compare its answers with the recording."),
    "export": ("Recordings", "Make one HTML page of a recording, or CloudEvents as JSON lines."),
    "import": (
        "Recordings",
        "Make a recording from a capture: the frames of a conversation, stored by another tool.",
    ),
    "redact": ("Recordings", "Remove the secrets from a recording."),
    "scan": ("Recordings", "Look for secrets in recordings; exits 1 if there are any."),
    "matrix": ("Reference", "Show how each kind of event and command is translated between every two dialects."),
    "schema": (
        "Reference",
        "Print the JSON Schema of the canonical events and commands, or of the configuration file.",
    ),
    "config": ("Reference", "Print the example of a configuration file, or a configuration with all defaults."),
    "docs": ("Reference", "List the documents that are installed with dragoman, or print one."),
    "dialects": ("Reference", "List the dialects, and the endpoints that each can listen on or connect to."),
    "demo": (
        "Try",
        "Show clients of all four dialects talking to one backend through the gateway; no agent is needed.",
    ),
    "send": ("Try", "Send one input to a backend in a new session, and print the answer as it streams."),
    "chat": ("Try", "Talk to a backend in the terminal."),
    "demo-backend": ("Try", "Serve a scripted backend, to try dragoman without an agent."),
}
"""Command -> its panel in `dragoman --help` and its summary, in the order of the help."""


QUICK = frozenset({"bridge", "serve", "replay", "demo-backend", "send", "chat"})
"""The commands that run a gateway, and start with no more than they need."""

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
CLOSED = 128 + signal.SIGPIPE
"""The exit code if the reader of the output has closed it, as a shell reports it for other tools."""


def load() -> None:
    """Import the module of the command that the arguments name, if any."""
    name = next(iter(sys.argv[1:]), "")
    if name in QUICK:
        from dragoman.gateway.cli import quick_start  # not needed for `--help` and `--version`

        quick_start.begin()
    if name in COMMANDS:
        _import_module(name)


def _import_module(name: str) -> ModuleType:
    member = "import_" if name == "import" else name.replace("-", "_")  # `import` cannot name a function
    return import_module(f"dragoman.gateway.cli.{member}")


def load_command(name: str) -> TyperCommand:
    """Import the module of a command and return the command with its options and examples."""
    module = _import_module(name)
    function = getattr(module, module.__name__.rpartition(".")[2])
    paragraphs = [" ".join(paragraph.split()) for paragraph in (function.__doc__ or "").split("\n\n")]
    single = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    examples = "\n\n".join(f"Example: {example}" for example in module.EXAMPLES)
    single.command(name, help="\n\n".join(paragraphs), epilog=examples)(function)
    return cast(TyperCommand, typer.main.get_command(single))  # an app with one command is that command


class LazyCommands(TyperGroup):
    """The commands of COMMANDS, each imported when it is used."""

    def __init__(self, **attributes: Any) -> None:
        attributes["commands"] = {
            name: TyperCommand(name, help=summary, rich_help_panel=panel) for name, (panel, summary) in COMMANDS.items()
        }
        super().__init__(**attributes)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name, with its module imported."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name is not None else None, rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command. If a signal ends a command with `--json`, print an error as its JSON value."""
        if not _wants_json():
            return super().invoke(ctx)
        from dragoman.gateway.process.signals import KILLED, Interrupted, raising_on_signals

        with raising_on_signals():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as error:
                number = error.number if isinstance(error, Interrupted) else signal.SIGINT
                raise typer.Exit(_fail("interrupted", KILLED + number)) from None


def _wants_json() -> bool:
    return "--json" in takewhile("--".__ne__, sys.argv)


convert_plainly()
show_plainly()

app = typer.Typer(
    name="dragoman",
    cls=LazyCommands,
    help="A gateway and translator between AI-agent clients and backends that speak different wire dialects.",
    epilog="First try: dragoman demo\n\nExit codes: 0 success, 1 the work failed, 2 bad usage, configuration or file.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line in this process; each of our errors is one line on stderr that says what to do."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # JSON is UTF-8 everywhere; input and output may hold any character
            errors = "surrogateescape" if stream is sys.stdin else "backslashreplace"
            stream.reconfigure(encoding="utf-8", errors=errors)
    if not os.environ.get("COLUMNS", "").strip("0"):  # a width of 0 is an unknown one: rich would print nothing
        os.environ.pop("COLUMNS", None)
    outputs = (sys.stdout, sys.stderr)  # typer replaces a stream whose reader is gone, and the new one reports no error
    code = _run()
    failed = [_flush(stream) for stream in outputs]
    sys.exit(code or max(failed))


def _run() -> int:
    try:
        code: Any = app(prog_name="dragoman", standalone_mode=False)
    except ConfigError as error:
        return _fail(str(error), 2, in_result=error.in_result)
    except BrokenPipeError:
        return CLOSED
    except SystemExit as error:  # raised by typer and rich: status 1 if the reader of our output closed it
        return CLOSED if error.code == 1 else int(error.code or 0)
    except DragomanError as error:
        return _fail(str(error), 1, in_result=error.in_result)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else "cannot write: " if error.errno in FULL else ""
        is_permanent = error.errno in (errno.EACCES, *FULL) or (error.filename and error.errno != errno.EADDRINUSE)
        words = error.strerror or str(error) or "no answer in time"  # a TimeoutError of asyncio has no words
        return _fail(f"{what}{words}", 2 if is_permanent else 1)
    except UnicodeEncodeError as error:
        return _fail(f"{error.object}: this locale cannot encode the name of a file; set LC_ALL=C.UTF-8", 2)
    except typer.Abort:
        return 130
    except TyperException as error:
        return _misused(error)
    return code if isinstance(code, int) else 0  # a command's typer.Exit comes back as its number


def _fail(words: str, code: int, *, in_result: bool = False) -> int:
    """Print an error and return the exit code.

    With `--json`, print it as JSON too, unless a printed result contains it (`in_result`).
    """
    from dragoman.gateway.observability import logs

    words = logs.escaped(words)  # the text may quote a peer, or a file name that is not UTF-8
    for line in words.split("\n"):
        logs.write_line(f"error: {line}", sys.stderr)
    if _wants_json() and not in_result:
        import msgspec  # not needed for other errors of usage

        with contextlib.suppress(OSError):  # the reader has closed it, or the disk is full
            typer.echo(msgspec.json.encode({"error": words}))
    return code


def _misused(error: TyperException) -> int:
    """Report bad usage in one line. The error has no text if there was no argument at all: then typer has printed the
    help.

    For an unknown option that resembles no other one, the line has the usage: the value may be an argument.
    """
    words = " ".join(error.format_message().replace("Value error, ", "").split())
    if not words:  # the help was printed instead
        return 2
    context = getattr(error, "ctx", None)
    where, usage = "dragoman", ""
    if context is not None:
        where = context.command_path
        if getattr(error, "possibilities", None) == []:
            usage = f"usage: {where} {' '.join(context.command.collect_usage_pieces(context))}; "
    return _fail(f"{words.removesuffix('.')} ({usage}{where} --help says more)", 2)


def _flush(stream: TextIO) -> int:
    """Flush a stream and return the exit code for it: 0 if that worked.

    A stream without a reader is redirected to /dev/null, or Python would report an error when it exits.
    """
    try:
        stream.flush()
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return CLOSED if getattr(error, "errno", 0) == errno.EPIPE else 2
    return 0
