"""The levels of similarity: which commands are the same, nearly the same, or different."""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher

import pytest
from msgspec import Raw

from dragoman.gateway.replay import matching
from dragoman.gateway.replay.matching import (
    NEAR,
    TEXT_MAX,
    TRIED_MAX,
    compare_commands,
    is_same_command,
    nearest_commands,
)
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    ListCompletions,
    SubmitInput,
)
from dragoman.mappings.canonical.values import FileAttachment, FileRef, Paste, Text
from tests.gateway.replay.recording_builder import said

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
    assert len(compared) <= len(recorded) + TRIED_MAX
    assert 0 < max(compared) <= TEXT_MAX
