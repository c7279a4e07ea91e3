"""The choice of the recorded turn: by level of similarity, by order, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from msgspec import Raw
from structlog.testing import capture_logs

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.replay import matching
from dragoman.gateway.replay.matching import (
    NEAR,
    TEXT_MAX,
    TRIED_MAX,
    FieldDifference,
    MatchCandidate,
    MatchReport,
    Outcome,
    Reporter,
    TurnMatcher,
    compare_commands,
    is_same_command,
    named,
    nearest_commands,
)
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    CancelTurn,
    ListCompletions,
    SubmitInput,
)
from dragoman.mappings.canonical.events import CompletionsListed
from dragoman.mappings.canonical.values import Completion, FileAttachment, FileRef, Paste, Text
from tests.gateway.recording.redaction.corpus import SHAPES
from tests.gateway.replay.recording_builder import RecordingBuilder, said

ID, OTHER_ID = "5b1c8c7e-0d4e-5c1a-9f0e-2f6a3c1d7e90", "00000000-0000-4000-8000-000000000002"


def test_commands_that_differ_only_in_request_session_and_ext_are_equal() -> None:
    one = SubmitInput(request="a", session="s", segments=(Text(text="Hello"),), ext={"smooth.stream": Raw(b"true")})
    assert compare_commands(one, SubmitInput(request="b", segments=(Text(text="Hello"),))).level == "exact"


def test_inputs_with_the_same_text_are_equal_however_they_are_segmented() -> None:
    pasted = SubmitInput(segments=(Text(text="Look at "), FileRef(path="a.py")))
    typed = SubmitInput(segments=(Paste(text="Look at @a.py", id=1, chars=13, lines=1),))
    assert compare_commands(pasted, typed).level == "exact"


def test_an_input_with_another_attachment_does_not_match() -> None:
    bare = SubmitInput(segments=(Text(text="Look"),))
    attached = SubmitInput(segments=(Text(text="Look"), FileAttachment(name="a", url="file:///a")))
    likeness = compare_commands(bare, attached)
    assert (likeness.level, [d.field for d in likeness.differences]) == ("other", ["attached"])


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("Hello  there", " Hello there\n"),
        (f"go on with {ID}", f"go on with {OTHER_ID}"),
        ("since 2026-01-02T03:04:05Z", "since 2027-11-30T23:59:59.123+01:00"),
        ("on 2026-01-02", "on 2027-02-03"),
        ("at 1700000000", "at 1800000000123"),
    ],
)
def test_ids_times_and_white_space_do_not_count(recorded: str, now: str) -> None:
    likeness = compare_commands(said(recorded), said(now))
    assert likeness.level == "same"
    assert [(d.field, d.recorded, d.new) for d in likeness.differences] == [("text", recorded, now)]


@pytest.mark.parametrize(("recorded", "now"), [("order 1042", "order 1043"), ("yes", "yet"), ("v1.2.3", "v1.2.4")])
def test_differences_in_numbers_and_short_words_count(recorded: str, now: str) -> None:
    assert not is_same_command(said(recorded), said(now))


def test_a_placeholder_of_redaction_matches_any_value() -> None:
    recorded = said("use [redacted:api_key:0a1b2c3d] and [redacted:jwt:00000000] now")
    assert is_same_command(recorded, said("use sk-1 and e.y.J now"))
    assert not is_same_command(recorded, said("use sk-1 and e.y.J later"))
    assert not is_same_command(said("[redacted:a:1] x [redacted:a:1]"), said("x"))


def test_a_redacted_code_matches_any_code() -> None:
    assert is_same_command(AnswerOtp(code="[redacted:otp:00000000]"), AnswerOtp(code="123456"))
    assert not is_same_command(AnswerOtp(code="123455"), AnswerOtp(code="123456"))


def test_text_with_a_few_typing_errors_is_near_and_another_sentence_is_not() -> None:
    near = compare_commands(said("Where is my order A-1042?"), said("Wher is my ordr A-1042?"))
    assert (near.level, NEAR <= near.ratio < 1) == ("near", True)
    far = compare_commands(said("Where is my order A-1042?"), said("Thank you!"))
    assert (far.level, far.ratio < NEAR) == ("other", True)


def test_commands_of_different_kinds_never_match() -> None:
    assert compare_commands(said("approve"), AnswerApproval(approved=True)).level == "other"


def test_answers_are_compared_by_content_not_by_the_id_of_the_question() -> None:
    one = AnswerInteraction(question=ID, kind="identity", values=Raw(b'{"name": "Ann", "age": 3}'))
    other = AnswerInteraction(question=OTHER_ID, values=Raw(b'{"age":3,"name":" Ann "}'))
    assert is_same_command(one, other)
    assert not is_same_command(one, AnswerInteraction(question=ID, declined=True))
    assert not is_same_command(AnswerApproval(approved=True), AnswerApproval(approved=False))


def test_an_answer_known_only_from_the_log_matches_any_answer_but_a_refusal() -> None:
    known = AnswerInteraction(question="q")
    assert is_same_command(known, AnswerInteraction(question="q", values=Raw(b'{"name":"Ann"}')))
    assert not is_same_command(known, AnswerInteraction(question="q", declined=True))


def test_the_reported_differences_are_shortened() -> None:
    (difference,) = compare_commands(said("a" * 500), said("b")).differences
    assert len(difference.recorded) == 80
    assert difference.new == "b"


def test_the_most_similar_candidates_come_first_and_equal_ones_in_order() -> None:
    recorded: list[Command] = [said("Thanks!"), said("Where is my order?"), said("Where is my ordre?")]
    found = nearest_commands(recorded, said("Where is my orde?"))
    assert [place for place, _ in found] == [1, 2, 0]
    assert [place for place, _ in nearest_commands(recorded, said("Where is my order? "))] == [1]
    assert nearest_commands([ListCompletions(kind="file", prefix="a")], said("a")) == []


def test_a_long_input_is_normalised_once_however_many_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    normalised: list[str] = []

    class Counting:
        def sub(self, _by: str, text: str) -> str:
            normalised.append(text)
            return text

    monkeypatch.setattr(matching, "_UUID", Counting())
    text = "a text that no other test has " * 100
    nearest_commands([said(f"recorded {n} {text}") for n in range(20)], said(text))
    assert normalised.count(text) == 1


@pytest.mark.parametrize("make", [lambda n: "ab" * n, lambda n: "a" * n, lambda n: "[redacted:k:1] " * n])
def test_only_the_beginnings_of_long_texts_are_compared(
    make: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison takes quadratic time."""
    compared: list[int] = []

    class Counting(SequenceMatcher[str]):
        def __init__(self, junk: None, one: str, other: str, *, autojunk: bool) -> None:
            compared.append(max(len(one), len(other)))
            super().__init__(junk, one, other, autojunk)

    monkeypatch.setattr(matching, "SequenceMatcher", Counting)
    recorded: list[Command] = [said(make(1_000) + str(n)) for n in range(20)]
    nearest_commands(recorded, said(make(1_000) + "?"))
    assert len(compared) <= TRIED_MAX
    assert 0 < max(compared) <= TEXT_MAX


# -- turns


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
    Reporter(Ledger(), tell=told.append).report(report)
    assert told == [
        "submit_input two: refused, the recording has it, and it was played already",
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
