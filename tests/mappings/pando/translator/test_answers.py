"""Replies of a primary become typed answers, and impossible commands are refused with their reason."""

from __future__ import annotations

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.values import Failure, ImageAttachment, Text
from dragoman.mappings.pando.translator.answers import typed_answer, unsupported


def test_an_accepted_input_is_answered_by_the_acceptance_of_its_turn() -> None:
    command = commands.SubmitInput(request="r", segments=(Text(text="Hi"),))
    assert typed_answer(command, events.Reply(request="own"), 0) == events.TurnAccepted(request="r")


def test_a_refusal_has_no_typed_answer() -> None:
    refused = events.Reply(request="own", failure=Failure(cause="internal", text="no"))
    assert typed_answer(commands.CancelTurn(request="r"), refused, 0) is None


def test_an_input_with_an_image_is_unsupported_and_an_empty_one_invalid() -> None:
    image = commands.SubmitInput(segments=(Text(text="See"), ImageAttachment(url="https://example.com/a.png")))
    found = [unsupported(command) for command in (image, commands.SubmitInput(segments=()))]
    assert [failure and failure.cause for failure in found] == ["unsupported", "invalid"]
