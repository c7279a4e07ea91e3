"""The turns of a conversation as a user sees them, read from the frames of a client of any dialect.

Adjacent text is joined, however it was split into blocks and deltas. Results are kept apart from their calls, because a
client that joins late gets a call together with its result. Turns without any visible content are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import field

from tests.dialects import parts
from tests.players.capture_readers import Turn, Wire, plain

THOUGHT, TEXT, CALL = "thought", "text", "call"
FORGOTTEN = "[the backend has forgotten the conversation: it knows nothing of what was said before]\n\n"
"""The line which tells clients of smooth and pando that the context is lost (docs/translation.md, rule 4.11)."""


QUESTION = re.compile(r"(\n\n)?The agent asks for your approval of [^\n]*\nAnswer approve or deny\.")
"""A question in words, which is no part of the text of its turn (docs/translation.md, rule 3.3)."""

ASKED = "asked"
"""The end of a run that ends with a question in words: the next run may go on with its turn."""


class SeenTurn(Turn):
    """A turn: thoughts, texts and calls in order, results, and the end: completed, failed, cancelled, ASKED or ""."""

    parts: list[tuple[str, str]] = field(default_factory=list)
    asked: bool = False
    """True if its last text is a question in words."""

    def add(self, kind: str, words: str) -> None:
        """Add more content of the turn."""
        words = QUESTION.sub("", words.removeprefix(FORGOTTEN))
        if not words:
            return
        if self.parts and self.parts[-1][0] == kind != CALL:
            words = self.parts.pop()[1] + words
        self.parts.append((kind, words))

    def add_text(self, text: str) -> None:
        self.asked = QUESTION.search(text) is not None
        self.add(TEXT, text)

    def replace_text(self, start: int, text: str) -> None:
        """Do nothing: the pieces are what the user saw."""

    def add_thought(self, text: str) -> None:
        self.add(THOUGHT, text)

    def add_call(self, name: str, arguments: object, *, whole: bool = True) -> None:
        if whole:
            self.add(CALL, f"{name} {plain(arguments)}")  # as one text (docs/dialects/smooth.md, section 4)

    def add_result(self, name: str, text: str) -> None:
        self.results = sorted([*self.results, (name, text)])

    def add_question(self) -> None:
        """Do nothing: only some dialects have forms."""

    def finish(self, end: str) -> None:
        super().finish(ASKED if self.asked and end in ("completed", "paused") else end)
        self.asked = False

    def regrouped(self) -> SeenTurn:
        """Return the turn as its text, then its thoughts, then its calls."""
        joined = {kind: "".join(words for of, words in self.parts if of == kind) for kind in (TEXT, THOUGHT)}
        calls = [part for part in self.parts if part[0] == CALL]
        parts = [*((kind, words) for kind, words in joined.items() if words), *calls]
        return SeenTurn(parts=parts, results=self.results, end=self.end)

    def published(self) -> SeenTurn:
        """Return what a pando publishes of the turn: neither thoughts nor how it ended."""
        whole = self.regrouped()
        return SeenTurn(parts=[part for part in whole.parts if part[0] != THOUGHT], results=whole.results)

    @property
    def empty(self) -> bool:
        """True if nothing was shown."""
        return not self.parts and not self.results


def joined(runs: Iterable[SeenTurn]) -> list[SeenTurn]:
    """Return the turns of these runs. A run goes on with the turn of one that ended with a question."""
    turns: list[SeenTurn] = []
    for run in runs:
        if turns and turns[-1].end == ASKED:
            turn = turns[-1]
            for kind, words in run.parts:
                turn.add(kind, words)
            turn.results, turn.end = sorted(turn.results + run.results), run.end
        else:
            turns.append(run)
    return [turn for turn in turns if not turn.empty]


def seen(dialect: str, wire: Wire) -> list[SeenTurn]:
    """Return the turns that the frames of a client show."""
    turns: list[SeenTurn] = []

    def make(_ours: bool) -> SeenTurn:
        turns.append(SeenTurn())
        return turns[-1]

    parts(dialect).capture_reader(make).read(wire)
    return joined(turns) if dialect in ("pod", "pando") else [turn for turn in turns if not turn.empty]
