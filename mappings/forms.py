"""Forms that a backend asks a user to fill in, asked in words, one field an input (docs/translation.md, rule 3.3).

`Form` asks the fields of an InteractionRequired one by one, reads what the user types, and makes the answer. It knows
the kinds `identity_intake` and `choices` (docs/dialects/smooth.md, section 6); any other form can only be declined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct

from dragoman.mappings.canonical.events import InteractionInvalid, InteractionRequired
from dragoman.mappings.extras import raw, read_raw
from dragoman.mappings.untyped import decode_untyped

LINE_END = "  \n"  # clients may show text as markdown, where a newline without two spaces before it is a space
ANSWER_FORM = "skip declines."
SKIP, NONE = "skip", "none"  # words that a user types, also after a slash
SPEC_SHOWN = 1_000  # characters that are shown of a form of an unknown kind


class FormField(Struct, frozen=True, kw_only=True):
    """A field of a form, asked in words.

    `read` returns the value of a typed text, or raises ValueError with what to type.

    `typed` returns the text that a user would type for a value.
    """

    key: str
    question: str
    read: Callable[[str], Any]
    typed: Callable[[Any], str]


class Form:
    """A form that a user fills in field by field; `values` is the answer once it is `done`."""

    def __init__(self, event: InteractionRequired) -> None:
        self._event = event
        spec = read_raw(event.spec, SPECS[event.kind]) if event.kind in SPECS else None
        self._fields = (spec.fields_in_words() if spec is not None else []) or [_unknown(event.spec)]
        self._values: dict[str, Any] = {}
        self._at = 0

    @property
    def done(self) -> bool:
        """Return True if every field has a value."""
        return self._at >= len(self._fields)

    @property
    def values(self) -> Raw:
        """Return the answer in the form of smooth's submit_interaction."""
        given = {key: value for key, value in self._values.items() if value is not None}
        answer = {"answers": list(given.values())} if self._event.kind == "choices" else given
        return raw(answer)

    def prompt(self, fault: str = "") -> str:
        """Return the question of the current field, after the error text of the last answer, if any."""
        number = f" ({self._at + 1} of {len(self._fields)})" if len(self._fields) > 1 else ""
        reason = f"{self._event.reason}{LINE_END}" if self._event.reason else ""
        before = f"{fault}{LINE_END}" if fault else ""
        return f"{before}{reason}{self._fields[self._at].question}{number}{LINE_END}{ANSWER_FORM}"

    def take(self, text: str) -> str:
        """Fill in the current field; return the error text of an invalid answer, "" if it is valid."""
        field = self._fields[self._at]
        try:
            self._values[field.key] = field.read(text.strip())
        except ValueError as error:
            return str(error)
        self._at += 1
        return ""

    def typed(self, values: Raw) -> list[str]:
        """Return the texts that a user would type to fill in the remaining fields with these values."""
        given = decode_untyped(values)
        if self._event.kind == "choices":
            given = {answer["header"]: answer for answer in given["answers"]}
        return [field.typed(given.get(field.key)) for field in self._fields[self._at :]]

    def again(self, refused: InteractionInvalid) -> str:
        """Go back to the first field that the backend refused; return its error text."""
        wrong = {error.field for error in refused.errors}
        self._at = next((i for i, field in enumerate(self._fields) if field.key in wrong), 0)
        faults = [f"{error.field}: {error.text}" if error.field else error.text for error in refused.errors]
        return LINE_END.join(faults) or refused.text


def declines(text: str) -> bool:
    """Return True if a typed answer declines the form."""
    return text.strip().lower() in (SKIP, f"/{SKIP}")


class IdentityField(Struct):
    """A field of identity_intake (docs/dialects/smooth.md, section 6)."""

    key: str
    required: bool = True
    label: str = ""


class IdentityForm(Struct):
    """The spec of identity_intake."""

    fields: list[IdentityField]

    def fields_in_words(self) -> list[FormField]:
        """Return the fields as they are asked."""
        return [
            FormField(
                key=field.key,
                question=_question_for(field.label or field.key) + ("" if field.required else " (none leaves it out)"),
                read=_required if field.required else _optional,
                typed=lambda value: NONE if value is None else str(value),
            )
            for field in self.fields
        ]


class ChoiceOption(Struct):
    """An option of a question, as a client reads it."""

    label: str
    description: str = ""


class ChoiceQuestion(Struct, rename="camel"):
    """A question of `choices` (docs/dialects/smooth.md, section 6)."""

    question: str
    header: str
    options: list[ChoiceOption]
    multi_select: bool = False


class ChoicesForm(Struct):
    """The spec of `choices`."""

    questions: list[ChoiceQuestion]

    def fields_in_words(self) -> list[FormField]:
        """Return the questions as they are asked."""
        return [_choice(question) for question in self.questions]


SPECS: dict[str, type[IdentityForm | ChoicesForm]] = {"identity_intake": IdentityForm, "choices": ChoicesForm}
"""Kind of interaction -> its spec."""


def _question_for(name: str) -> str:
    if name.endswith(("?", "\uff1f")):  # in the language of its author, perhaps with a wide question mark
        return name
    return f"{name}?" if name.lower().startswith("your ") else f"Your {name}?"


def _required(text: str) -> str:
    if not text:
        raise ValueError("an answer is required")
    return text


def _optional(text: str) -> str | None:
    return None if text.lower() in (NONE, f"/{NONE}") else text


def _choice(question: ChoiceQuestion) -> FormField:
    options = [
        f"{number}. {option.label}" + (f": {option.description}" if option.description else "")
        for number, option in enumerate(question.options, start=1)
    ]
    how = "one or more, separated by commas" if question.multi_select else "one"
    lines = [question.question, *options, f"Answer {how}, by number or label, or in your own words."]
    return FormField(
        key=question.header, question=LINE_END.join(lines), read=lambda text: _chosen(question, text), typed=_choosing
    )


def _chosen(question: ChoiceQuestion, text: str) -> dict[str, Any]:
    labels = {str(number): option.label for number, option in enumerate(question.options, start=1)}
    labels.update({option.label.lower(): option.label for option in question.options})
    several = question.multi_select and text.lower() not in labels  # a label may hold a comma
    parts = [part.strip() for part in text.split(",")] if several else [text]
    chosen = list(dict.fromkeys(labels[part.lower()] for part in parts if part.lower() in labels))
    other = ", ".join(part for part in parts if part and part.lower() not in labels)
    if not chosen and not other:
        raise ValueError("choose at least one option")
    return {"header": question.header, **({"options": chosen} if chosen else {}), **({"other": other} if other else {})}


def _choosing(answer: Any) -> str:
    given = answer or {}
    return ", ".join([*given.get("options", ()), *([given["other"]] if given.get("other") else [])])


def _unknown(spec: Raw) -> FormField:
    shown = bytes(spec).decode(errors="replace")[:SPEC_SHOWN]
    question = f"The agent shows a form that cannot be filled in with words: {shown}"
    return FormField(key="", question=question, read=_never, typed=str)


def _never(_said: str) -> str:
    raise ValueError("this form can only be declined")
