"""A recording on a terminal: entries, turns and sessions as lines of text, in colour if stdout is a terminal.

Nothing is cut to the width of the terminal, so that a pager, `grep` and a file get the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from dragoman.gateway.recording.printable import printable, sample
from dragoman.gateway.recording.reader import Reader, RecordedSession
from dragoman.gateway.recording.show.transcript import TranscriptEntry
from dragoman.gateway.recording.show.turns import TurnFigures, shown_duration

STYLES = {
    "input": "bold cyan",
    "text": "",
    "reasoning": "dim italic",
    "tool": "magenta",
    "output": "dim",
    "result": "green",
    "question": "bold yellow",
    "answer": "yellow",
    "end": "bold",
    "error": "red",
    "alert": "red",
    "loss": "bold red",
}
NAMED = frozenset({"tool", "result", "output", "command", "asked", "reply", "detail"})
SAMPLE = 60  # characters of an input in a list


def print_entries(recording: Reader, entries: Iterable[TranscriptEntry]) -> None:
    """Print a transcript, with a line about the session before it and a line before each turn."""
    console = _console()
    console.print(Text(_about(recording), style="dim"))
    shown = 0
    for entry in entries:
        if entry.turn > shown:
            shown = entry.turn
            console.print(Text(f"turn {shown}", style="bold dim"))
        console.print(_entry(entry))


def print_turns(recording: Reader, turns: Sequence[TurnFigures]) -> None:
    """Print a table of the turns, and a line about the session before it."""
    console = _console()
    console.print(Text(_about(recording), style="dim"))
    head = ("turn", "began", "duration", "first token", "deltas", "in", "out", "tools", "lost", "end", "input")
    rows = [head, *map(_figures, turns)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
    for number, row in enumerate(rows):
        cells = [
            cell.ljust(width) if head[column] == "end" else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        style = "bold dim" if number == 0 else "red" if row[-2].startswith("failed") else ""
        console.print(Text("  ".join([*cells, row[-1]]).rstrip(), style))


def print_sessions(sessions: Iterable[RecordedSession]) -> None:
    console = _console()
    for session in sessions:
        began = datetime.fromtimestamp(session.began / 1e9, UTC)
        console.print(
            Text.assemble(
                (f"{session.file}  ", "bold"),
                (f"{began:%Y-%m-%d %H:%M:%S}  {session.route}  ", "dim"),
                sample(printable(session.input), SAMPLE),
            )
        )
        if session.shown_as:
            console.print(Text(f"    clients know it as {', '.join(map(printable, session.shown_as))}", style="dim"))


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _about(recording: Reader) -> str:
    header = recording.header
    whose = f"session {header.session}" if header.session else "of no session"
    if recording.shown_as:
        whose += f" (clients know it as {', '.join(recording.shown_as)})"
    return printable(f"{whose}, route {header.route}, {header.upstream}, began {header.began:%Y-%m-%d %H:%M:%S} UTC")


def _entry(entry: TranscriptEntry) -> Text:
    style = STYLES.get(entry.kind, "dim")
    first, *more = printable(entry.text).strip().split("\n")
    name = entry.name if entry.kind in NAMED else ""
    who = "".join(f"{word} " for word in (entry.link, name) if word)
    mark = "  [redacted]" if entry.redacted else ""
    line = Text.assemble(
        (f"{_clock(entry.t):>12}  ", "dim"),
        (f"{entry.kind:<9} ", style or "bold"),
        (printable(who), "bold"),
        (first, style),
    )
    line.rstrip()
    for rest in more:
        line.append(f"\n{'':24}{rest}", style)
    line.append(mark, "dim")
    for lost in entry.lost:
        line.append(f"\n{'':24}lost: {printable(lost)}", "red")
    return line


def _figures(turn: TurnFigures) -> tuple[str, ...]:
    return (
        str(turn.turn),
        _clock(turn.t),
        shown_duration(turn.duration),
        shown_duration(turn.first_token),
        f"{turn.deltas:,}",
        "" if turn.input_tokens is None else f"{turn.input_tokens:,}",
        "" if turn.output_tokens is None else f"{turn.output_tokens:,}",
        str(turn.tools),
        str(turn.lost or ""),
        turn.shown_end,
        sample(printable(turn.input), SAMPLE),
    )


def _clock(t: int) -> str:
    minutes, ms = divmod(t // 1000, 60_000)
    hours, minutes = divmod(minutes, 60)
    clock = f"{ms / 1000:06.3f}"
    return f"{hours}:{minutes:02}:{clock}" if hours else f"{minutes}:{clock}"
