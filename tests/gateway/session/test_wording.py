"""Questions in words, and what counts as an answer (docs/translation.md, rule 3.3)."""

from __future__ import annotations

import pytest
from msgspec import Raw, json

from dragoman.gateway.session import wording
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    InteractionRequired,
    OtpInvalid,
    OtpRequired,
    OtpSent,
)
from dragoman.mappings.forms import Form

# -- approvals ---------------------------------------------------------------------------------------


def test_an_approval_names_the_tool_the_backends_words_and_both_answers() -> None:
    said = wording.in_words(ApprovalRequested(tool="rm", description="Delete 42?"))
    assert all(part in said for part in ("rm", "Delete 42?", "approve", "deny"))


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("approve", True),
        (" /Approve\n", True),
        ("DENY", False),
        ("/deny", False),
        ("yes", None),
        ("approve it", None),
        ("", None),
        ("//approve", None),
    ],
)
def test_a_verdict_is_one_word_in_any_case_without_surrounding_space(said: str, verdict: bool | None) -> None:
    assert wording.verdict(said) is verdict


# -- one-time codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("code 123456", "123456"),
        ("/Code  a-1 ", "a-1"),
        ("code", ""),
        ("code 1 2", ""),
        ("my code 1", ""),
        ("123456", ""),
        ("code " + "9" * 65, ""),
    ],
)
def test_a_one_time_code_is_typed_after_the_keyword(said: str, code: str) -> None:
    assert wording.code(said) == code


def test_the_prompt_for_a_code_names_tool_channels_and_how_to_answer() -> None:
    said = wording.code_wanted(
        OtpRequired(tool="pay", description="Pay 5.", channels=("sms", "email"), auth_level="end_user")
    )
    assert all(part in said for part in ("pay", "Pay 5.", "sms or email", "code 123456"))
    assert "***12" in wording.code_sent(OtpSent(channel="sms", destination="***12"))


@pytest.mark.parametrize(("left", "words"), [(2, "2 tries are left"), (1, "1 try is left")])
def test_the_prompt_after_a_wrong_code_names_the_remaining_attempts(left: int, words: str) -> None:
    said = wording.code_invalid(OtpInvalid(attempts_remaining=left, text="No."))
    assert said.startswith("No.")
    assert words in said


def test_a_wrong_code_without_remaining_attempts_asks_for_nothing() -> None:
    assert wording.code_invalid(OtpInvalid(attempts_remaining=0, text="No.")) == "No."
    assert wording.code_invalid(OtpInvalid(attempts_remaining=0, text="")) == "The code was not accepted."


# -- forms -------------------------------------------------------------------------------------------


def test_form_question_in_words_equals_its_first_prompt() -> None:
    spec = Raw(b'{"fields":[{"key":"name","label":"full name"},{"key":"email"}]}')
    asked = InteractionRequired(question="i", kind="identity_intake", spec=spec, reason="For the quote.")
    assert wording.in_words(asked) == Form(asked).prompt()


def test_each_line_of_a_question_is_a_line_of_its_own_in_markdown_too() -> None:
    """Terminal clients of a pod show markdown, in which a newline is a space unless two spaces stand before it."""
    options = [{"label": "Small"}, {"label": "Large", "description": "XL"}]
    spec = Raw(json.encode({"questions": [{"question": "Which size?", "header": "Size", "options": options}]}))
    said = [
        wording.in_words(InteractionRequired(question="i", kind="choices", spec=spec, reason="To pack it.")),
        wording.in_words(ApprovalRequested(tool="rm", description="Remove all")),
        wording.code_wanted(OtpRequired(tool="pay", description="Pay", channels=("sms",), auth_level="high")),
        wording.code_invalid(OtpInvalid(attempts_remaining=2, text="No.")),
    ]
    assert [text.count("\n") for text in said] == [5, 1, 1, 1]
    assert all(line.endswith("  ") for text in said for line in text.split("\n")[:-1])


# -- questions in a text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [
        wording.in_words(ApprovalRequested(tool="rm", description="Remove all")),
        wording.in_words(InteractionRequired(question="q", kind="choices", spec=Raw(b"{}"), reason="why")),
        wording.code_wanted(OtpRequired(tool="pay", description="Pay", channels=("sms",), auth_level="high")),
    ],
)
def test_a_question_in_words_is_found_at_the_end_of_a_text(question: str) -> None:
    assert wording.find_question(f"I ask first.\n\n{question}") == question
    assert wording.find_question(question) == question


@pytest.mark.parametrize("text", ["", "Shall I go on?", "Answer approve or deny.\n\nYou denied it."])
def test_other_text_ends_with_no_question_in_words(text: str) -> None:
    assert wording.find_question(text) == ""
