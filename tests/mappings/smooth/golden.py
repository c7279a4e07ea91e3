"""The golden frames of smooth, and the messages of its wire."""

from __future__ import annotations

import json
from typing import Any, get_args

from dragoman.mappings.canonical.events import HistorySnapshot, SessionOpened, SessionsListed
from dragoman.mappings.smooth.wire.actions import AnyAction
from dragoman.mappings.smooth.wire.events import AnyEvent
from tests.mappings.golden import Golden
from tests.mappings.smooth.test_directions import ACTIONS, EVENTS

OTHER_EVENTS = [
    (
        b'{"type":"stream_chunk","requestId":"r","timestamp":1,"node":"n",'
        b'"data":{"requestId":"r","node":"n","state":{"pendingOtpVerification":{"a":1}}}}'
    )
]
"""Events that occur in no other collection of messages."""


def _frames(cases: list[Any]) -> list[bytes]:
    return [json.dumps(case["frame"]).encode() for case in cases]


GOLDEN = Golden(
    events=_frames(EVENTS) + OTHER_EVENTS,
    commands=_frames(ACTIONS),
    event_types=set(get_args(AnyEvent)),
    command_types=set(get_args(AnyAction)),
    event_spellings={*("data", "done", "message", "node", "requestId", "state", "status", "timestamp")},
    command_spellings={
        *("conversationId", "cursor", "declined", "files", "images", "kind", "limit", "model", "query", "requestId"),
        *("sessionId", "stream", "supports", "userEmail", "userName"),
        "skill",  # an input with one is refused
    },
    inexact=(SessionOpened, SessionsListed, HistorySnapshot),
)
