"""The stored text of an answer that a user saw in several runs, because a question in words ended each but the last.

A gateway asks a client in words if its dialect has no questions (docs/translation.md, rule 3.3). The words are part of
the run that the client saw, but no store has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from operator import eq


def without_runs(stored: str, runs: Iterable[str]) -> str:
    """Return the stored text of an answer without the texts of these runs, each of which ended with a question.

    A question is all of the text of its run, or its last paragraphs.
    """
    at = 0
    for text in runs:
        if stored.startswith(text, at):
            at += len(text)
            continue
        same = sum(takewhile(bool, map(eq, text, stored[at : at + len(text)])))
        at += max(0, text.rfind("\n\n", 0, same + 2))
    return stored[at:]
