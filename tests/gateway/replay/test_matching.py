"""The choice of the recorded turn: by level of similarity, by order, and never twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.replay.matching import MatchCandidate, MatchReport, Outcome, Reporter, TurnMatcher, named
from dragoman.gateway.replay.similarity import FieldDifference
from dragoman.mappings.canonical.commands import (
    CancelTurn,
    ListCompletions,
    SubmitInput,
)
from dragoman.mappings.canonical.events import CompletionsListed
from dragoman.mappings.canonical.values import Completion, Text
from tests.gateway.recording.redaction.corpus import SHAPES
from tests.gateway.replay.recording_builder import RecordingBuilder, said

ID, OTHER_ID = "5b1c8c7e-0d4e-5c1a-9f0e-2f6a3c1d7e90", "00000000-0000-4000-8000-000000000002"


def turn_matcher(folder: Path, *texts: str) -> TurnMatcher:
    tape = RecordingBuilder()
    for text in texts:
        tape.turn(text)
    return TurnMatcher(tape.plan(folder))


def number(matcher: TurnMatcher, text: str) -> tuple[int, str]:
    turn, report = matcher.match_input(said(text))
    return (turn.number if turn is not None else 0), report.outcome


def test_equal_inputs_are_replayed_in_order(tmp_path: Path) -> None:
    matcher = turn_matcher(tmp_path, "go on", "stop", "go on")
    assert [number(matcher, text) for text in ("go on", "go on")] == [(1, "exact"), (3, "exact")]


def test_the_next_recorded_turn_comes_before_one_that_was_skipped(tmp_path: Path) -> None:
    matcher = turn_matcher(tmp_path, "go on", "stop", "go on")
    assert [number(matcher, text)[0] for text in ("stop", "go on", "go on")] == [2, 3, 1]


def test_a_higher_level_of_likeness_comes_before_an_earlier_turn(tmp_path: Path) -> None:
    matcher = turn_matcher(tmp_path, "Where is my ordr?", "Where  is my order?", "Where is my order?")
    asked = ["Where is my order?"] * 3
    assert [number(matcher, text) for text in asked] == [(3, "exact"), (2, "same"), (0, "used")]


def test_a_repeated_input_is_refused_as_used_although_another_is_near(tmp_path: Path) -> None:
    matcher = turn_matcher(tmp_path, "Where is my order?", "Where is my ordre?")
    number(matcher, "Where is my order?")
    turn, report = matcher.match_input(said("Where is my order?"))
    assert (turn, report.outcome) == (None, "used")
    assert [(c.turn, c.used) for c in report.candidates] == [(1, True), (2, False)]


def test_a_near_input_is_accepted_and_its_differences_are_reported(tmp_path: Path) -> None:
    turn, report = turn_matcher(tmp_path, "Thank you!", "Where is my order?").match_input(said("Where is my ordre?"))
    assert turn is not None
    assert (turn.number, report.outcome, report.turn) == (2, "near", 2)
    (difference,) = report.candidates[0].differences
    assert (difference.field, difference.recorded, difference.new) == (
        "text",
        "Where is my order?",
        "Where is my ordre?",
    )


def test_an_input_without_a_match_is_refused_and_the_candidates_are_reported(tmp_path: Path) -> None:
    turn, report = turn_matcher(tmp_path, "one", "Where is my order?").match_input(said("Tell me a joke"))
    assert (turn, report.outcome, len(report.candidates)) == (None, "not_recorded", 2)


def test_other_requests_get_their_recorded_answers_in_order_and_then_the_last_again(tmp_path: Path) -> None:
    tape = RecordingBuilder()
    for value in ("a.py", "ab.py"):
        listed = CompletionsListed(kind="file", entries=(Completion(value=value),))
        tape.asks(ListCompletions(kind="file", prefix="a"), listed)
    matcher = TurnMatcher(tape.plan(tmp_path))
    found = [matcher.match_other(ListCompletions(kind="file", prefix="a"))[0] for _ in range(3)]
    answers = [passage.answer for passage in found if passage is not None]
    assert [a.entries[0].value for a in answers if isinstance(a, CompletionsListed)] == ["a.py", "ab.py", "ab.py"]
    passage, report = matcher.match_other(ListCompletions(kind="file", prefix="b"))
    assert (passage, report.outcome) == (None, "not_here")


DIFFERENCE = FieldDifference(field="text", recorded="one", new="two")
NEAR_TURN = MatchCandidate(turn=3, words="submit_input one", ratio=0.87, used=True, differences=(DIFFERENCE,))


@pytest.mark.parametrize(
    ("outcome", "levels"),
    [("exact", []), ("same", ["info"]), ("near", ["warning"]), ("used", ["warning"]), ("not_recorded", ["warning"])],
)
def test_each_match_is_counted_and_inexact_ones_are_logged(outcome: Outcome, levels: list[str]) -> None:
    ledger = Ledger()
    with capture_logs() as logs:
        Reporter(ledger).report(MatchReport(words="submit_input hi", outcome=outcome))
    assert ledger.counters == {f"replay_{outcome}": 1}
    assert [entry["log_level"] for entry in logs] == levels


def test_an_explanation_names_the_candidates_and_what_differs() -> None:
    told: list[str] = []
    report = MatchReport(words="submit_input two", outcome="used", candidates=(NEAR_TURN,))
    Reporter(Ledger(), explain=told.append).report(report)
    assert told == [
        "submit_input two: refused, the recorded turn of this input was played already",
        "  candidate 3: submit_input one, 87% alike, played already",
        "    text: recorded 'one', said 'two'",
    ]


def test_no_report_contains_a_secret() -> None:
    key = SHAPES["api_key"]
    words = named(SubmitInput(segments=(Text(text=f"my key is {key} so"),)))
    difference = FieldDifference(field="text", recorded="my key is", new=f"my key is {key[:12]}")
    candidate = MatchCandidate(turn=1, words=words, ratio=0.5, differences=(difference,))
    report = MatchReport(words=words, outcome="used", candidates=(candidate,))
    told = "\n".join(report.explained())
    assert key[:8] not in told
    assert words.startswith("submit_input my key is [redacted:api_key:")
    assert told.count("[redacted:api_key:") == 3


def test_a_report_names_the_matched_input_or_that_the_command_was_passed_on() -> None:
    assert MatchReport(words="w", outcome="near", turn=2).explained() == ["w: matched with input 2 (near)"]
    assert MatchReport(words="w", outcome="passed_on").explained() == ["w: passed on to the live backend"]


def test_an_observer_gets_every_report() -> None:
    reporter = Reporter(Ledger())
    heard: list[MatchReport] = []
    reporter.notify(heard.append)
    reporter.report(MatchReport(words="w", outcome="exact"))
    assert [report.outcome for report in heard] == ["exact"]


def test_a_command_is_named_by_its_kind_and_an_input_by_its_first_words() -> None:
    assert named(CancelTurn()) == "cancel_turn"
    assert named(said("hello  there\n")) == "submit_input hello there"
    assert len(named(said("a" * 500))) == len("submit_input ") + 60
