"""Each recorded client, word for word, in front of backends of all dialects that play the recorded answers.

What it is shown is what the recording shows, less what the table of pairs declares as lost; each of its requests gets
its one answer, and the history at the end is what was said.
"""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.oracle import told_as_said
from tests.pairs.table import DIALECTS
from tests.players.capture_readers import Turn
from tests.players.captured_play import visible
from tests.players.captures import CAPTURES, messages
from tests.players.recorded_clients import repeated

MALFORMED = {("codewhale", "09"), ("pando", "15")}
"""Recordings of what is no request; tests/conformance says such."""

ASKED = {("smooth", "03"), ("smooth", "05"), ("smooth", "07"), ("smooth", "21")}
"""Recordings in which a form was filled in: its client drives the recorded server in test_recorded_backends.py."""

PAUSED = {("pod", "05")}
"""Recordings with pauses, which only a pod has."""

RESUMED = {("pod", "07")}
"""Recordings in which a client resumed: what comes of that answers no input."""


def _plays(dialect: str, number: str, backend: str) -> bool:
    said = any(message.way == "said" and message.conn == "a" for message in messages(dialect, number))
    pauses = (dialect, number) in PAUSED and backend != "pod"
    return said and (dialect, number) not in MALFORMED | ASKED | RESUMED and not pauses


CASES = [
    (dialect, number, backend)
    for dialect in DIALECTS
    for number in CAPTURES[dialect]
    for backend in DIALECTS
    if _plays(dialect, number, backend)
]


@pytest.mark.parametrize(("dialect", "number", "backend"), CASES)
async def test_a_recorded_client_is_shown_its_turns_their_history_and_an_answer_to_each_request(
    dialect: str, number: str, backend: str
) -> None:
    done = await repeated(dialect, number, backend)
    assert done.illegal == ""
    assert [_plain(turn) for turn in done.turns] == [_plain(visible(turn, dialect, backend)) for turn in done.due]
    assert told_as_said(done.history, done.said), f"{done.history} of {done.said}"
    left_open = done.due and not done.due[-1].end
    assert done.open == [] or left_open, done.open


def _plain(turn: Turn) -> Turn:
    return structs.replace(turn, ours=False, questions=0)
