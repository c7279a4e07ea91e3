"""`dragoman diff`: compare two recordings turn by turn."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.console import Console
from rich.text import Text

from dragoman.gateway.cli.options import AsJson, RecordingFile
from dragoman.gateway.cli.output import print_json
from dragoman.gateway.cli.recordings import reading
from dragoman.gateway.recording.printable import printable
from dragoman.gateway.recording.reader import Reader, open_recording
from dragoman.gateway.recording.show.compare import Difference, compare, turns

EXAMPLES = ("dragoman diff before.jsonl after.jsonl",)


def diff(a: RecordingFile, b: RecordingFile, as_json: AsJson = False) -> None:
    """Compare two recordings: input, text, tools, questions, answers and ends, turn by turn.

    Turns with the same input are compared. Ids, times and the boundaries of tokens are ignored. Exits 0 if the
    recordings are the same, 1 if they differ, 2 if one cannot be read.
    --json prints an array of {turn, what, a, b}.
    """
    one, other = open_recording(a), open_recording(b)
    with reading(one, other):
        differences = compare(turns(one.events()), turns(other.events()))
    if as_json:
        print_json(differences)
    else:
        _print(one, other, differences)
    raise typer.Exit(1 if differences else 0)


def _print(a: Reader, b: Reader, differences: Sequence[Difference]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not differences:
        console.print(Text("the same conversation", style="green"))
        return
    console.print(Text(f"--- {a.path}", style="red"))
    console.print(Text(f"+++ {b.path}", style="green"))
    print_differences(console, differences)


def print_differences(console: Console, differences: Sequence[Difference]) -> None:
    """Print each difference: its title, what is missing in red, and what is new in green."""
    styles = {"-": "red", "+": "green"}
    for difference in differences:
        for line in printable(str(difference)).split("\n"):
            console.print(Text(line, style=styles.get(line[:1], "bold")))
