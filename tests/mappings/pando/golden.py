"""The golden frames of pando, and the messages of its wire."""

from __future__ import annotations

from typing import get_args

from dragoman.mappings.canonical.events import HistorySnapshot, Pong, SessionOpened
from dragoman.mappings.pando.wire.replies import Reply
from dragoman.mappings.pando.wire.requests import Request
from dragoman.mappings.pando.wire.topics import Topic
from tests.mappings.golden import Golden
from tests.mappings.pando.data import CAPTURES, VECTORS, captured, direction_of, read_of
from tests.mappings.pando.test_directions import EVENTS, REQUESTS


def _frames(*ways: str) -> list[bytes]:
    """Return frames of real primaries and their clients, without the capture of raw calls."""
    rows = [row for row in VECTORS if ".bad." not in row["name"] and ".ok." not in row["name"]]
    said = [(row["kind"], row["frames"]) for row in rows]
    for path in CAPTURES:
        if not path.stem.startswith("15-"):
            said += [(way, frames) for _, way, frames in captured(path)]
    direction = direction_of(ways[0])
    found = [read_of(frames, direction) for way, frames in said if way in ways]
    return [frame for frame in dict.fromkeys(found) if frame not in WRONG]


WRONG = {
    frames[-1].encode()
    for path in CAPTURES
    for _, way, frames in captured(path)
    if way == "c2s" and frames[-1].endswith(('"params":{"session_id":5}}', '"params":[]}'))
}
"""Calls with params of a wrong type, which a primary refuses."""


GOLDEN = Golden(
    events=[*_frames("pub", "rpc_reply", "s2c"), *EVENTS],
    commands=[*_frames("rpc_request", "c2s"), *REQUESTS],
    event_types={*get_args(Topic), Reply},
    command_types=set(get_args(Request)),
    event_spellings={"instance_id", "sessions"},
    command_spellings={"meta", "params", "project_id", "sync"},
    inexact=(SessionOpened, HistorySnapshot, Pong),
)
