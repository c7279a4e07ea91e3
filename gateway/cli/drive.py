"""`dragoman drive`: send the inputs of a recording to a live backend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from dragoman.gateway.cli.diff import print_differences
from dragoman.gateway.cli.options import AsJson, Deadline, LogJson, LogLevel, RecordingFile
from dragoman.gateway.cli.output import print_json
from dragoman.gateway.cli.recordings import report_problems, steps
from dragoman.gateway.cli.running import set_up
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.printable import counted, printable
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.replay.driving import DEADLINE, Driven
from dragoman.gateway.replay.plan import read_plan
from dragoman.gateway.replay.standalone import drive as drive_plan

EXAMPLES = (
    "dragoman drive session.jsonl pod+unix:/run/user/1000/insomnia/atlas/sock",
    "dragoman drive session.jsonl smooth+ws://127.0.0.1:8787/ws --json",
)


def drive(
    file: RecordingFile,
    upstream: Annotated[str, typer.Argument(metavar="UPSTREAM", help="The live backend, in any dialect.")],
    deadline: Deadline = DEADLINE,
    ignore_inexpressible: Annotated[
        bool,
        typer.Option("--ignore-inexpressible", help="Do not compare what one of the two dialects cannot express."),
    ] = False,
    as_json: AsJson = False,
    log_level: LogLevel = "error",
    log_json: LogJson = False,
) -> None:
    """Send the recorded inputs to a live backend, and compare its answers with the recording.

    Sends inputs, cancels and answers to questions in their order. Compares as `dragoman diff` does: what is missing has
    -, what is new has +. Exits 0 if everything is the same, 1 if it differs, 2 if nothing could be compared: the
    recording has no turn, or the backend cannot be reached. --json prints {turns, differences: [{turn, what, a, b}],
    refusals, ignored}.
    """
    set_up(log_level, log_json)
    plan, backend = read_plan(open_recording(file)), parse(upstream)
    report_problems(plan.recording)
    with steps(file.name, len(plan.inputs)) as progress:
        driven = drive_plan(
            plan, backend, deadline=deadline, progress=progress, ignore_inexpressible=ignore_inexpressible
        )
    if as_json:
        print_json(driven)
    else:
        _print(driven, file, backend)
    raise typer.Exit(0 if driven.same else 1)


def _print(driven: Driven, file: Path, backend: Endpoint) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for refusal in driven.refusals:
        console.print(Text(printable(refusal), style="yellow"))
    if driven.ignored:
        console.print(Text(f"not compared: {', '.join(driven.ignored)}", style="yellow"))
    print_differences(console, driven.differences)
    if driven.same:
        console.print(Text(f"{counted(driven.turns, 'turn')}, the same as in {file}", style="green"))
    else:
        console.print(Text(f"- {file}\n+ {backend.masked}", style="dim"))
