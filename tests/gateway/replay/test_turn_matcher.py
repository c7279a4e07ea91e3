"""Which scene comes: the ladder, the order, and what was used already."""

from __future__ import annotations

from pathlib import Path

from dragoman.gateway.replay.turn_matcher import TurnMatcher
from dragoman.mappings.canonical.commands import ListCompletions
from dragoman.mappings.canonical.events import CompletionsListed
from dragoman.mappings.canonical.values import Completion
from tests.gateway.replay.recording_builder import RecordingBuilder, said


def cast(folder: Path, *texts: str) -> TurnMatcher:
    tape = RecordingBuilder()
    for text in texts:
        tape.turn(text)
    return TurnMatcher(tape.play(folder))


def number(casting: TurnMatcher, text: str) -> tuple[int, str]:
    scene, report = casting.input(said(text))
    return (scene.number if scene is not None else 0), report.outcome


def test_equal_inputs_are_played_in_their_order(tmp_path: Path) -> None:
    casting = cast(tmp_path, "go on", "stop", "go on")
    assert [number(casting, text) for text in ("go on", "go on")] == [(1, "exact"), (3, "exact")]


def test_the_next_one_comes_before_one_that_was_left_out(tmp_path: Path) -> None:
    casting = cast(tmp_path, "go on", "stop", "go on")
    assert [number(casting, text)[0] for text in ("stop", "go on", "go on")] == [2, 3, 1]


def test_a_higher_rung_comes_before_an_earlier_place(tmp_path: Path) -> None:
    casting = cast(tmp_path, "Where is my ordr?", "Where  is my order?", "Where is my order?")
    asked = ["Where is my order?"] * 3
    assert [number(casting, text) for text in asked] == [(3, "exact"), (2, "same"), (0, "used")]


def test_what_was_played_is_refused_as_used_though_another_is_near(tmp_path: Path) -> None:
    casting = cast(tmp_path, "Where is my order?", "Where is my ordre?")
    number(casting, "Where is my order?")
    scene, report = casting.input(said("Where is my order?"))
    assert (scene, report.outcome) == (None, "used")
    assert [(c.scene, c.used) for c in report.candidates] == [(1, True), (2, False)]


def test_what_is_near_is_taken_and_told_with_what_differs(tmp_path: Path) -> None:
    scene, report = cast(tmp_path, "Thank you!", "Where is my order?").input(said("Where is my ordre?"))
    assert scene is not None
    assert (scene.number, report.outcome, report.scene) == (2, "near", 2)
    (difference,) = report.candidates[0].differences
    assert (difference.field, difference.recorded, difference.said) == (
        "text",
        "Where is my order?",
        "Where is my ordre?",
    )


def test_what_is_like_nothing_is_refused_and_the_candidates_are_told(tmp_path: Path) -> None:
    scene, report = cast(tmp_path, "one", "Where is my order?").input(said("Tell me a joke"))
    assert (scene, report.outcome, len(report.candidates)) == (None, "not_recorded", 2)


def test_what_was_asked_besides_is_answered_in_turn_and_then_as_last_time(tmp_path: Path) -> None:
    tape = RecordingBuilder()
    for value in ("a.py", "ab.py"):
        listed = CompletionsListed(kind="file", entries=(Completion(value=value),))
        tape.asks(ListCompletions(kind="file", prefix="a"), listed)
    casting = TurnMatcher(tape.play(tmp_path))
    found = [casting.loose(ListCompletions(kind="file", prefix="a"))[0] for _ in range(3)]
    answers = [passage.answer for passage in found if passage is not None]
    assert [a.entries[0].value for a in answers if isinstance(a, CompletionsListed)] == ["a.py", "ab.py", "ab.py"]
    passage, report = casting.loose(ListCompletions(kind="file", prefix="b"))
    assert (passage, report.outcome) == (None, "not_here")
