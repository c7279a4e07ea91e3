"""The events of a recording, kept for its replays."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import json

from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.replay import event_store
from dragoman.gateway.replay.event_store import BLOCK, EventStore
from dragoman.mappings.canonical.events import TextDelta
from tests.gateway.replay.recording_builder import RecordingBuilder, WatchedReplay, said, types

SMALL, LARGE = "a", "a" * (2 * BLOCK)


def stored(*texts: str) -> EventStore:
    """Return a store of these texts, whose events have the numbers 10, 20, 30 and so on."""
    store = EventStore()
    for number, text in enumerate(texts, 1):
        store.add(EventLine(seq=10 * number, t=number, cursor=f"1:{number}", turn="t", event=TextDelta(text=text)))
    store.close()
    return store


@pytest.mark.parametrize("text", [SMALL, LARGE], ids=["one block", "a block for each"])
@pytest.mark.parametrize(
    ("first", "last", "found"),
    [(0, 99, [10, 20, 30]), (10, 20, [10, 20]), (11, 29, [20]), (21, 29, []), (30, 30, [30]), (31, 99, [])],
)
def test_the_events_between_two_numbers_are_read(text: str, first: int, last: int, found: list[int]) -> None:
    lines = list(stored(text, text, text).read(first, last))
    assert [line.seq for line in lines] == found
    assert all(line.event == TextDelta(text=text) for line in lines)


def test_one_block_is_decoded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    class Counting:
        def decode(self, raw: bytes) -> list[EventLine]:
            decoded.append(len(raw))
            return json.decode(raw, type=list[EventLine])

    monkeypatch.setattr(event_store, "_EVENTS", Counting())
    count = sum(1 for _ in stored(*[SMALL] * 5_000).read(25_000, 99_999))
    assert count == 2_501
    assert max(decoded) <= BLOCK + 2_000  # the commas and brackets around events of about 90 bytes
    assert sum(decoded) < 5 * BLOCK  # 2,501 such events, and the block in which the first of them stands


def test_a_replay_needs_no_file_once_its_plan_is_made(tmp_path: Path) -> None:
    plan = RecordingBuilder().turn("one", TextDelta(text="1")).plan(tmp_path)
    (tmp_path / "tape.jsonl").unlink()
    session = WatchedReplay(plan)
    assert types(session.asks(said("one")))[-1] == "TurnEnded"
