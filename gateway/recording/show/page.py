"""A recording as one HTML page without external resources, which also works from file://.

First comes a table of the turns, then the transcript, then the wire: the frames of the backend, the canonical items,
and the frames of the clients. The page is page.html with page.css and page.js inside.

All text of peers is escaped. The page's content security policy allows only its own style and script, by their hashes,
and the script can make no markup of text. The pieces of a fold are compressed; the script unpacks them.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template

import msgspec

from dragoman.gateway import registry
from dragoman.gateway.recording.format import UP, EventLine, FrameLine, Line, Part
from dragoman.gateway.recording.printable import printable, sample
from dragoman.gateway.recording.reader import Reader
from dragoman.gateway.recording.show.projected import Losses, find_losses
from dragoman.gateway.recording.show.transcript import HIDDEN, KINDS, TranscriptEntry, kind_of, transcript
from dragoman.gateway.recording.show.turns import TurnFigures, shown_duration, turn_figures
from dragoman.gateway.recording.show.wire import WireRow, folded, label_of, wire_rows
from dragoman.mappings.dialect import Dialect

NAMED = frozenset({"tool", "result", "output", "error", "command", "reply", "loss"})
LARGE = 1 << 11  # characters: a longer text on the wire is compressed, because it stands there several times
SAMPLE = 120  # characters of an input in the table of turns, and of a frame in its summary
SECTION = re.compile(r"<!-- (turns|transcript|wire) -->\n")
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def page(recording: Reader, find_dialect: Callable[[str], Dialect] = registry.dialect) -> Iterator[str]:
    """Yield the page of a recording in pieces; the recording is read once for each part of the page."""
    losses = find_losses(recording.header.session, recording.lines(), find_dialect)
    turns = turn_figures(recording.lines(), losses)
    sections: dict[str, Callable[[], Iterator[str]]] = {
        "turns": lambda: _turns(turns),
        "transcript": lambda: _transcript(recording, turns, losses),
        "wire": lambda: (_row(row, losses) for row in wire_rows(recording.lines())),
    }
    for part in SECTION.split(_frame_of_page(recording)):
        if part in sections:
            yield from sections[part]()
        else:
            yield part


def _frame_of_page(recording: Reader) -> str:
    """Return the page with a comment in the position of each section."""
    header = recording.header
    html, style, script = (
        Path(__file__).with_name(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js")
    )
    title = f"Session {header.session}" if header.session else f"Route {header.route}"
    kinds = "".join(
        f'<button type="button" data-kind="{kind}" aria-pressed="false">{kind}</button>' for kind in (*KINDS, "frame")
    )
    policy = POLICY.format(script=_hash(script), style=_hash(style))
    # Text of a peer cannot look like the place of a section: escaped text has no "<".
    return Template(html).substitute(
        title=_text(title), about=_about(recording), kinds=kinds, policy=policy, style=style, script=script
    )


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _about(recording: Reader) -> str:
    header = recording.header
    facts = {
        "route": header.route,
        "backend": header.upstream,
        "dialects": ", ".join(f"{name}@{of}" if of else name for name, of in header.dialects.items()),
        "began": f"{header.began:%Y-%m-%d %H:%M:%S} UTC",
        "clients know it as": ", ".join(recording.shown_as),
        "not in it": ", ".join(gap.text for gap in recording.missing),
        "dragoman": header.gateway,
    }
    rows = "".join(f"<div><dt>{key}</dt><dd>{_text(value)}</dd></div>" for key, value in facts.items() if value)
    return f"<dl>{rows}</dl>"


# -- turns ---------------------------------------------------------------------------------------------------

TURNS_HEAD = """<div class="scroll" role="region" aria-labelledby="turns" tabindex="0"><table>
<thead><tr>{columns}</tr></thead><tbody>
"""
COLUMNS = {
    "turn": "",
    "input": "left",
    "began": "",
    "time": "left",
    "duration": "",
    "first token": "",
    "deltas": "",
    "tokens in": "",
    "tokens out": "",
    "tools": "",
    "lost": "",
    "end": "left",
}


def _turns(turns: Sequence[TurnFigures]) -> Iterator[str]:
    if not turns:
        yield '<p class="note">There is no turn in this recording.</p>\n'
        return
    columns = "".join(f'<th scope="col" class="{side}">{name}</th>' for name, side in COLUMNS.items())
    yield TURNS_HEAD.format(columns=columns.replace(' class=""', ""))
    longest = max((turn.duration or 0 for turn in turns), default=0) or 1
    for turn in turns:
        bad = "left bad" if turn.failure or turn.end in ("failed", "") else "left"
        lost = "bad" if turn.lost else ""
        end = _text(": ".join(filter(None, (turn.shown_end, turn.failure))))
        cells = (
            f'<td class="said">{_text(sample(turn.input, SAMPLE))}</td><td>{_clock(turn.t, 3)}</td>'
            f'<td class="plot">{_plot(turn, longest)}</td><td>{shown_duration(turn.duration)}</td>'
            f"<td>{shown_duration(turn.first_token)}</td><td>{turn.deltas:,}</td><td>{_number(turn.input_tokens)}</td>"
            f"<td>{_number(turn.output_tokens)}</td><td>{turn.tools}</td>"
            f'<td class="{lost}">{turn.lost}</td><td class="told {bad}">{end}</td>'
        )
        yield f'<tr><th scope="row"><a href="#turn-{turn.turn}">{turn.turn}</a></th>{cells}</tr>\n'
    yield '</tbody></table></div>\n<p class="note key"><i class="wait"></i>until the first token <i class="ran"></i>'
    yield "until the end</p>\n"


def _plot(turn: TurnFigures, longest: int) -> str:
    """Return a bar: until the first token, and from there to the end, in the scale of the longest turn."""
    if turn.duration is None:
        return ""
    wait = turn.duration if turn.first_token is None else min(turn.first_token, turn.duration)
    before, all_of_it = 100 * wait / longest, 100 * turn.duration / longest
    return (
        '<svg aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none"><rect class="track" width="100" '
        f'height="8"/><rect class="wait" width="{before:.2f}" height="8"/>'
        f'<rect class="ran" x="{before:.2f}" width="{all_of_it - before:.2f}" height="8"/></svg>'
    )


# -- transcript ----------------------------------------------------------------------------------------------


def _transcript(recording: Reader, turns: Sequence[TurnFigures], losses: Losses) -> Iterator[str]:
    shown = last = 0
    yield '<ol class="entries">\n'
    for entry in transcript(recording.lines(), recording.missing, losses):
        if entry.kind in HIDDEN:
            continue
        if entry.turn > shown:
            # A recording that is still written may have further turns by now.
            known = entry.turn <= len(turns)
            turn = turns[entry.turn - 1] if known else TurnFigures(turn=entry.turn, seq=entry.seq, t=entry.t)
            yield f'</ol>\n{"</section>" if shown else ""}{_turn_heading(turn)}<ol class="entries">\n'
            shown, last = entry.turn, 0
        yield _entry(entry, with_id=entry.seq != last)
        last = entry.seq
    yield "</ol>\n" + ("</section>\n" if shown else "")


def _turn_heading(turn: TurnFigures) -> str:
    facts = [
        turn.shown_end,
        shown_duration(turn.duration),
        f"first token after {shown_duration(turn.first_token)}" if turn.first_token is not None else "",
    ]
    title = f'<a href="#turn-{turn.turn}">Turn {turn.turn}</a> <small>{" · ".join(filter(None, facts))}</small>'
    return f'<section class="turn" aria-labelledby="turn-{turn.turn}"><h3 id="turn-{turn.turn}">{title}</h3>\n'


def _entry(entry: TranscriptEntry, *, with_id: bool) -> str:
    who = " ".join(filter(None, (entry.link, entry.name if entry.kind in NAMED else "")))
    name = f'<b class="name">{_text(who)}</b> ' if who and entry.kind in NAMED else ""
    mark = " <mark>redacted</mark>" if entry.redacted else ""
    own = f' id="e{entry.seq}"' if with_id else ""
    json = ' class="json"' if entry.text[:1] in ("{", "[") else ""
    kinds = f"{entry.kind} loss" if entry.lost else entry.kind
    return (
        f'<li class="entry {entry.kind}"{own} data-seq="{entry.seq}" data-kinds="{kinds}" tabindex="-1">'
        f'<a class="time" href="#l{entry.seq}" title="Show on the wire">{_clock(entry.t)}</a>'
        f'<span class="kind">{entry.kind}</span><div class="body">{name}{mark}<pre{json}>{_text(entry.text)}</pre>'
        f"{_lost(entry.lost)}</div>{COPY}</li>\n"
    )


COPY = '<button type="button" class="copy">Copy</button>'


def _lost(losses: Sequence[str]) -> str:
    return "".join(f'<p class="lost">{_text(loss)}</p>' for loss in losses)


# -- the wire ------------------------------------------------------------------------------------------------


def _row(row: WireRow, losses: Losses) -> str:
    lines = [line for column in row.columns for line in column]
    kinds: set[str] = {kind_of(line) for line in row.columns[1] if not isinstance(line, FrameLine)} or {"frame"}
    if any(line.seq in losses or (isinstance(line, FrameLine) and line.missing) for line in lines):
        kinds.add("loss")
    cells = "".join(
        f'<div role="cell" class="{name}">{"".join(_group(group, losses) for group in folded(column))}</div>'
        for name, column in zip(("backend", "canonical", "clients"), row.columns, strict=True)
    )
    first, last = row.first, max(line.seq for line in lines)
    time = f'<span role="cell"><a class="time" href="#l{first.seq}">{_clock(first.t)}</a></span>'
    about = f'data-last="{last}" data-kinds="{" ".join(sorted(kinds))}"'
    return f'<div class="row" role="row" {about} tabindex="-1">{time}{cells}</div>\n'


def _group(lines: Sequence[Line], losses: Losses) -> str:
    """Return lines that are shown as one, with what was lost of them."""
    lost = _lost(list(dict.fromkeys(loss for line in lines for loss in losses.get(line.seq, ()))))
    if len(lines) > 1:
        return f"{_fold(lines)}{lost}"
    (line,) = lines
    who = f'<span class="who">{_peers_of(line)}{_mark(lines)}</span>'
    if isinstance(line, FrameLine) and line.frame() is None:
        return f'<p class="gone" id="l{line.seq}">{who} {_text(line.missing or "taken out")}</p>'
    texts = _contents(line)
    if sum(map(len, texts)) > LARGE:
        return f"{_fold(lines)}{lost}"
    pres = "".join(f"<pre>{_text(text)}</pre>" for text in texts)
    return (
        f'<details class="line" id="l{line.seq}"><summary><b>{_text(label_of(line))}</b> {who} '
        f"<code>{_text(sample(' '.join(texts), SAMPLE))}</code></summary>{pres}</details>{lost}"
    )


def _fold(lines: Sequence[Line]) -> str:
    """Return alike lines, or a long one, as one row whose pieces are compressed."""
    pieces: list[tuple[int, int, str]] = []
    seq = t = 0
    for line in lines:
        pieces.append((line.seq - seq, line.t - t, printable(" ".join(_contents(line)))))
        seq, t = line.seq, line.t
    packed = b64encode(gzip.compress(msgspec.json.encode(pieces), 6, mtime=0)).decode()
    text = "".join(getattr(line.event, "text", "") or "" for line in lines if isinstance(line, EventLine))
    whole = f"<pre>{_text(text)}</pre>" if text and len(text) <= LARGE else ""
    first = lines[0]
    count = f' <span class="count">&times; {len(lines):,}</span>' if len(lines) > 1 else ""
    return (
        f'<details class="run" id="l{first.seq}" data-first="{first.seq}" data-last="{lines[-1].seq}" '
        f'data-pieces="{packed}"><summary><b>{_text(label_of(first))}</b>{count} <span class="who">{_peers_of(first)}'
        f"{_mark(lines)}</span> <code>{_text(sample(text or pieces[0][2], SAMPLE))}</code></summary>{whole}</details>"
    )


def _mark(lines: Sequence[Line]) -> str:
    return " <mark>redacted</mark>" if any(line.redacted for line in lines) else ""


def _contents(line: Line) -> list[str]:
    """Return the texts of a frame, or of an event or command as JSON."""
    if not isinstance(line, FrameLine):
        return [msgspec.json.encode(line.item).decode()]
    return [_written(part) for part in (line.parts if line.parts is not None else (line,))]


def _written(part: FrameLine | Part) -> str:
    return part.text if part.text is not None else f"base64 {b64encode(part.base64 or b'').decode()}"


def _peers_of(line: Line) -> str:
    """Return the peers of a frame or an item: a frame comes from one, an event of the log is for all."""
    if isinstance(line, FrameLine):
        return f"{'from' if line.dir == 'receive' else 'to'} {_named(line.link)}, {_text(line.dialect)}"
    if not line.link:
        return _text(line.cursor)
    if isinstance(line, EventLine):
        return f"told to {_named(line.link)}"
    return f"asked of {_named(UP)}" if line.link == UP else f"{_named(line.link)} asks"


def _named(link: str) -> str:
    return "the backend" if link == UP else _text(link)


# -- text ----------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Return text of a peer for the content of an element; attributes have none."""
    return escape(printable(text), quote=False)


def _clock(t: int, digits: int = 6) -> str:
    minutes, micros = divmod(t - t % 10 ** (6 - digits), 60_000_000)
    return f"{minutes}:{micros / 1e6:0{digits + 3}.{digits}f}"


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
