"""`dragoman show`: print a recording as a transcript, as a table of its turns, as JSON, or as frames of a dialect.

Lines are not cut to the width of the terminal: a pager, `grep` and a file get the same text. A file has no colours.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from dragoman.gateway import registry
from dragoman.gateway.cli.options import DURATION_MAX, AsJson
from dragoman.gateway.cli.recordings import reading
from dragoman.gateway.observability import logs
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.public_reason import full_reason
from dragoman.gateway.recording.format import Line, RecordingError
from dragoman.gateway.recording.printable import counted, printable, printable_json, sample
from dragoman.gateway.recording.reader import Reader, RecordedSession, about_no_session, open_recording, sessions_in
from dragoman.gateway.recording.show.projected import find_losses, projected
from dragoman.gateway.recording.show.transcript import HIDDEN, KINDS, TranscriptEntry, transcript
from dragoman.gateway.recording.show.turns import TurnFigures, shown_duration, turn_figures
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.errors import ConfigError

EXAMPLES = (
    "dragoman show atlas.jsonl",
    "dragoman show atlas.jsonl --turns",
    "dragoman show atlas.jsonl --kind tool --kind result --from 1:30",
    "dragoman show atlas.jsonl --as pod | jq .event",
)
MINUTES = 60  # of an hour, and seconds of a minute
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

CLOCK = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d+)?)s?")


def show(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A recording: its file or any part of it; or a folder of recordings.")
    ],
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help=f"Show only entries of this kind: {', '.join(KINDS)}."),
    ] = None,
    turn: Annotated[
        list[int] | None, typer.Option("--turn", metavar="N", help="Show only this turn; the first is 1.")
    ] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Show entries from this time on: 90, 1:30, or a clock time.")
    ] = "",
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="Show entries up to this time.")] = "",
    as_: Annotated[
        str, typer.Option("--as", metavar="DIALECT", help="Print the frames that a client of this dialect would get.")
    ] = "",
    turns: Annotated[
        bool, typer.Option("--turns", help="Print a table of the turns instead: durations, tokens, ends.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Also show details that are usually hidden.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a recording: who said what when, with tools, questions and losses.

    If FILE is a folder, it lists the sessions: file, start, route, first input, and the ids that clients show. --turns
    prints for each turn its duration, the time to its first token, its deltas and tokens, and its end. Repeat --kind
    and --turn to choose several. A time is seconds or M:SS since the recording began, or a clock time like
    2026-11-21T09:03:40Z. With --from and without --turn, turns are not numbered. --as prints frames as `dragoman
    translate` does. At the end it lists on stderr what the dialect cannot represent. If a client of that dialect was
    recorded, it did not get those messages either.
    """
    selects = any((as_, kind, turn, from_, to, every))
    if file.is_dir():
        if selects or turns:
            raise ConfigError(f"{file} is a folder, whose sessions are listed: name a file in it")
        _show_sessions(file, as_json=as_json)
        return
    recording = open_recording(file)
    if words := about_no_session(recording):
        logs.write_line(words, sys.stderr)
    if turns:
        if selects:
            raise ConfigError("--turns prints a table of all turns: use it with no other option than --json")
        _show_turns(recording, as_json=as_json)
        return
    dialect = _dialect(as_, kind, turn, other=every or as_json)
    wanted = _kinds(kind, every=every)
    begin, end = _period(from_, to, recording)
    with reading(recording):
        # Turns are counted from the start of the file, so --turn reads all of it.
        def read() -> Iterable[Line]:
            return recording.lines() if turn else takewhile(lambda line: line.t <= end, recording.lines(t=begin))

        if dialect is not None:
            _print_frames(dialect, recording, read())
            return
        losses = find_losses(recording.header.session, read(), registry.dialect)
        entries = _of_turns(transcript(read(), recording.missing, losses), turn or [])
        chosen = (e for e in entries if e.kind in wanted and begin <= e.t <= end)
        if begin and not turn:
            chosen = (msgspec.structs.replace(entry, turn=0) for entry in chosen)
        _print_json(chosen) if as_json else print_entries(recording, chosen)


def _show_sessions(folder: Path, *, as_json: bool) -> None:

    def report(error: Exception) -> None:
        logs.write_line(f"not listed: {logs.escaped(full_reason(error))}", sys.stderr)

    sessions = sessions_in(folder, report)
    if not sessions:
        raise RecordingError(f"{folder} holds no recording of a session")
    if as_json:
        _print_json(sessions)
    else:
        print_sessions(sessions)


def _show_turns(recording: Reader, *, as_json: bool) -> None:
    with reading(recording):
        losses = find_losses(recording.header.session, recording.lines(), registry.dialect)
        turns = turn_figures(recording.lines(), losses)
    _print_json(turns) if as_json else print_turns(recording, turns)


