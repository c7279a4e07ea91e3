"""Commands that read recordings: show, diff."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from dragoman.gateway import logs, registry
from dragoman.gateway.cli.progress import progress
from dragoman.gateway.cli.running import AsJson
from dragoman.gateway.ledger import Ledger
from dragoman.gateway.recording.compare import Difference, compared, turns
from dragoman.gateway.recording.lines import Line
from dragoman.gateway.recording.printable import printable
from dragoman.gateway.recording.projected import projected
from dragoman.gateway.recording.reader import Recording, open_recording
from dragoman.gateway.recording.transcript import KINDS, Entry, transcript
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.errors import ConfigError

__all__ = ["FILE", "diff", "opened", "show", "tell_problems"]

FILE = typer.Argument(metavar="FILE", help="A recording: its file, any part of it, or its folder.")

HIDDEN = frozenset({"detail", "asked"})
STYLES = {
    "input": "bold cyan", "text": "", "reasoning": "dim italic", "tool": "magenta", "output": "dim", "result": "green",
    "question": "bold yellow", "answer": "yellow", "end": "bold", "error": "red", "alert": "red", "loss": "bold red",
}  # fmt: skip
CLOCK = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d+)?)s?")


def show(
    file: Annotated[Path, FILE],
    kind: Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Only entries of this kind.")] = None,
    turn: Annotated[list[int] | None, typer.Option("--turn", metavar="N", help="Only this turn, from 1.")] = None,
    from_: Annotated[str, typer.Option("--from", metavar="TIME", help="From here: 90, 1:30, or a clock time.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="Up to here.")] = "",
    as_: Annotated[
        str, typer.Option("--as", metavar="DIALECT", help="The frames that a client of it would see, one a line.")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="Also what is of little interest.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a recording: who said what when, with tools, questions and losses.

    --kind and --turn may be given several times. Times are seconds or M:SS since the recording began, or like
    2026-11-21T09:03:40Z. With --from alone a long file is entered there, and its turns have no numbers. --as prints
    frames as `dragoman translate` does, and at the end on stderr what that dialect has no word for: which is also what
    a client of it that was recorded did not see.
    """
    recording = open_recording(file)
    dialect = _dialect(as_, kind, turn, other=every or as_json)
    wanted = _kinds(kind, every=every)
    begin = _time(from_, recording)
    end = max(1, _time(to, recording)) if to else 0
    with _reading(recording):
        # Turns are counted from the start, so only where nobody wants one by its number a long file is entered late.
        lines = _until(recording.lines(t=0 if turn else begin), end)
        if dialect is not None:
            _print_frames(dialect, recording, lines)
        else:
            entries = (
                entry for entry in transcript(lines, recording.missing) if entry.kind in wanted and entry.t >= begin
            )
            if turn:
                entries = (entry for entry in entries if entry.turn in turn)
            elif begin:
                entries = (msgspec.structs.replace(entry, turn=0) for entry in entries)
            _print_json(entries) if as_json else _print_entries(recording, entries)


def diff(
    a: Annotated[Path, FILE],
    b: Annotated[Path, FILE],
    as_json: AsJson = False,
) -> None:
    """Compare two recordings: input, text, tools, questions, answers and ends, turn by turn.

    Ids, times and the boundaries of tokens do not count. Exits 0 if they are the same, 1 if they differ. --json is an
    array of {turn, what, a, b}.
    """
    one, other = open_recording(a), open_recording(b)
    with _reading(one, other):
        differences = list(compared(turns(one.events()), turns(other.events())))
    if as_json:
        typer.echo(msgspec.json.encode(differences).decode())
    else:
        _print_differences(one, other, differences)
    raise typer.Exit(1 if differences else 0)


# -- how it is read -----------------------------------------------------------------------------------------


@contextmanager
def opened(file: Path) -> Iterator[Recording]:
    """A recording that is read with progress, and what of it could not be read on stderr."""
    recording = open_recording(file)
    with _reading(recording):
        yield recording


@contextmanager
def _reading(*recordings: Recording) -> Iterator[None]:
    """With the progress of all of them as one."""
    done = [0] * len(recordings)

    def told(number: int, bytes_read: int) -> None:
        done[number] = bytes_read
        all_done(sum(done))

    with progress(recordings[0].path.name, sum(recording.size for recording in recordings)) as all_done:
        for number, recording in enumerate(recordings):
            recording.progress = partial(told, number)
        yield
    for recording in recordings:
        tell_problems(recording)


