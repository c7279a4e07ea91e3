"""The answers to questions of a backend, as a user types them."""

from __future__ import annotations

from dragoman.gateway.session.wording import code, code_invalid, code_wanted, in_words, verdict
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import AnswerApproval, AnswerInteraction, AnswerOtp
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    InteractionInvalid,
    InteractionRequired,
    OtpInvalid,
    OtpRequired,
)
from dragoman.mappings.canonical.state import Question
from dragoman.mappings.forms import LINE_END, Form, declines

Asked = Question | OtpRequired


def question_words(asked: Asked) -> str:
    """Return the words of a question, with those that answer it."""
    return code_wanted(asked) if isinstance(asked, OtpRequired) else in_words(asked)


class TypedAnswer:
    """The answer to one question, as a user types it line by line; `prompt` asks for the next line."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._form = Form(asked) if isinstance(asked, InteractionRequired) else None
        self._fault = ""

    @property
    def prompt(self) -> str:
        """Return the question, after what was wrong with the line before."""
        if self._form is not None:
            return self._form.prompt(self._fault)
        words = question_words(self.asked)
        return f"{self._fault}{LINE_END}{words}" if self._fault else words

    def take(self, line: str) -> Command | None:
        """Return the answer that this line completes, or None if a further line is needed."""
        asked, text = self.asked, line.strip()
        if isinstance(asked, OtpRequired):
            return AnswerOtp(code=code(text) or text) if text else None
        if isinstance(asked, ApprovalRequested):
            approved = verdict(text)
            return None if approved is None else AnswerApproval(approved=approved, question=asked.question)
        if declines(text):
            return AnswerInteraction(question=asked.question, kind=asked.kind, declined=True)
        return self._filled_in(asked, text)

    def _filled_in(self, asked: InteractionRequired, text: str) -> Command | None:
        form = self._form
        if form is None:
            return None
        self._fault = form.take(text)
        if not form.done:
            return None
        return AnswerInteraction(question=asked.question, kind=asked.kind, values=form.values)

    def refuse(self, event: InteractionInvalid | OtpInvalid) -> bool:
        """Note that the backend refused the answer; return False if it takes no other."""
        if isinstance(event, OtpInvalid):
            self._fault = code_invalid(event)
            return event.attempts_remaining > 0
        self._fault = self._form.again(event) if self._form is not None else event.text
        return True
