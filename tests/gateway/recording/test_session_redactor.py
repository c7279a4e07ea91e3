"""Redaction in a thread: what goes there, in which order it is written, and what becomes of the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.recording import redaction_worker
from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.recording.parts import RETRY
from dragoman.gateway.recording.recordings import FLUSH
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction_worker import RedactionWorker
from dragoman.gateway.recording.session_redactor import INLINE_MAX, PER_ITEM
from dragoman.mappings.canonical.events import Alert, TextDelta, TurnEnded
from tests.gateway.recording.recorded_session import RecorderHarness

SECRET = "hunter2hunter2"
WINDOW = 2.0  # seconds that the redactor holds text back for at most
LARGE = "word " * (INLINE_MAX // 5) + f"password={SECRET} "


class Loop:
    """Calls of the thread that wait to be made in the loop."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.worker = RedactionWorker(self._calls.put)
        self.worker.start()

    def run(self) -> None:
        """Make the calls until the thread has nothing to do."""
        while self.worker.busy:
            self._calls.get(timeout=20)()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.worker.stop()  # its thread ends


@pytest.fixture
def harness(loop: Loop) -> RecorderHarness:
    return RecorderHarness(worker=loop.worker)


def tell(harness: RecorderHarness, text: str) -> None:
    """Let the backend say a text in a turn that then ends."""
    harness.happens(TextDelta(text=text))
    harness.happens(TurnEnded(end="completed"))


def written(harness: RecorderHarness) -> list[Any]:
    return [line.event for line in harness.disk.lines() if isinstance(line, EventLine)]


def test_a_large_text_is_redacted_in_the_thread(
    harness: RecorderHarness, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[str]()
    feed = Redactor.feed

    def noted(self: Redactor, *given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return feed(self, *given)

    monkeypatch.setattr(Redactor, "feed", noted)
    tell(harness, LARGE)
    harness.passes(1)
    loop.run()
    assert threads == ["redaction"]
    assert [type(event) for event in written(harness)] == [TextDelta, TurnEnded]
    assert all(SECRET.encode() not in data for data in harness.disk.files.values())


def test_a_small_text_is_redacted_at_once(harness: RecorderHarness, loop: Loop) -> None:
    tell(harness, "a few words")
    harness.passes(1)
    assert not loop.worker.busy
    assert len(written(harness)) == 2


def test_later_events_are_written_behind_a_large_text(harness: RecorderHarness, loop: Loop) -> None:
    tell(harness, LARGE)
    harness.passes(1)
    harness.happens(Alert(level="warn", source="x", text="later"))
    harness.passes(1)
    assert written(harness) == []
    loop.run()
    assert [type(event) for event in written(harness)] == [TextDelta, TurnEnded, Alert]


def test_a_recording_that_is_closed_while_the_thread_works_is_written_whole(
    harness: RecorderHarness, loop: Loop
) -> None:
    harness.happens(TextDelta(text=LARGE))
    harness.passes(3)
    harness.recorder.close()
    assert not harness.disk.finished
    loop.run()
    assert "".join(event.text for event in written(harness)).startswith("word word")
    assert len(harness.disk.finished) == 1


def test_a_lone_piece_of_text_that_comes_while_the_thread_works_is_written_in_time(
    harness: RecorderHarness, loop: Loop
) -> None:
    tell(harness, LARGE)
    harness.passes(1)
    harness.adds_text("then a piece")
    loop.run()
    for _ in range(3):
        harness.passes(1)
        loop.run()
    assert written(harness)[-1] == TextDelta(text="then a piece")


def test_text_that_was_held_back_in_the_thread_is_written_in_time(harness: RecorderHarness, loop: Loop) -> None:
    harness.happens(TextDelta(text=LARGE))
    harness.happens(TextDelta(text="password="))
    for _ in range(5):
        harness.passes(1)
        loop.run()
    assert sum(len(event.text) for event in written(harness)) > INLINE_MAX


def test_many_small_pieces_that_were_held_back_are_released_in_the_thread(
    harness: RecorderHarness, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = dict[str, int]()
    take = Redactor._released

    def noted(self: Redactor) -> Any:
        before = self.held_items
        steps = take(self)
        thread = threading.current_thread().name
        released[thread] = max(released.get(thread, 0), before - self.held_items)
        return steps

    monkeypatch.setattr(Redactor, "_released", noted)
    pieces = 3 * INLINE_MAX // PER_ITEM
    for number in range(pieces):
        harness.happens(TextDelta(text="a"))
        if number % 500 == 0:
            harness.passes(FLUSH)
            loop.run()
    for _ in range(5):
        harness.passes(1)
        loop.run()
    assert sum(len(event.text) for event in written(harness)) == pieces
    assert released["redaction"] > INLINE_MAX // PER_ITEM > released["MainThread"]


def test_a_recording_stops_if_redaction_fails_in_the_thread(
    harness: RecorderHarness, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_self: Redactor, *_given: Any) -> Any:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(Redactor, "feed", failing)
        tell(harness, LARGE)
        harness.passes(1)
        loop.run()
    assert written(harness) == []
    assert harness.ledger.counters["recording_items_lost"] == 2


def test_a_recording_stops_if_too_much_waits_for_the_thread(
    harness: RecorderHarness, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction_worker, "BACKLOG_MAX", len(LARGE))
    with capture_logs() as logs:
        for _ in range(4):
            tell(harness, LARGE)
            harness.passes(1)
    assert harness.ledger.counters["recording_items_lost"] == 6
    assert harness.ledger.counters["recordings_failed"] == 1
    assert [entry["cause"] for entry in logs] == ["redaction does not keep up"]
    loop.run()


def test_text_after_a_stop_for_the_thread_is_written_in_time(
    harness: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(RedactionWorker, "has_room", lambda _worker, _size: False)
        harness.happens(TextDelta(text=LARGE))
        harness.passes(WINDOW)
        harness.passes(FLUSH)
    assert harness.ledger.counters["recording_items_lost"] == 1
    harness.passes(RETRY)
    harness.happens(TextDelta(text="a piece"))
    for _ in range(2):  # the piece is held back for a window
        harness.passes(WINDOW)
        harness.passes(FLUSH)
    assert written(harness) == [TextDelta(text="a piece")]
