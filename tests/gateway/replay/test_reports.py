"""What is told of each command."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.ledger import Ledger
from dragoman.gateway.replay.matching import Difference
from dragoman.gateway.replay.reports import Candidate, Outcome, Report, Reporter, named
from dragoman.mappings.canonical.commands import CancelTurn, SubmitInput
from dragoman.mappings.canonical.values import Text
from tests.gateway.recording.redaction.corpus import SHAPES
from tests.gateway.replay.recording_builder import said

DIFFERENCE = Difference(field="text", recorded="one", said="two")
NEAR = Candidate(scene=3, words="submit_input one", ratio=0.87, used=True, differences=(DIFFERENCE,))


@pytest.mark.parametrize(
    ("outcome", "levels"),
    [("exact", []), ("same", ["info"]), ("near", ["warning"]), ("used", ["warning"]), ("not_recorded", ["warning"])],
)
def test_each_is_counted_and_what_is_not_exact_logged(outcome: Outcome, levels: list[str]) -> None:
    ledger = Ledger()
    with capture_logs() as logs:
        Reporter(ledger).report(Report(words="submit_input hi", outcome=outcome))
    assert ledger.counters == {f"replay_{outcome}": 1}
    assert [entry["log_level"] for entry in logs] == levels


def test_an_explanation_names_the_candidates_and_what_differs() -> None:
    told: list[str] = []
    report = Report(words="submit_input two", outcome="used", candidates=(NEAR,))
    Reporter(Ledger(), tell=told.append).report(report)
    assert told == [
        "submit_input two: refused, the recording has it, and it was played already",
        "  candidate 3: submit_input one, 87% alike, played already",
        "    text: recorded 'one', said 'two'",
    ]


def test_no_secret_is_told() -> None:
    key = SHAPES["api_key"]
    words = named(SubmitInput(segments=(Text(text=f"my key is {key} so"),)))
    difference = Difference(field="text", recorded="my key is", said=f"my key is {key[:12]}")
    candidate = Candidate(scene=1, words=words, ratio=0.5, differences=(difference,))
    report = Report(words=words, outcome="used", candidates=(candidate,))
    told = "\n".join(report.explained())
    assert key[:8] not in told
    assert words.startswith("submit_input my key is [redacted:api_key:")
    assert told.count("[redacted:api_key:") == 3


def test_a_match_names_the_input_and_what_is_passed_on_says_so() -> None:
    assert Report(words="w", outcome="near", scene=2).explained() == ["w: matched with input 2 (near)"]
    assert Report(words="w", outcome="passed_on").explained() == ["w: passed on to the live backend"]


def test_who_listens_hears_every_report() -> None:
    reporter = Reporter(Ledger())
    heard: list[Report] = []
    reporter.heard = heard.append
    reporter.report(Report(words="w", outcome="exact"))
    assert [report.outcome for report in heard] == ["exact"]


def test_a_command_is_named_by_its_kind_and_an_input_by_its_first_words() -> None:
    assert named(CancelTurn()) == "cancel_turn"
    assert named(said("hello  there\n")) == "submit_input hello there"
    assert len(named(said("a" * 500))) == len("submit_input ") + 60
