"""A recording as one HTML page without scripts or external resources, which also works from file://.

First comes the transcript, then the wire: the frames of the backend, the canonical items, and the frames of the
clients. One row holds a received frame, its events, and the frames sent for them. All text of peers is escaped, and
the page's content security policy forbids to load or run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape

import msgspec

from dragoman.gateway.recording.lines import UP, EventLine, FrameLine, Line
from dragoman.gateway.recording.printable import printable
from dragoman.gateway.recording.reader import Reader
from dragoman.gateway.recording.show.transcript import TranscriptEntry, transcript

__all__ = ["page"]

TOGETHER = 5_000  # µs between the first and the last frame of one row
HIDDEN = frozenset({"detail", "asked"})  # entries that the wire shows better

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 110rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; }
dt { opacity: .7; } dd { margin: 0; overflow-wrap: anywhere; }
.entry { display: grid; grid-template-columns: 7rem 6rem 1fr; gap: 0 .8rem; padding: .25rem .4rem; }
.entry { align-items: baseline; }
.entry pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; }
.entry pre { unicode-bidi: plaintext; text-align: start; }
.entry.tool pre, .entry.result pre, .entry.output pre, .entry.error pre { font: 13px/1.45 ui-monospace, monospace; }
.result pre, .output pre, td pre { max-height: 24rem; overflow: auto; } .result b, .output b { display: block; }
.time, .kind { opacity: .65; font-variant-numeric: tabular-nums; } .time a { color: inherit; text-decoration: none; }
.input { background: #48f2; } .question, .answer { background: #fb03; } .error, .loss, .alert { background: #f443; }
.reasoning pre { font-style: italic; opacity: .75; }
.end { border-bottom: 1px solid var(--line); margin-bottom: .8rem; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; } col.t { width: 7rem; }
th { text-align: left; position: sticky; top: 0; background: Canvas; padding: .2rem .4rem; }
td { border-top: 1px solid var(--line); vertical-align: top; padding: .2rem .4rem; }
td pre { margin: 0 0 .2rem; white-space: pre-wrap; overflow-wrap: anywhere; font: 12px/1.4 ui-monospace, monospace; }
td b { font: 11px/1.6 system-ui, sans-serif; opacity: .65; display: block; scroll-margin-top: 3rem; }
b:target { opacity: 1; outline: 2px solid #48f; } .gone { opacity: .6; font-style: italic; }
td.event { background: var(--soft); } mark { background: #fb05; color: inherit; border-radius: .2rem; }
@media (max-width: 50rem) {
  .entry { grid-template-columns: max-content 1fr; } .entry pre { grid-column: 1 / -1; }
  thead { display: none; } table, tbody, tr, td { display: block; } td { border: 0; } td:empty { display: none; }
  tr { border-top: 1px solid var(--line); }
}
""".strip()

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer">
<title>{title}</title><style>
{style}
</style></head><body>
<h1>{title}</h1>
"""

WIRE = """<h2 id="wire">The wire</h2>
<table><colgroup><col class="t"><col><col><col></colgroup>
<thead><tr><th>time</th><th>backend</th><th>canonical</th><th>clients</th></tr></thead><tbody>
"""


def page(recording: Reader) -> Iterator[str]:
    """Yield the page of a recording in pieces; the recording is read twice, once for each part of the page."""
    header = recording.header
    title = f"Session {header.session}" if header.session else f"Route {header.route}"
    yield HEAD.format(title=_text(title), style=STYLE)
    yield _about(recording)
    yield '<p><a href="#wire">The frames on the wires</a></p>\n<h2>Transcript</h2>\n'
    for entry in transcript(recording.lines(), recording.missing):
        if entry.kind not in HIDDEN:
            yield _entry(entry)
    yield WIRE
    for row in _rows(recording.lines()):
        yield _row(row)
    yield "</tbody></table>\n</body></html>\n"


def _about(recording: Reader) -> str:
    header = recording.header
    began = datetime.fromtimestamp(header.started_at / 1e9, UTC)
    told = {
        "route": header.route,
        "backend": header.upstream,
        "dialects": ", ".join(f"{name}@{of}" if of else name for name, of in header.dialects.items()),
        "began": f"{began:%Y-%m-%d %H:%M:%S} UTC",
        "not in it": ", ".join(gap.text for gap in recording.missing),
        "dragoman": header.gateway,
    }
    rows = "".join(f"<dt>{key}</dt><dd>{_text(value)}</dd>" for key, value in told.items() if value)
    return f"<dl>{rows}</dl>\n"


def _entry(entry: TranscriptEntry) -> str:
    name = f"<b>{_text(' '.join(filter(None, (entry.link, entry.name))))} </b>" if entry.link or entry.name else ""
    mark = " <mark>redacted</mark>" if entry.redacted else ""
    shown = name if entry.kind in ("tool", "result", "output", "error", "command", "reply", "loss") else ""
    return (
        f'<div class="entry {entry.kind}"><span class="time"><a href="#l{entry.seq}">{_clock(entry.t)}</a></span>'
        f'<span class="kind">{entry.kind}</span><pre>{shown}{_text(entry.text)}{mark}</pre></div>\n'
    )


# -- the wire ------------------------------------------------------------------------------------------------

BACKEND, CANONICAL, CLIENTS = range(3)


class _Row:
    """One row of the wire table: the lines of each column."""

    def __init__(self, first: Line) -> None:
        self.first = first
        self.columns: tuple[list[Line], list[Line], list[Line]] = ([], [], [])


def _rows(lines: Iterable[Line]) -> Iterator[_Row]:
    row: _Row | None = None
    for line in lines:
        if row is not None and _begins(line, row):
            yield row
            row = None
        if row is None:
            row = _Row(line)
        row.columns[_column(line)].append(line)
    if row is not None:
        yield row


def _begins(line: Line, row: _Row) -> bool:
    """Return True if a received frame begins a new row; frames that one read returned share a row."""
    if line.t - row.first.t > TOGETHER:
        return True
    if not isinstance(line, FrameLine) or line.dir != "receive":
        return False
    column = _column(line)
    only = all(not lines for number, lines in enumerate(row.columns) if number != column)
    return not (only and line.t == row.first.t)


def _column(line: Line) -> int:
    if isinstance(line, EventLine):
        return CANONICAL
    return BACKEND if line.upstream else CLIENTS


def _row(row: _Row) -> str:
    kinds = ("", ' class="event"', "")
    cells = "".join(
        f"<td{kind}>{''.join(map(_line, lines))}</td>" for kind, lines in zip(kinds, row.columns, strict=True)
    )
    return f'<tr><td class="time">{_clock(row.first.t)}</td>{cells}</tr>\n'


def _line(line: Line) -> str:
    mark = " <mark>redacted</mark>" if line.redacted else ""
    if isinstance(line, FrameLine):
        way = "from" if line.dir == "receive" else "to"
        return f'<b id="l{line.seq}">{way} {_named(line.link)}, {_text(line.dialect)}{mark}</b>{_frame(line)}'
    item = line.event if line.event is not None else line.command
    return f'<b id="l{line.seq}">{_who(line)}{mark}</b><pre>{_text(msgspec.json.encode(item).decode())}</pre>'


def _who(line: EventLine) -> str:
    if not line.link:
        return _text(line.cursor)
    if line.event is not None:
        return f"told to {_named(line.link)}"
    return f"asked of {_named(UP)}" if line.link == UP else f"{_named(line.link)} asks"


def _named(link: str) -> str:
    return "the backend" if link == UP else _text(link)


def _frame(line: FrameLine) -> str:
    if line.text is not None:
        return f"<pre>{_text(line.text)}</pre>"
    if line.base64 is not None:
        return f"<pre>base64 {_text(line.base64)}</pre>"
    if line.parts is not None:
        parts = (part.text if part.text is not None else f"base64 {part.base64}" for part in line.parts)
        return "".join(f"<pre>{_text(part)}</pre>" for part in parts)
    return f'<pre class="gone">{_text(line.missing or "taken out")}</pre>'


def _text(text: str) -> str:
    return escape(printable(text), quote=True)


def _clock(t: int) -> str:
    minutes, seconds = divmod(t / 1e6, 60)
    return f"{int(minutes)}:{seconds:09.6f}"
