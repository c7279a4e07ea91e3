"""Questions in words, and the reading of typed answers, for clients whose dialect has none
(docs/translation.md, rule 3.3).

An approval takes one word, and a one-time code is typed after `code`. `dragoman.mappings.forms` asks the fields of a
form.
"""

from __future__ import annotations

import re

from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    OtpInvalid,
    OtpRequired,
    OtpSent,
)
from dragoman.mappings.canonical.state import Question
from dragoman.mappings.forms import ANSWER_FORM, LINE_END, Form

ANSWER_FIRST = "not sent: answer approve or deny first"
ANSWER_APPROVAL = "Answer approve or deny."
ANSWER_CODE = "Answer code and the number: code 123456."

CODE = re.compile(r"/?code\s+(\S{1,64})", re.IGNORECASE)
WORDS = {"approve": True, "/approve": True, "deny": False, "/deny": False}


UNREACHABLE = "the backend cannot be reached"
"""The beginning of the text of a failure whose backend cannot be reached.

Another dragoman recognises it in each dialect.
"""


def find_question(text: str) -> str:
    """Return the question in words with which the text of a turn ends, "" if it ends with none.

    Another dragoman wrote it, for a dialect without questions. A backend's own prose is not recognised.
    """
    last = text.rstrip().rpartition("\n")[2]
    return text.rpartition("\n\n")[2].strip() if last in (ANSWER_APPROVAL, ANSWER_FORM, ANSWER_CODE) else ""


def ends_with_question(text: str) -> bool:
    """Return True if a text ends with a question in words whose answer is the next input of the same turn."""
    return text.rstrip().rpartition("\n")[2] in (ANSWER_APPROVAL, ANSWER_FORM)


def in_words(event: Question) -> str:
    """Return a question as text: an approval, or the first field of a form."""
    if isinstance(event, ApprovalRequested):
        return f"The agent asks for your approval of {event.tool}: {event.description}{LINE_END}{ANSWER_APPROVAL}"
    return Form(event).prompt()


# -- approvals --------------------------------------------------------------------------------------


def verdict(text: str) -> bool | None:
    """Return True or False for a typed approval or denial, None for any other text."""
    return WORDS.get(text.strip().lower())


# -- one-time codes ---------------------------------------------------------------------------------


def code_wanted(event: OtpRequired) -> str:
    ways = " or ".join(event.channels)
    return f"{event.tool} needs a one-time code ({ways}): {event.description}{LINE_END}{ANSWER_CODE}"


def code_sent(event: OtpSent) -> str:
    return f"A one-time code was sent by {event.channel} to {event.destination}."


def code_invalid(event: OtpInvalid) -> str:
    """Return the text which says that a code was wrong, and whether it may be typed again."""
    if event.attempts_remaining <= 0:
        return event.text or "The code was not accepted."
    tries = "1 try is" if event.attempts_remaining == 1 else f"{event.attempts_remaining} tries are"
    return f"{event.text or 'The code was wrong.'}{LINE_END}{tries} left: answer code and the number."


def code(text: str) -> str:
    """Return the code that was typed, "" if the input is none."""
    match = CODE.fullmatch(text.strip())
    return match[1] if match is not None else ""
