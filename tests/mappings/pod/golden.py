"""The golden frames of pod, and the messages of its wire."""

from __future__ import annotations

from typing import get_args

from dragoman.mappings.pod.wire.events import Event
from dragoman.mappings.pod.wire.methods import Method
from tests.mappings.golden import Golden
from tests.mappings.pod.data import CAPTURES, VECTORS, captured
from tests.mappings.pod.test_directions import EVENTS, METHODS

OTHER_EVENTS = [
    b'{"event":"llm_continuation","data":{"llm_call":1,"attempt":2,"max_attempts":3,"reason":"r"}}',
    (
        b'{"event":"user_message","data":{"segments":[{"kind":"paste","id":1,"chars":2,"lines":1,"content":"ab"},'
        b'{"kind":"workflow_invoke","slug":"w"}]}}'
    ),
]
"""Events that occur in no other collection of messages."""


def _vectors(*directions: str) -> list[bytes]:
    return [row["canonical"].encode() for row in VECTORS if row["accept"] and row["direction"] in directions]


def _captured(way: str) -> list[bytes]:
    """Return frames of real pods and their clients, without the capture of bad lines."""
    good = [path for path in CAPTURES if not path.stem.startswith("13-")]
    return list(dict.fromkeys(frame for path in good for _, to, frame in captured(path) if to == way and frame.strip()))


GOLDEN = Golden(
    events=[*_vectors("pod_to_client"), *_captured("s2c"), *EVENTS, *OTHER_EVENTS],
    commands=[*_vectors("client_to_pod"), *_captured("c2s"), *METHODS],
    event_types=set(get_args(Event)),
    command_types=set(get_args(Method)),
    event_spellings={"code"},
    command_spellings={"pod_event"},  # the note is its text
)
