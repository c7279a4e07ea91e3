from __future__ import annotations

from pathlib import Path

from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.transcript import transcript
from dragoman.gateway.recording.show.turns import TurnFigures, turn_figures
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    MessageAppended,
    ReasoningDelta,
    TextDelta,
    TextDone,
    ToolCallFinished,
    TurnEnded,
    UsageReported,
)
from dragoman.mappings.canonical.values import Failure, Message, Usage
from tests.gateway.recording.lines import FROZEN
from tests.gateway.replay.recording_builder import RecordingBuilder


def figures(path: Path) -> list[TurnFigures]:
    return turn_figures(open_recording(path).lines())


def test_a_turn_lasts_from_its_input_to_its_end(tmp_path: Path) -> None:
    tape = RecordingBuilder().at(10).turn("one", end=None)
    tape.at(12.5).sends(ReasoningDelta(text="h")).at(13).sends(TextDelta(text="a"), TextDone(text="a")).at(30).ends()
    (turn,) = figures(tape.write(tmp_path))
    assert (turn.t, turn.first_token, turn.duration, turn.deltas) == (10_000, 2_500, 20_000, 2)
    assert (turn.input, turn.end) == ("one", "completed")


def test_the_first_token_of_a_text_without_deltas_is_the_text(tmp_path: Path) -> None:
    tape = RecordingBuilder().at(1).turn("one", end=None).at(5).sends(TextDone(text="a")).at(9).ends()
    assert figures(tape.write(tmp_path))[0].first_token == 4_000


def test_a_turn_without_text_has_no_first_token(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn(
        "one", ToolCallFinished(call="c"), end="failed", failure=Failure(cause="busy", text="no")
    )
    (turn,) = figures(tape.write(tmp_path))
    assert (turn.first_token, turn.tools, turn.end, turn.failure) == (None, 1, "failed", "busy: no")


def test_a_turn_that_is_open_at_the_end_has_neither_duration_nor_end(tmp_path: Path) -> None:
    (turn,) = figures(RecordingBuilder().turn("one", TextDelta(text="a"), end=None).write(tmp_path))
    assert (turn.duration, turn.end) == (None, "")


def test_tokens_of_model_calls_are_summed(tmp_path: Path) -> None:
    calls = [UsageReported(usage=Usage(input_tokens=n, output_tokens=1)) for n in (10, 20)]
    (turn,) = figures(RecordingBuilder().turn("one", *calls).write(tmp_path))
    assert (turn.input_tokens, turn.output_tokens) == (30, 2)


def test_tokens_that_the_end_of_the_turn_reports_are_those_of_the_turn() -> None:
    (turn,) = figures(FROZEN / "v4.jsonl")
    assert (turn.input_tokens, turn.output_tokens) == (12, 4)


def test_an_input_that_the_backend_tells_before_its_turn_is_the_input_of_that_turn() -> None:
    elsewhere = MessageAppended(message=Message(role="user", text="from another client", id="m"))
    answers: list[Event] = [TextDelta(text="a"), TurnEnded(end="completed")]
    said: list[tuple[str, Event]] = [("", elsewhere), *(("t", event) for event in answers), ("u", answers[0])]
    lines = [
        EventLine(seq=seq, t=seq, cursor=f"1:{seq}", turn=turn, event=event)
        for seq, (turn, event) in enumerate(said, 1)
    ]
    assert [turn.input for turn in turn_figures(lines)] == ["from another client", ""]


def test_turns_have_the_numbers_of_the_transcript(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", TextDelta(text="a")).turn("two").turn("three", TextDelta(text="c"))
    recording = open_recording(tape.write(tmp_path))
    inputs = {entry.turn: entry.text for entry in transcript(recording.lines()) if entry.kind == "input"}
    assert {turn.turn: turn.input for turn in turn_figures(recording.lines())} == inputs