# -- what is read -----------------------------------------------------------------------------------------


def _of_turns(entries: Iterable[TranscriptEntry], turns: list[int]) -> Iterable[TranscriptEntry]:
    """Return the entries of these turns, or all if `turns` is empty; raise ConfigError if there is no such turn."""
    if not turns:
        return entries
    last = 0
    found = []
    for entry in entries:
        last = max(last, entry.turn)
        if entry.turn in turns:
            found.append(entry)
    for turn in turns:
        if not 1 <= turn <= last:
            raise ConfigError(f"--turn {turn}: the recording has {counted(last, 'turn')}, counted from 1")
    return found


def _kinds(kinds: list[str] | None, *, every: bool) -> frozenset[str]:
    unknown = sorted(set(kinds or ()) - set(KINDS))
    if unknown:
        raise ConfigError(f"--kind {unknown[0]!r}: write one of {', '.join(KINDS)}")
    if kinds:
        return frozenset(kinds)
    return frozenset(KINDS) - (frozenset() if every else HIDDEN)


def _dialect(name: str, kinds: list[str] | None, numbers: list[int] | None, *, other: bool) -> Dialect | None:
    if not name:
        return None
    if kinds or numbers or other:
        raise ConfigError("--as prints frames: use it with --from and --to, not with --kind, --turn, --all and --json")
    return registry.dialect(name)


def _period(begin: str, end: str, recording: Reader) -> tuple[int, float]:
    """Return the first and last time (µs) that are shown; raise ConfigError if the last is before the first."""
    first = _time(begin, recording)
    last = max(1, _time(end, recording)) if end else inf
    if last < first:
        raise ConfigError(f"--to {end} is before --from {begin}")
    return first, last


def _time(text: str, recording: Reader) -> int:
    """Return a time of the recording in µs; 0 if the text is empty."""
    if not text:
        return 0
    match = CLOCK.fullmatch(text)
    if match is not None:
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        if (match[1] and minutes >= MINUTES) or (match[2] and seconds >= MINUTES):
            raise ConfigError(f"invalid time {text!r}: minutes and seconds after a colon are below {MINUTES}")
        duration = hours * 3600 + minutes * 60 + seconds
        if duration > DURATION_MAX:
            raise ConfigError(f"invalid time {text!r}: write at most {DURATION_MAX} seconds")
        return int(duration * 1e6)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"invalid time {text!r}: write seconds, M:SS, or 2026-11-21T09:03:40Z") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(1, int(moment.timestamp() * 1e6) - recording.header.started_at // 1000)


# -- how it is printed -------------------------------------------------------------------------------------------------


def _print_json(entries: Iterable[msgspec.Struct]) -> None:
    before = "["
    for entry in entries:
        sys.stdout.write(f"{before}{printable_json(entry)}")
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[" else "]\n")


def _print_frames(dialect: Dialect, recording: Reader, lines: Iterable[Line]) -> None:
    ledger = Ledger()
    write = dialect.events.lines.write if dialect.events.lines is not None else lambda frame: frame
    for rendered in projected(dialect, recording.header.session, lines):
        for frame in rendered.frames:
            sys.stdout.buffer.write(write(frame) + b"\n")
        ledger.record(rendered.losses, target=dialect.name)
    sys.stdout.flush()
    for entry in ledger.entries():
        logs.write_line(printable_json(entry), sys.stderr)


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
            console.print(Text(f"    clients know it as {', '.join(map(_on_one_line, session.shown_as))}", style="dim"))


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _about(recording: Reader) -> str:
    header = recording.header
    whose = f"session {header.session}" if header.session else "of no session"
    if recording.shown_as:
        whose += f" (clients know it as {', '.join(recording.shown_as)})"
    return _on_one_line(f"{whose}, route {header.route}, {header.upstream}, began {header.began:%Y-%m-%d %H:%M:%S} UTC")


def _on_one_line(name: str) -> str:
    """Return a name that a peer chose: it must not look like further entries."""
    return printable(name).replace("\n", "\\n")


def _entry(entry: TranscriptEntry) -> Text:
    style = STYLES.get(entry.kind, "dim")
    first, *more = printable(entry.text).strip().split("\n")
    name = entry.name if entry.kind in NAMED else ""
    who = "".join(f"{word} " for word in (entry.link, name) if word)
    mark = "  [redacted]" if entry.redacted else ""
    line = Text.assemble(
        (f"{_clock(entry.t):>12}  ", "dim"),
        (f"{entry.kind:<9} ", style or "bold"),
        (_on_one_line(who), "bold"),
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
