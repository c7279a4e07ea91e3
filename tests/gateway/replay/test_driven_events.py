"""Questions in words, as the log of a driver holds them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from dragoman.gateway.recording.compare import turns_of
from dragoman.gateway.replay.driven_events import DrivenEvents, Question, resolved, typed
from dragoman.gateway.session.wording import in_words
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import AnswerApproval, AnswerInteraction
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    MessageAppended,
    TextDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.values import FieldError, Message

ASKED = ApprovalRequested(tool="refund", description="42", question="q")
SPEC = b'{"fields":[{"key":"name"},{"key":"email","required":false}]}'
FORM = InteractionRequired(question="f", kind="identity_intake", spec=Raw(SPEC), reason="Who?")
DECLINED = InteractionResolved(question="f", declined=True)
WORDS = in_words(ASKED)


def heard(*events: Any, turn: str = "t1") -> DrivenEvents:
    log = DrivenEvents()
    for event in events:
        log.take(turn, event)
    return log


def text(log: DrivenEvents) -> str:
    return "".join(event.text for _, event in log.events if isinstance(event, TextDelta))


@pytest.mark.parametrize(
    "parts", [[f"So. {WORDS}"], ["So. ", WORDS], ["So. ", *WORDS], ["So", f". {WORDS[:5]}", WORDS[5:]]]
)
def test_the_words_of_a_question_are_taken_back_however_they_were_streamed(parts: list[str]) -> None:
    log = heard(*(TextDelta(text=part) for part in parts), TurnEnded(end="paused"))
    assert log.take_back(WORDS)
    assert text(log) == "So. "
    assert not any(isinstance(event, TurnEnded) for _, event in log.events)


def test_other_words_stay_and_so_does_the_end_of_their_turn() -> None:
    log = heard(TextDelta(text=f"{WORDS} Or so."), TurnEnded(end="completed"))
    before = list(log.events)
    assert not log.take_back(WORDS)
    assert log.events == before
    assert not DrivenEvents().take_back(WORDS)


def test_what_is_said_for_a_typed_answer_belongs_to_the_turn_that_asked() -> None:
    log = heard(TextDelta(text=WORDS), TurnEnded(end="paused"))
    log.take_back(WORDS)
    log.take_more(ASKED)
    log.take("t2", MessageAppended(message=Message(role="user", text="approve")))
    log.take("t2", TextDelta(text="Done."))
    log.take("t2", TurnEnded(end="completed"))
    log.begin()
    log.take("t3", MessageAppended(message=Message(role="user", text="next")))
    first, second = turns_of(log.events)
    assert [(block.what, block.text) for block in first.blocks] == [("text", "Done."), ("question", "42")]
    assert (first.end, [block.text for block in second.blocks]) == ("completed", ["next"])


@pytest.mark.parametrize(
    ("asked", "answer", "said", "becomes"),
    [
        (ASKED, AnswerApproval(approved=True), ["approve"], ApprovalResolved(approved=True)),
        (ASKED, AnswerApproval(approved=False), ["deny"], ApprovalResolved(approved=False)),
        (
            FORM,
            AnswerInteraction(question="f", values=Raw(b'{"name":"Ada"}')),
            ["Ada", "none"],
            InteractionResolved(question="f"),
        ),
        (FORM, AnswerInteraction(question="f", declined=True), ["skip"], DECLINED),
        (FORM, AnswerInteraction(question="f"), ["skip"], DECLINED),
    ],
)
def test_an_answer_is_typed_word_for_word(asked: Question, answer: Command, said: list[str], becomes: Any) -> None:
    assert [text for _, text in typed(asked, answer)] == said
    assert resolved(asked, answer) == becomes


def test_each_field_is_typed_behind_its_own_question() -> None:
    answer = AnswerInteraction(question="f", values=Raw(b'{"name":"Ada"}'))
    assert [words.split("\n")[1] for words, _ in typed(FORM, answer)] == [
        "Your name? (1 of 2)",
        "Your email? (none leaves it out) (2 of 2)",
    ]


@pytest.mark.parametrize(
    ("wrong", "answer", "said"),
    [
        (("email",), AnswerInteraction(question="f", values=Raw(b'{"name":"Ada","email":"a@b"}')), ["a@b"]),
        ((), AnswerInteraction(question="f", values=Raw(b'{"name":"Ada","email":"a@b"}')), ["Ada", "a@b"]),
        (("name", "email"), AnswerInteraction(question="f", declined=True), ["skip"]),
    ],
)
def test_a_form_that_was_refused_is_filled_in_again_from_what_was_wrong(
    wrong: tuple[str, ...], answer: Command, said: list[str]
) -> None:
    errors = tuple(FieldError(field=key, text="no") for key in wrong)
    refused = InteractionInvalid(question="f", kind="identity_intake", errors=errors, text="Not so.")
    again = list(typed(FORM, answer, refused))
    assert [text for _, text in again] == said
    fault = "\n".join(f"{key}: no" for key in wrong) or "Not so."
    assert again[0][0].startswith(f"{fault}\nWho?\nYour ")
    assert not any("no\n" in words or "Not so" in words for words, _ in again[1:])
