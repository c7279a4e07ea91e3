"""A recording as CloudEvents 1.0 in their JSON format, one per line.

Types are `dragoman.event.TYPE`, `dragoman.command.TYPE` and `dragoman.frame.receive|send`. The `source` names the
recording and the `id` is the seq of the line, so both together are unique. `sequence` is the seq as text that sorts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import msgspec

from dragoman.gateway.recording.format import CommandLine, EventLine, FrameLine, Header, Line, tag_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ENCODER = msgspec.json.Encoder()


def cloud_events(header: Header, lines: Iterable[Line], *, frames: bool) -> Iterator[bytes]:
    """Yield each event and command, and with `frames` each frame, as one line without its newline."""
    began = _time(header, 0)
    source = "/".join(("/dragoman", *(quote(name, safe="") for name in (header.route, header.session, began))))
    for line in lines:
        if isinstance(line, FrameLine) and not frames:
            continue
        attributes = _frame(line) if isinstance(line, FrameLine) else _item(line)
        envelope: dict[str, Any] = {
            "specversion": "1.0",
            "id": str(line.seq),
            "source": source,
            "time": _time(header, line.t),
            "datacontenttype": "application/json",
            "sequence": f"{line.seq:012}",
            **attributes,
        }
        if line.redacted:
            envelope["redacted"] = True
        yield _ENCODER.encode(envelope)


def _item(line: EventLine | CommandLine) -> dict[str, Any]:
    kind, turn = ("event", line.turn) if isinstance(line, EventLine) else ("command", "")
    attributes = {
        "type": f"dragoman.{kind}.{tag_of(line.item)}",
        "cursor": line.cursor,
        "subject": turn,
        "link": line.link,
    }
    return {**{key: value for key, value in attributes.items() if value}, "data": line.item}


def _frame(line: FrameLine) -> dict[str, Any]:
    keys = ("dialect", "text", "base64", "channel", "parts", "missing")
    data = {key: value for key in keys if (value := getattr(line, key)) not in (None, "")}
    return {"type": f"dragoman.frame.{line.dir}", "link": line.link, "data": data}


def _time(header: Header, t: int) -> str:
    """Return the time of a line in the form of RFC 3339, in microseconds."""
    moment = EPOCH + timedelta(microseconds=header.started_at // 1000 + t)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
