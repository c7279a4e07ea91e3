"""The rotation of a session for a pod client."""

from __future__ import annotations

from msgspec import json

from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.values import Message, Text
from dragoman.mappings.pod import DIALECT
from dragoman.mappings.pod.from_canonical.replies import rotation

SESSION = "0192f0e8-4d84-7d6e-a000-0000000000aa"


def test_a_rotation_carries_the_whole_transcript() -> None:
    asked = Message(role="user", text="q", segments=(Text(text="q"),))
    state = SessionState(id=SESSION, transcript=[asked, Message(role="assistant", text="a")])
    entry = json.decode(DIALECT.events.codec.encode(rotation(state, 7_000_000)))["data"]["entry"]
    assert (entry["kind"], entry["session_id"], entry["ts"]) == ("segment_start", SESSION, 7)
    assert [item["content"][0]["text"] for item in entry["history"]] == ["q", "a"]