def tell_problems(recording: Recording) -> None:
    """What of a recording could not be read."""
    if recording.problems:
        logs.tell(f"{recording.path}: {recording.problems}; the rest was read", sys.stderr)


def _until(lines: Iterable[Line], end: int) -> Iterator[Line]:
    for line in lines:
        if end and line.t > end:
            return
        yield line


def _kinds(kinds: list[str] | None, *, every: bool) -> frozenset[str]:
    unknown = sorted(set(kinds or ()) - set(KINDS))
    if unknown:
        raise ConfigError(f"--kind {unknown[0]!r}: there are {', '.join(KINDS)}")
    if kinds:
        return frozenset(kinds)
    return frozenset(KINDS) - (frozenset() if every else HIDDEN)


def _dialect(name: str, kinds: list[str] | None, numbers: list[int] | None, *, other: bool) -> Dialect | None:
    if not name:
        return None
    if kinds or numbers or other:
        raise ConfigError("--as prints frames: it goes with --from and --to, not with --kind, --turn, --all and --json")
    return registry.dialect(name)


def _time(text: str, recording: Recording) -> int:
    """A time of the recording in µs; 0 is none."""
    if not text:
        return 0
    match = CLOCK.fullmatch(text)
    if match is not None:
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return int((hours * 3600 + minutes * 60 + seconds) * 1e6)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no time: write seconds, M:SS, or 2026-11-21T09:03:40Z") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(1, int(moment.timestamp() * 1e6) - recording.header.started_at // 1000)


# -- how it is shown ------------------------------------------------------------------------------------------


def _print_entries(recording: Recording, entries: Iterable[Entry]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    header = recording.header
    whose = f"session {header.session}" if header.session else "of no session"
    began = datetime.fromtimestamp(header.started_at / 1e9, UTC)
    about = f"{whose}, route {header.route}, {header.upstream}, began {began:%Y-%m-%d %H:%M:%S} UTC"
    console.print(Text(printable(about), style="dim"))
    shown = 0
    for entry in entries:
        if entry.turn > shown:
            shown = entry.turn
            console.print(Text(f"turn {shown}", style="bold dim"))
        console.print(_line(entry))


def _line(entry: Entry) -> Text:
    style = STYLES.get(entry.kind, "dim")
    first, *more = printable(entry.text).split("\n")
    name = entry.name if entry.kind in ("tool", "result", "output", "command", "asked", "reply", "detail") else ""
    who = "".join(f"{word} " for word in (entry.link, name) if word)
    mark = "  [redacted]" if entry.redacted else ""
    line = Text.assemble(
        (f"{_clock(entry.t):>12}  ", "dim"), (f"{entry.kind:<9} ", style or "bold"),
        (printable(who), "bold"), (first, style),
    )  # fmt: skip
    line.rstrip()
    for rest in more:
        line.append(f"\n{'':24}{rest}", style)
    return line.append(mark, "dim")


def _clock(t: int) -> str:
    minutes, seconds = divmod(t / 1e6, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{seconds:06.3f}" if hours else f"{minutes}:{seconds:06.3f}"


def _print_json(entries: Iterable[Entry]) -> None:
    encoder = msgspec.json.Encoder()
    before = "["
    for entry in entries:
        sys.stdout.write(f"{before}{encoder.encode(entry).decode()}")
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[" else "]\n")


def _print_frames(dialect: Dialect, recording: Recording, lines: Iterable[Line]) -> None:
    ledger = Ledger()
    write = dialect.events.lines.write if dialect.events.lines is not None else lambda frame: frame
    for rendered in projected(dialect, recording.header.session, lines):
        for frame in rendered.frames:
            sys.stdout.buffer.write(write(frame) + b"\n")
        ledger.record(rendered.losses, target=dialect.name)
    sys.stdout.flush()
    for entry in ledger.entries():
        logs.tell(msgspec.json.encode(entry).decode(), sys.stderr)


def _print_differences(a: Recording, b: Recording, differences: list[Difference]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not differences:
        console.print(Text("the same conversation", style="green"))
        return
    console.print(Text(f"--- {a.path}", style="red"))
    console.print(Text(f"+++ {b.path}", style="green"))
    styles = {"-": "red", "+": "green"}
    for difference in differences:
        for line in printable(str(difference)).split("\n"):
            console.print(Text(line, style=styles.get(line[:1], "bold")))
