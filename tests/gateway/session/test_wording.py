"""Questions in words, and what counts as an answer (docs/translation.md, rule 3.3;
docs/dialects/smooth.md, section 6).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.gateway.session import wording
from dragoman.gateway.session.wording import Form
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    InteractionInvalid,
    InteractionRequired,
    OtpInvalid,
    OtpRequired,
    OtpSent,
)
from dragoman.mappings.canonical.values import FieldError

IDENTITY = {
    "fields": [
        {"key": "name", "required": True, "label": "full name"},
        {"key": "email", "required": True},
        {"key": "phone", "required": False},
    ]
}
SIZE = {
    "question": "Which size?",
    "header": "Size",
    "options": [{"label": "Small"}, {"label": "Large", "description": "XL"}],
}
EXTRAS = {
    "question": "What else?",
    "header": "Extras",
    "multiSelect": True,
    "options": [{"label": "Salt, pepper"}, {"label": "Oil"}],
}


def asked(spec: Any, kind: str = "identity_intake", reason: str = "") -> InteractionRequired:
    return InteractionRequired(question="i", kind=kind, spec=Raw(json.dumps(spec).encode()), reason=reason)


def refused(*errors: FieldError) -> InteractionInvalid:
    return InteractionInvalid(question="i", kind="identity_intake", errors=errors, text="Not that way.")


def choices(*questions: dict[str, Any]) -> Form:
    return Form(asked({"questions": list(questions)}, "choices"))


def values(form: Form) -> Any:
    return json.loads(bytes(form.values))


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
    assert wording.code_invalid(OtpInvalid(attempts_remaining=0, text=""))


# -- forms: identity_intake --------------------------------------------------------------------------


def test_an_identity_is_asked_field_by_field_by_its_labels() -> None:
    form = Form(asked(IDENTITY, reason="For the quote."))
    assert "For the quote." in form.prompt()
    assert "full name? (1 of 3)" in form.prompt()
    assert form.take(" Al ") == ""
    assert "email? (2 of 3)" in form.prompt()
    assert form.take("a@b.cd") == ""
    assert "none leaves it out" in form.prompt()
    assert form.take("None") == ""
    assert values(form) == {"name": "Al", "email": "a@b.cd"}


def test_a_field_label_that_is_a_sentence_is_used_as_the_question() -> None:
    spec = {"fields": [{"key": "name", "label": "Your name", "required": True}]}
    assert Form(asked(spec)).prompt() == "Your name?\nskip declines."


def test_a_form_is_done_with_its_last_field() -> None:
    form = Form(asked(IDENTITY))
    so_far = []
    for said in ("Al", "a@b.cd", "none"):
        form.take(said)
        so_far.append(form.done)
    assert so_far == [False, False, True]


def test_form_question_in_words_equals_its_first_prompt() -> None:
    assert wording.in_words(asked(IDENTITY)) == Form(asked(IDENTITY)).prompt()


def test_a_refused_field_and_the_fields_after_it_are_asked_again() -> None:
    form = Form(asked(IDENTITY))
    for said in ("Al", "bad", "555"):
        form.take(said)
    fault = form.again(refused(FieldError(field="email", text="no address"), FieldError(field="phone", text="short")))
    assert fault == "email: no address\nphone: short"
    assert form.prompt(fault) == f"{fault}\n{form.prompt()}"
    assert "email?" in form.prompt()
    form.take("a@b.cd")
    assert "phone?" in form.prompt()
    form.take("none")
    assert values(form) == {"name": "Al", "email": "a@b.cd"}


def test_a_fault_without_a_field_asks_the_whole_form_again() -> None:
    form = Form(asked(IDENTITY))
    for said in ("Al", "a@b.cd", "none"):
        form.take(said)
    assert form.again(refused(FieldError(field="", text="no"))) == "no"
    assert "(1 of 3)" in form.prompt()
    assert form.again(refused()) == "Not that way."


def test_the_rest_of_a_form_is_typed() -> None:
    form = Form(asked(IDENTITY))
    filled = Raw(b'{"name":"Al","email":"a@b.cd"}')
    assert form.typed(filled) == ["Al", "a@b.cd", "none"]
    form.again(refused(FieldError(field="email", text="no address")))
    assert form.typed(filled) == ["a@b.cd", "none"]


@pytest.mark.parametrize(("said", "declines"), [("skip", True), (" /Skip ", True), ("skip it", False), ("none", False)])
def test_skip_declines_a_form(said: str, *, declines: bool) -> None:
    assert wording.declines(said) is declines


# -- forms: choices ----------------------------------------------------------------------------------


def test_a_choice_lists_its_options_by_number() -> None:
    assert "Which size?\n1. Small\n2. Large: XL\n" in choices(SIZE).prompt()


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("2", {"header": "Size", "options": ["Large"]}),
        ("small", {"header": "Size", "options": ["Small"]}),
        ("1, 2", {"header": "Size", "other": "1, 2"}),
        ("Huge", {"header": "Size", "other": "Huge"}),
    ],
)
def test_a_single_choice_is_one_option_or_free_text(said: str, answer: dict[str, Any]) -> None:
    form = choices(SIZE)
    assert form.take(said) == ""
    assert values(form) == {"answers": [answer]}


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("1,2", {"header": "Extras", "options": ["Salt, pepper", "Oil"]}),
        ("oil, 2, oil", {"header": "Extras", "options": ["Oil"]}),
        ("oil, ham, eggs", {"header": "Extras", "options": ["Oil"], "other": "ham, eggs"}),
        ("Salt, pepper", {"header": "Extras", "options": ["Salt, pepper"]}),
    ],
)
def test_a_multiple_choice_is_any_options_and_free_text(said: str, answer: dict[str, Any]) -> None:
    form = choices(EXTRAS)
    form.take(said)
    assert values(form) == {"answers": [answer]}


def test_an_empty_choice_is_asked_again() -> None:
    form = choices(EXTRAS, SIZE)
    assert form.take(" , ")
    assert "What else?" in form.prompt()


# -- forms that nobody can fill in -------------------------------------------------------------------


@pytest.mark.parametrize("spec", [{}, {"fields": []}, {"fields": [{}]}, [], "text", {"questions": []}])
@pytest.mark.parametrize("kind", ["identity_intake", "choices", "signature"])
def test_a_form_of_unknown_shape_can_only_be_declined(spec: Any, kind: str) -> None:
    form = Form(asked(spec, kind))
    assert "skip declines" in form.prompt()
    assert form.take("anything")
    assert not form.done


@given(kind=st.sampled_from(["identity_intake", "choices", "x"]), spec=st.binary())
def test_no_description_of_a_form_breaks_its_prompt(kind: str, spec: bytes) -> None:
    form = Form(InteractionRequired(question="i", kind=kind, spec=Raw(spec), reason=""))
    assert form.prompt()


# -- what would be typed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (lambda: Form(asked(IDENTITY)), ("Al", "a@b.cd", "none")),
        (lambda: Form(asked(IDENTITY)), ("Al", "a@b.cd", "555")),
        (lambda: choices(SIZE, EXTRAS), ("Large", "Oil")),
        (lambda: choices(SIZE, EXTRAS), ("as large as it gets", "Salt, pepper")),
        (lambda: choices(EXTRAS), ("Oil, some tea",)),
    ],
)
def test_the_typed_form_of_an_answer_fills_in_the_form_equally(form: Callable[[], Form], said: tuple[str, ...]) -> None:
    first, second = form(), form()
    for text in said:
        assert first.take(text) == ""
    assert second.typed(first.values) == list(said)


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
