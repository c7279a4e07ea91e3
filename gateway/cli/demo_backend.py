"""`dragoman demo-backend`: a scripted backend in any dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.gateway.cli.options import LogJson, LogLevel
from dragoman.gateway.cli.running import run, serve_until_signalled, set_up
from dragoman.gateway.demo.backend import demo_backend as make_demo_backend
from dragoman.gateway.demo.script import load as load_script
from dragoman.gateway.endpoint import parse

EXAMPLES = (
    "dragoman demo-backend pod+unix:/tmp/demo.sock",
    "dragoman demo-backend smooth+ws://127.0.0.1:8787/ws --script turns.jsonl",
)


def demo_backend(
    endpoint: Annotated[
        str, typer.Argument(metavar="ENDPOINT", help="Where to listen, for example pod+unix:/tmp/demo.sock")
    ],
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="Answer every input from this script.")
    ] = None,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Serve a scripted backend, to try dragoman without an agent.

    It answers each input with the next turn of a conversation with thinking, a tool call and streamed text. The first
    word of an input selects another answer:

    `fail`, `retry`, `limit`: an error. `approve`: a question before it writes. `form`: a question for a name.
    `slow`: a minute of text, to cancel. `wait`: a minute of silence. `count N`: N tokens at full speed.

    A script has one canonical event a line as JSON (`dragoman schema events`), with an optional `delay_ms`. A
    `turn_ended` line ends a turn, and the next input gets the next turn. A question pauses its turn until it is
    answered. A line after it with `"when": "approved"`, denied, submitted or declined is used for that answer only.
    """
    set_up(log_level, log_json)
    turns = load_script(script) if script is not None else []
    run(serve_until_signalled(make_demo_backend(parse(endpoint), turns)))
