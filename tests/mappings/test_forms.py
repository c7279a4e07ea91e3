"""Forms in words, and what counts as an answer (docs/translation.md, rule 3.3; docs/dialects/smooth.md, section 6)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.mappings.canonical.events import InteractionInvalid, InteractionRequired
from dragoman.mappings.canonical.values import FieldError
from dragoman.mappings.forms import Form, declines

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


# -- identity_intake ---------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("label", "question"),
    [
        ("Your name", "Your name?"),
        ("Wie heisst du?", "Wie heisst du?"),
        ("\u540d\u524d\u306f\uff1f", "\u540d\u524d\u306f\uff1f"),
    ],
)
def test_a_field_label_that_is_a_sentence_is_used_as_the_question(label: str, question: str) -> None:
    spec = {"fields": [{"key": "name", "label": label, "required": True}]}
    assert Form(asked(spec)).prompt() == f"{question}  \nskip declines."


def test_a_form_is_done_with_its_last_field() -> None:
    form = Form(asked(IDENTITY))
    so_far = []
    for said in ("Al", "a@b.cd", "none"):
        form.take(said)
        so_far.append(form.done)
    assert so_far == [False, False, True]


def test_a_refused_field_and_the_fields_after_it_are_asked_again() -> None:
    form = Form(asked(IDENTITY))
    for said in ("Al", "bad", "555"):
        form.take(said)
    fault = form.again(refused(FieldError(field="email", text="no address"), FieldError(field="phone", text="short")))
    assert fault == "email: no address  \nphone: short"
    assert form.prompt(fault) == f"{fault}  \n{form.prompt()}"
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


@pytest.mark.parametrize(("said", "declined"), [("skip", True), (" /Skip ", True), ("skip it", False), ("none", False)])
def test_skip_declines_a_form(said: str, *, declined: bool) -> None:
    assert declines(said) is declined


# -- choices -----------------------------------------------------------------------------------------


def test_a_choice_lists_its_options_by_number() -> None:
    assert "Which size?  \n1. Small  \n2. Large: XL  \n" in choices(SIZE).prompt()


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
