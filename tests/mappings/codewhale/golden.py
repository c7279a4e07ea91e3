"""The golden frames of codewhale, and the messages of its wire."""

from __future__ import annotations

from typing import get_args

from dragoman.mappings.canonical.events import HistorySnapshot, Pong, SessionOpened, SessionsListed
from dragoman.mappings.codewhale.wire.lines import Line
from dragoman.mappings.codewhale.wire.requests import REQUESTS as REQUEST_TYPES
from dragoman.mappings.codewhale.wire.results import Answer
from tests.mappings.codewhale.data import CAPTURES, LINES, captured
from tests.mappings.codewhale.test_directions import EVENTS, REQUESTS
from tests.mappings.golden import Golden


def _frames(*, to_server: bool) -> list[bytes]:
    """Return frames of real servers and their clients, without refused requests and lines of another form."""
    rows = [row for row in LINES if ".bad." not in row["name"] and ".positional_" not in row["name"]]
    said = [row["wire"] for row in rows if (row["direction"] == "client_to_server") is to_server]
    for path in CAPTURES:
        if path.stem[:2] not in ("04", "06", "09"):
            said += [line for _, way, line in captured(path) if (way == "c2s") is to_server]
    return [line.encode() for line in dict.fromkeys(said)]


GOLDEN = Golden(
    events=[*_frames(to_server=False), *EVENTS],
    commands=[*_frames(to_server=True), *REQUESTS],
    event_types={*get_args(Line), Answer},
    command_types=set(REQUEST_TYPES),
    event_spellings={"frame", "message", "result"},
    command_spellings={"absent", "answers", "images", "jsonrpc", "kind", "method", "thread_id"},
    inexact=(SessionOpened, SessionsListed, HistorySnapshot, Pong),
)
