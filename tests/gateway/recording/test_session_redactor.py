"""Redaction in a thread: what goes there, in which order it is written, and what becomes of the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from dragoman.gateway.recording import session_redactor
from dragoman.gateway.recording.lines import EventLine
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.session_redactor import INLINE_MAX, RedactionWorker
from dragoman.mappings.canonical.events import Alert, TextDelta, TurnEnded
from tests.gateway.recording.recorded_session import Scene

SECRET = "hunter2hunter2"
LARGE = "word " * (INLINE_MAX // 5) + f"password={SECRET} "


class Loop:
    """Calls of the thread that wait to be made in the loop."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.worker = RedactionWorker(self._calls.put)

    def run(self) -> None:
        """Make the calls until the thread has nothing to do."""
        while self.worker.busy:
            self._calls.get(timeout=20)()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def scene(loop: Loop) -> Scene:
    return Scene(redacts=True, worker=loop.worker)


def tell(scene: Scene, text: str) -> None:
    """Let the backend say a text in a turn that then ends."""
    scene.happens(TextDelta(text=text))
    scene.happens(TurnEnded(end="completed"))


def written(scene: Scene) -> list[Any]:
    return [line.event for line in scene.disk.lines() if isinstance(line, EventLine)]


def test_a_large_text_is_redacted_in_the_thread(scene: Scene, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[str]()
    feed = Redactor.feed

    def noted(self: Redactor, *given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return feed(self, *given)

    monkeypatch.setattr(Redactor, "feed", noted)
    tell(scene, LARGE)
    scene.passes(1)
    loop.run()
    assert threads == ["redaction"]
    assert [type(event) for event in written(scene)] == [TextDelta, TurnEnded]
    assert all(SECRET.encode() not in data for data in scene.disk.files.values())


def test_a_small_text_is_redacted_at_once(scene: Scene, loop: Loop) -> None:
    tell(scene, "a few words")
    scene.passes(1)
    assert not loop.worker.busy
    assert len(written(scene)) == 2


def test_later_events_are_written_behind_a_large_text(scene: Scene, loop: Loop) -> None:
    tell(scene, LARGE)
    scene.passes(1)
    scene.happens(Alert(level="warn", source="x", text="later"))
    scene.passes(1)
    assert written(scene) == []
    loop.run()
    assert [type(event) for event in written(scene)] == [TextDelta, TurnEnded, Alert]


def test_a_recording_that_is_closed_while_the_thread_works_is_written_whole(scene: Scene, loop: Loop) -> None:
    scene.happens(TextDelta(text=LARGE))
    scene.passes(3)
    scene.track.close()
    assert not scene.disk.finished
    loop.run()
    assert "".join(event.text for event in written(scene)).startswith("word word")
    assert len(scene.disk.finished) == 1


def test_text_that_was_held_back_in_the_thread_is_written_in_time(scene: Scene, loop: Loop) -> None:
    scene.happens(TextDelta(text=LARGE))
    scene.happens(TextDelta(text="password="))
    for _ in range(5):
        scene.passes(1)
        loop.run()
    assert sum(len(event.text) for event in written(scene)) > INLINE_MAX


def test_a_recording_stops_if_redaction_fails_in_the_thread(
    scene: Scene, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_self: Redactor, *_given: Any) -> Any:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(Redactor, "feed", failing)
        tell(scene, LARGE)
        scene.passes(1)
        loop.run()
    assert written(scene) == []
    assert scene.ledger.counters["recording_lines_lost"] == 2


def test_a_recording_stops_if_too_much_waits_for_the_thread(
    scene: Scene, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_redactor, "BACKLOG_MAX", len(LARGE))
    for _ in range(2):
        tell(scene, LARGE)
        scene.passes(1)
    assert scene.ledger.counters["recording_lines_lost"] == 2
    loop.run()
