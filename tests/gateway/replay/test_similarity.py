"""The similarity of two commands."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import Raw

from dragoman.gateway.replay import similarity
from dragoman.gateway.replay.similarity import (
    NEAR,
    TEXT_MAX,
    TRIED_MAX,
    ComparedCommand,
    Likeness,
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
    StoreWrite,
    SubmitInput,
)
from dragoman.mappings.canonical.values import FileAttachment, FileRef, Paste, Text
from tests.gateway.replay.recording_builder import said

ID, OTHER_ID = "5b1c8c7e-0d4e-5c1a-9f0e-2f6a3c1d7e90", "00000000-0000-4000-8000-000000000002"


def compared(recorded: Command, new: Command) -> Likeness:
    return compare_commands(ComparedCommand(recorded), ComparedCommand(new))


def is_same(recorded: Command, new: Command) -> bool:
    return is_same_command(ComparedCommand(recorded), ComparedCommand(new))


def nearest(recorded: Sequence[Command], new: Command) -> list[tuple[int, Likeness]]:
    return nearest_commands([ComparedCommand(one) for one in recorded], ComparedCommand(new))


def test_commands_that_differ_only_in_request_session_and_ext_are_equal() -> None:
    one = SubmitInput(request="a", session="s", segments=(Text(text="Hello"),), ext={"smooth.stream": Raw(b"true")})
    assert compared(one, SubmitInput(request="b", segments=(Text(text="Hello"),))).level == "exact"


def test_inputs_with_the_same_text_are_equal_however_they_are_segmented() -> None:
    pasted = SubmitInput(segments=(Text(text="Look at "), FileRef(path="a.py")))
    typed = SubmitInput(segments=(Paste(text="Look at @a.py", id=1, chars=13, lines=1),))
    assert compared(pasted, typed).level == "exact"


def test_an_input_with_another_attachment_does_not_match() -> None:
    bare = SubmitInput(segments=(Text(text="Look"),))
    attached = SubmitInput(segments=(Text(text="Look"), FileAttachment(name="a", url="file:///a")))
    likeness = compared(bare, attached)
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
    likeness = compared(said(recorded), said(now))
    assert likeness.level == "same"
    assert [(d.field, d.recorded, d.new) for d in likeness.differences] == [("text", recorded, now)]


@pytest.mark.parametrize(("recorded", "now"), [("order 1042", "order 1043"), ("yes", "yet"), ("v1.2.3", "v1.2.4")])
def test_differences_in_numbers_and_short_words_count(recorded: str, now: str) -> None:
    assert not is_same(said(recorded), said(now))


def test_a_placeholder_of_redaction_matches_any_value() -> None:
    recorded = said("use [redacted:api_key:0a1b2c3d] and [redacted:jwt:00000000] now")
    assert is_same(recorded, said("use sk-1 and e.y.J now"))
    assert not is_same(recorded, said("use sk-1 and e.y.J later"))
    assert not is_same(said("[redacted:a:1] x [redacted:a:1]"), said("x"))


def test_a_redacted_code_matches_any_code() -> None:
    assert is_same(AnswerOtp(code="[redacted:otp:00000000]"), AnswerOtp(code="123456"))
    assert not is_same(AnswerOtp(code="123455"), AnswerOtp(code="123456"))


@pytest.mark.parametrize(("url", "fits"), [("file:///a?key=sk-1", True), ("file:///b?key=sk-1", False)])
def test_a_placeholder_of_redaction_in_an_attachment_matches_any_value(url: str, fits: bool) -> None:
    recorded, now = (
        SubmitInput(segments=(FileAttachment(name="a", url=where),))
        for where in ("file:///a?key=[redacted:api_key:0a1b2c3d]", url)
    )
    assert is_same(recorded, now) is fits


def test_text_with_a_few_typing_errors_is_near_and_another_sentence_is_not() -> None:
    near = compared(said("Where is my order A-1042?"), said("Wher is my ordr A-1042?"))
    assert (near.level, NEAR <= near.ratio < 1) == ("near", True)
    far = compared(said("Where is my order A-1042?"), said("Thank you!"))
    assert (far.level, far.ratio < NEAR) == ("other", True)


def test_commands_of_different_kinds_never_match() -> None:
    assert compared(said("approve"), AnswerApproval(approved=True)).level == "other"


def test_answers_are_compared_by_content_not_by_the_id_of_the_question() -> None:
    one = AnswerInteraction(question=ID, kind="identity", values=Raw(b'{"name": "Ann", "age": 3}'))
    other = AnswerInteraction(question=OTHER_ID, values=Raw(b'{"age":3,"name":" Ann "}'))
    assert is_same(one, other)
    assert not is_same(one, AnswerInteraction(question=ID, declined=True))
    assert not is_same(AnswerApproval(approved=True), AnswerApproval(approved=False))


def test_an_answer_known_only_from_the_log_matches_any_answer_but_a_refusal() -> None:
    known = AnswerInteraction(question="q")
    assert is_same(known, AnswerInteraction(question="q", values=Raw(b'{"name":"Ann"}')))
    assert not is_same(known, AnswerInteraction(question="q", declined=True))


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        (b'{"a":' * 500 + b"1" + b"}" * 500, b'{"a":' * 500 + b"2" + b"}" * 500),
        (b'{"a":1e400}', b'{"a":1e401}'),
        (b'{"a":%s1}' % (b"1" * 5_000), b'{"a":%s2}' % (b"1" * 5_000)),
    ],
    ids=["deep", "large", "long"],
)
def test_values_that_cannot_be_looked_into_are_compared_as_text(recorded: bytes, now: bytes) -> None:
    one = StoreWrite(method="SaveX", params=Raw(recorded))
    assert compared(one, StoreWrite(method="SaveX", params=Raw(recorded))).level == "exact"
    assert not is_same(one, StoreWrite(method="SaveX", params=Raw(now)))


def test_the_reported_differences_are_shortened() -> None:
    (difference,) = compared(said("a" * 500), said("b")).differences
    assert len(difference.recorded) == 80
    assert difference.new == "b"


def test_the_most_similar_candidates_come_first_and_equal_ones_in_order() -> None:
    recorded: list[Command] = [said("Thanks!"), said("Where is my order?"), said("Where is my ordre?")]
    found = nearest(recorded, said("Where is my orde?"))
    assert [place for place, _ in found] == [1, 2, 0]
    assert [place for place, _ in nearest(recorded, said("Where is my order? "))] == [1]
    assert nearest([ListCompletions(kind="file", prefix="a")], said("a")) == []


def test_the_ratio_is_twice_the_longest_common_subsequence_to_the_length_of_both_texts() -> None:
    def reference(one: str, other: str) -> int:
        @cache
        def length(i: int, j: int) -> int:
            if i == len(one) or j == len(other):
                return 0
            if one[i] == other[j]:
                return 1 + length(i + 1, j + 1)
            return max(length(i + 1, j), length(i, j + 1))

        return length(0, 0)

    chance = random.Random(7)  # texts of a test
    for _ in range(300):
        one, other = ("".join(chance.choices("abc", k=chance.randint(1, 12))) for _ in range(2))
        expected = 2 * reference(one, other) / (len(one) + len(other))
        assert compared(said(one + "x"), said(other + "y")).ratio == pytest.approx(
            expected * (len(one) + len(other)) / (len(one) + len(other) + 2)
        )


def test_the_ends_of_long_texts_are_not_compared_for_the_ratio() -> None:
    likeness = compared(said("a" * TEXT_MAX + "b" * 100), said("a" * TEXT_MAX + "c" * 500))
    assert (likeness.level, likeness.ratio) == ("near", 1.0)


def test_no_recorded_command_is_prepared_again_for_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = [ComparedCommand(said(f"recorded {n}")) for n in range(20)]
    prepared: list[Command] = []
    fields = similarity._fields

    def counted(command: Command) -> dict[str, Any]:
        prepared.append(command)
        return fields(command)

    monkeypatch.setattr(similarity, "_fields", counted)
    nearest_commands(recorded, ComparedCommand(said("another")))
    assert prepared == [said("another")]


def test_only_the_most_similar_candidates_are_tried() -> None:
    found = nearest([said(f"{'a' * n} b") for n in range(20)], said("a" * 19 + " c"))
    assert [place for place, _ in found] == [19, 18, 17, 16, 15, 14, 13, 12]
    assert len(found) == TRIED_MAX


def test_the_ratio_of_only_so_many_commands_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "ESTIMATED_MAX", 10)
    estimate = Mock(return_value=0.0)
    monkeypatch.setattr(similarity, "_estimate", estimate)
    assert len(nearest([said(f"input {number}") for number in range(30)], said("another"))) == TRIED_MAX
    assert estimate.call_count == 10
