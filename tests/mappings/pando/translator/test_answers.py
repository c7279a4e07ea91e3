"""Replies of a primary become typed answers, and impossible commands are refused with their reason."""

from __future__ import annotations

from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical import events as say
from dragoman.mappings.canonical.values import Failure, ImageAttachment, Text
from dragoman.mappings.pando.translator.answers import typed_answer, unsupported


def test_an_accepted_input_is_answered_by_the_acceptance_of_its_turn() -> None:
    command = ask.SubmitInput(request="r", segments=(Text(text="Hi"),))
    assert typed_answer(command, say.Reply(request="own"), 0) == say.TurnAccepted(request="r")


def test_a_refusal_has_no_typed_answer() -> None:
    refused = say.Reply(request="own", failure=Failure(cause="internal", text="no"))
    assert typed_answer(ask.CancelTurn(request="r"), refused, 0) is None


def test_an_input_with_an_image_is_unsupported_and_an_empty_one_invalid() -> None:
    image = ask.SubmitInput(segments=(Text(text="See"), ImageAttachment(url="https://example.com/a.png")))
    found = [unsupported(command) for command in (image, ask.SubmitInput(segments=()))]
    assert [failure and failure.cause for failure in found] == ["unsupported", "invalid"]
