"""The program: its commands, what an error of each kind looks like, and the exit code (0 well, 1 the work failed, 2 bad
usage or configuration).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated, Any, TextIO

import typer
from typer.exceptions import TyperException

from dragoman import __version__
from dragoman.gateway import logs
from dragoman.gateway.cli import exporting, filtering, listing, recordings, redacting, replaying, serving
from dragoman.mappings.errors import ConfigError, DragomanError

__all__ = ["app", "main"]

app = typer.Typer(
    name="dragoman",
    help="A gateway and translator between AI-agent clients and backends that speak different wire dialects.",
    epilog="First try: dragoman demo\n\nExit codes: 0 well, 1 the work failed, 2 bad usage or configuration.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    add_completion=False,
)

COMMANDS: tuple[tuple[Callable[..., None], tuple[str, ...]], ...] = (
    (
        serving.bridge,
        (
            "dragoman bridge smooth+ws://127.0.0.1:8787/ws pod+unix:/run/user/1000/insomnia/atlas/sock",
            "dragoman bridge smooth+ws://127.0.0.1:0/ws pod+unix:/tmp/front.sock smooth+ws://127.0.0.1:8787/ws",
            "dragoman bridge smooth+ws://127.0.0.1:8787/ws pod+name:atlas --record atlas.jsonl",
            "dragoman bridge smooth+ws://127.0.0.1:8787/ws pod+name:atlas --record atlas.jsonl --no-redact",
        ),
    ),
    (serving.serve, ("dragoman serve --config config.toml   (config.example.toml shows every key)",)),
    (
        serving.check,
        ("dragoman check config.toml", "dragoman check config.toml --probe", "dragoman check config.toml --json"),
    ),
    (
        serving.demo_backend,
        (
            "dragoman demo-backend pod+unix:/tmp/demo.sock",
            "dragoman demo-backend smooth+ws://127.0.0.1:8787/ws --script turns.jsonl",
        ),
    ),
    (serving.demo, ("dragoman demo",)),
    (
        replaying.replay,
        (
            "dragoman replay session.jsonl --listen smooth+ws://127.0.0.1:8787/ws --speed instant",
            "dragoman replay session.jsonl --listen pod+unix:/tmp/replay.sock --auto --idle-cap 2",
            "dragoman replay session.jsonl --listen pod+unix:/tmp/replay.sock --until turn:2 --then pod+name:atlas",
            "dragoman replay session.jsonl --listen pod+unix:/tmp/replay.sock --mode spy --upstream pod+name:atlas",
        ),
    ),
    (
        replaying.drive,
        (
            "dragoman drive session.jsonl pod+unix:/run/user/1000/insomnia/atlas/sock",
            "dragoman drive session.jsonl smooth+ws://127.0.0.1:8787/ws --json",
        ),
    ),
    (
        filtering.translate,
        (
            "dragoman translate --from pod --to smooth < events.jsonl",
            "dragoman translate --from smooth --to pod --commands < actions.jsonl",
        ),
    ),
    (
        recordings.show,
        (
            "dragoman show atlas.jsonl",
            "dragoman show atlas.jsonl --kind tool --kind result --from 1:30",
            "dragoman show atlas.jsonl --as pod | jq .event",
        ),
    ),
    (recordings.diff, ("dragoman diff before.jsonl after.jsonl",)),
    (
        exporting.export,
        ("dragoman export atlas.jsonl", "dragoman export atlas.jsonl --format cloudevents -o - | head"),
    ),
    (exporting.import_, ("dragoman import capture.jsonl --dialect smooth -o atlas.jsonl",)),
    (
        redacting.redact,
        (
            "dragoman redact atlas.jsonl",
            "dragoman redact atlas.jsonl.zst -o clean.jsonl --config config.toml",
        ),
    ),
    (redacting.scan, ("dragoman scan recordings/*.jsonl", "dragoman scan atlas.jsonl --json")),
    (listing.matrix, ("dragoman matrix --from smooth --to pod", "dragoman matrix --json")),
    (
        listing.schema,
        ("dragoman schema events > events.schema.json", "dragoman schema config > config.schema.json"),
    ),
    (listing.dialects, ("dragoman dialects --json",)),
)
"""The commands in the order of the help, each with its examples."""


def _paragraphs(text: str) -> str:
    """A docstring to be wrapped anew: its line breaks are those of the source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


for command, examples in COMMANDS:
    app.command(
        command.__name__.rstrip("_").replace("_", "-"),
        help=_paragraphs(command.__doc__ or ""),
        epilog="\n\n".join(f"Example: {example}" for example in examples),
    )(command)


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
    """Run the command line; errors of ours are a line each on stderr that says what to do."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what is shown may hold any character, JSON is UTF-8 everywhere
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    code = _run()
    whole = [_written_out(stream) for stream in (sys.stdout, sys.stderr)]
    sys.exit(code if all(whole) else code or 1)


def _run() -> int:
    try:
        code: Any = app(prog_name="dragoman", standalone_mode=False)
    except ConfigError as error:
        return _fail(str(error), 2)
    except BrokenPipeError:
        return 1  # whoever read our output has enough of it
    except DragomanError as error:
        return _fail(str(error), 1)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return _fail(f"{what}{error.strerror or error}", 1)
    except typer.Abort:
        return 130
    except TyperException as error:
        return _misused(error)
    return code if isinstance(code, int) else 0  # what a command raises as typer.Exit comes back as its number


def _fail(words: str, code: int) -> int:
    for line in words.split("\n"):
        logs.tell(f"error: {logs.escaped(line)}", sys.stderr)  # it may quote a peer
    return code


def _misused(error: TyperException) -> int:
    """Bad usage is one line; asked for nothing, the program shows its help."""
    words = error.format_message().replace("Value error, ", "")
    if "\n" in words:
        logs.tell(words, sys.stderr)
        return 2
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "dragoman"
    return _fail(f"{words.removesuffix('.')} ({where} --help says more)", 2)


def _written_out(stream: TextIO | None) -> bool:
    """Write out what a stream still holds; one that nobody reads is closed for good, or Python complains at the end."""
    if stream is None:
        return True
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True
