from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dragoman.gateway.recording.flush_plan import FLUSH, GATHER
from dragoman.gateway.recording.lines import UP, EventLine, FrameLine, Line
from dragoman.gateway.recording.pending import LINES_MAX, TapPoint
from dragoman.mappings.canonical.commands import PauseTurn
from dragoman.mappings.canonical.events import Reply, TextDelta, TextDone, TurnAccepted, TurnEnded
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Parts
from tests.gateway.recording.recorded_session import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()


def seqs(lines: Sequence[Line]) -> list[int]:
    return [line.seq for line in lines]


# -- lines ----------------------------------------------------------------------------------------------


def test_each_event_of_a_batch_is_a_line_with_its_own_cursor_and_the_batch_s_time(scene: Scene) -> None:
    scene.now += 1_500_000
    scene.happens(TextDelta(text="a"), TextDelta(text="b"), origin=Origin(link="l", request="r"))
    scene.track.close()
    first, second = scene.disk.lines()
    assert first == EventLine(
        seq=1, t=1500, cursor="2:7", event=TextDelta(text="a"), turn="t", origin=Origin(link="l", request="r"), at=99
    )
    assert isinstance(second, EventLine)
    assert (second.seq, second.t, second.cursor) == (2, 1500, "2:8")


def test_frames_commands_and_replies_are_numbered_together(scene: Scene) -> None:
    scene.track.frames(TapPoint("smooth-1", "receive", "smooth"), [b"a", b"b"])
    scene.track.command("smooth-1", PauseTurn(request="r"))
    scene.track.answer("smooth-1", Reply(request="r"))
    scene.track.close()
    lines = scene.disk.lines()
    assert seqs(lines) == [1, 2, 3, 4]
    assert [line.text for line in lines[:2] if isinstance(line, FrameLine)] == ["a", "b"]
    command, answer = lines[2:]
    assert isinstance(command, EventLine)
    assert isinstance(answer, EventLine)
    assert (command.command, command.cursor, command.link) == (PauseTurn(request="r"), "2:7", "smooth-1")
    assert (answer.event, answer.cursor, answer.link) == (Reply(request="r"), "2:7", "smooth-1")


def test_the_header_tells_when_the_session_began(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.track.close()
    ((header, _),) = scene.disk.parts()
    assert (header.session, header.started_at, header.part, header.seq, header.lost) == ("s", 1234, 0, 1, 0)


def test_a_session_without_items_has_no_file(scene: Scene) -> None:
    scene.track.close()
    assert not scene.disk.files
    assert not scene.disk.finished


def test_items_are_flushed_after_a_short_time(scene: Scene) -> None:
    scene.happens(TextDone(text="a"))
    scene.happens(TextDone(text="b"))
    assert [delay for delay, _ in scene.timers] == [FLUSH]
    assert not scene.disk.files
    scene.passes(FLUSH)
    assert len(scene.disk.lines()) == 2
    assert not scene.timers
    scene.happens(TextDone(text="c"))
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2, 3]


def test_pieces_of_a_text_wait_for_a_second_without_redaction(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.happens(TextDelta(text="b"))
    assert [delay for delay, _ in scene.timers] == [GATHER]
    scene.passes(GATHER)
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2]
    assert not scene.timers
    scene.happens(TextDelta(text="c"))
    scene.happens(TextDone(text="abc"))
    assert [delay for delay, _ in scene.timers] == [GATHER, FLUSH]
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2, 3, 4]


def test_a_burst_is_flushed_at_once(scene: Scene) -> None:
    scene.happens(*[TextDelta(text="a")] * LINES_MAX)
    assert len(scene.disk.lines()) == LINES_MAX


def test_items_after_close_are_not_recorded(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.track.close()
    scene.happens(TextDelta(text="b"))
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1]
    assert len(scene.disk.finished) == 1


def test_items_after_a_streaming_text_wait_until_it_ends_or_its_window_is_over() -> None:
    scene = Scene(redacts=True)
    scene.happens(TextDelta(text="a"))
    ((due, _),) = scene.timers
    assert due == 1.5  # for three quarters of the window what streams is noted and no more
    scene.happens(TextDelta(text="b"))
    scene.track.frames(TapPoint(UP, "receive", "pod"), [b"{}"])
    assert [delay for delay, _ in scene.timers] == [due]
    assert not scene.disk.files
    scene.happens(TextDone(text="ab"))
    assert [delay for delay, _ in scene.timers] == [due, FLUSH]
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2, 3, 4]


def test_a_streaming_text_is_written_when_its_window_is_over() -> None:
    scene = Scene(redacts=True)
    scene.happens(TextDelta(text="a"))
    scene.passes(1.0)
    scene.happens(TextDelta(text="b"))
    scene.passes(0.5)
    assert not scene.disk.files
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2]


def test_a_possible_secret_is_written_when_the_window_is_over() -> None:
    scene = Scene(redacts=True)
    scene.happens(TextDelta(text="a"))
    scene.happens(TextDelta(text=" password: hun"))
    scene.passes(1.5)
    scene.passes(FLUSH)
    assert not scene.disk.files
    ((due, _),) = scene.timers
    assert 0.5 - 4 * FLUSH <= due < 0.5
    scene.passes(due)
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2]


def test_pending_steps_are_bounded_by_their_size(scene: Scene) -> None:
    for frames in ([b"x" * 700_000], [b"x" * 200_000] * 2, [Parts("rpc", b"", (b"", b"x" * 1_100_000))]):
        scene.track.frames(TapPoint(UP, "receive", "pod"), frames)
    assert seqs(scene.disk.lines()) == [1, 2, 3, 4]


# -- whose frames are recorded ----------------------------------------------------------------------------


def test_the_actor_is_the_owner_of_the_open_turn_or_the_last_to_command(scene: Scene) -> None:
    actors: list[str] = []
    steps: tuple[Callable[[], None], ...] = (
        lambda: scene.track.command("a", PauseTurn()),
        lambda: scene.track.command("b", PauseTurn()),
        lambda: scene.track.command(UP, PauseTurn()),
        lambda: scene.happens(TurnAccepted(), origin=Origin(link="a")),
        lambda: scene.track.command("b", PauseTurn()),
        lambda: scene.happens(TurnEnded(end="completed")),
        lambda: scene.track.command("b", PauseTurn()),
    )
    for step in steps:
        step()
        actors.append(scene.track.actor)
    assert actors == ["a", "b", "b", "a", "a", "a", "b"]
