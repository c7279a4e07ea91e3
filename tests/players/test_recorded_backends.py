"""Each recorded conversation of a backend, played to clients of all dialects that join at different times.

The first client drives: it says what the recorded client said, as far as its dialect can. Others of all four dialects
join before the first input, in the middle of the longest answer, and behind the last end. All must be shown what the
recording shows, less what the table of pairs declares as lost; also if a backend sends it in its most extreme form.
"""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from tests.dialects import parts
from tests.oracle import told_as_said
from tests.oracle.base import Said
from tests.pairs.table import DIALECTS
from tests.players.capture_readers import Turn
from tests.players.capture_variants import BURST
from tests.players.captured_play import CapturedPlay, played, visible
from tests.players.captures import CAPTURES

BACKENDS = {dialect: parts(dialect).captured_backend for dialect in DIALECTS}
PLAYED = [(backend, number) for backend in BACKENDS for number in CAPTURES[backend] if BACKENDS[backend].plays(number)]
QUESTIONS = ("Answer approve or deny.", "skip declines.", "answer code and the number.", "Your message is sent again.")
"""The ends of a question in words, and of the verdict on a right code.

Nothing else stands in such a run, or the question stands behind CODE_WANTED.
"""

CODE_WANTED = re.compile(r"\n\n\S+ needs a one-time code .*", re.DOTALL)


def driver_of(backend: str) -> str:
    """Return the driver of a backend's variants: a variant changes what all clients share, so one driver is enough."""
    return "smooth" if backend == "pod" else "pod"


QUESTION_FIRST = ("smooth", "10", "pod", "terminal alone")
"""A case in which a question in words is asked before the text that stands before it in the recording."""

CASES = [
    *((backend, number, driver, "") for backend, number in PLAYED for driver in DIALECTS),
    *(
        (backend, number, driver_of(backend), manner)
        for backend, number in PLAYED
        for manner in (BURST, *parts(backend).capture_variants)
    ),
]


@pytest.mark.parametrize(("backend", "number", "driver", "manner"), [c for c in CASES if c != QUESTION_FIRST])
async def test_every_client_is_shown_the_recorded_turns_and_messages_in_a_legal_order(
    backend: str, number: str, driver: str, manner: str
) -> None:
    play = await played(backend, number, driver, manner)
    assert {key: shown.illegal for key, shown in play.shown.items() if shown.illegal} == {}
    assert differences(play, backend) == {}
    assert otherwise(play) == {}


def test_the_recordings_contain_texts_thoughts_calls_results_and_ends() -> None:
    turns = [turn for backend, number in PLAYED for turn in BACKENDS[backend](number).turns()]
    assert {turn.end for turn in turns} == {"completed", "cancelled", "failed", ""}
    assert sum(len(turn.calls) for turn in turns) >= 4
    assert any(turn.thought for turn in turns)
    assert any(turn.results for turn in turns)


def otherwise(play: CapturedPlay) -> dict[tuple[str, str], list[Said]]:
    """Return the histories that differ from the recorded messages; for a pod, from those that its log keeps."""
    kept = {key: play.kept if key[1] == "pod" and play.kept is not None else play.history for key in play.shown}
    return {key: shown.history for key, shown in play.shown.items() if not told_as_said(shown.history, kept[key])}


# -- what is declared as lost -------------------------------------------------------------------------


def differences(play: CapturedPlay, backend: str) -> dict[tuple[str, str], dict[str, list[Turn]]]:
    """Return the turns of each client that was shown others than it must be shown."""
    found = {}
    for (when, dialect), shown in play.shown.items():
        due, got = _compared(play, backend, when, dialect, shown.turns)
        if due != got:
            found[when, dialect] = {"recorded": due, "shown": got}
    return found


def _compared(
    play: CapturedPlay, backend: str, when: str, dialect: str, got: list[Turn]
) -> tuple[list[Turn], list[Turn]]:
    """Return the turns that a client must be shown and those that it was shown, both in a comparable form."""
    due = [_through(turn, dialect, backend, when) for turn in _due(play, when, dialect)]
    if any(turn.questions for turn in due) and (when, dialect) != ("driver", "smooth"):
        parked = not due[-1].end  # its run is over for who was asked in words, its call is not told yet
        due, got = [_whole(due)], [_whole(got)]
        if parked:
            due, got = ([structs.replace(turn, calls=[], end="") for turn in turns] for turns in (due, got))
        if (when, dialect) == ("middle", "smooth"):  # behind a question in words it is shown the run that is open
            due, got = ([structs.replace(turn, calls=[]) for turn in turns] for turns in (due, got))
        return (_without_head(due, got) if (when, dialect) == ("middle", "pando") else due), got
    if when != "driver":
        got = [turn for turn in got if not turn.empty]
    if when == "middle":  # who joins is told the calls so far, each with its result
        due, got = ([structs.replace(turn, results=sorted(turn.results)) for turn in turns] for turns in (due, got))
    if dialect == "pando":
        got = [structs.replace(turn, ours=False) for turn in got]
        due = _without_head(due, got) if when == "middle" else due
    return due, [structs.replace(turn, questions=0) for turn in got]


def _due(play: CapturedPlay, when: str, dialect: str) -> list[Turn]:
    """Return the turns of a recording that a client must be shown live, from when it joined."""
    if dialect == "codewhale":  # nothing between requests: the history tells of others' turns
        return [turn for turn in play.turns if when == "driver" and turn.ours]
    if when == "driver":
        return play.turns
    if when == "after":
        return [turn for turn in play.turns[-1:] if dialect != "pando" and not turn.end]
    first = play.middle if when == "middle" else 0
    return [turn for turn in play.turns[first:] if not turn.empty]


def _through(turn: Turn, client: str, backend: str, when: str) -> Turn:
    """Return a turn as a client of this dialect can see it that joined at this time."""
    return structs.replace(
        visible(turn, client, backend),
        ours=turn.ours and when == "driver" and client != "pando",
        questions=turn.questions if client != "smooth" or when != "driver" else 0,
    )


def _without_head(due: list[Turn], got: list[Turn]) -> list[Turn]:
    """Leave out messages published before the client subscribed; of the first turn it received only the end."""
    if not due or len(got) < len(due):
        return due[1:]
    first, seen = due[0], got[0]
    calls, results = len(first.calls) - len(seen.calls), len(first.results) - len(seen.results)
    kept = first.text[len(first.text) - len(seen.text) :] if seen.text else ""
    first = structs.replace(first, text=kept, calls=first.calls[calls:], results=first.results[results:])
    return [first, *due[1:]]


def _whole(turns: list[Turn]) -> Turn:
    """Return turns as one, without questions in words: each question ends a run, and its answer begins the next."""
    texts = [CODE_WANTED.sub("", turn.text) for turn in turns if not turn.text.endswith(QUESTIONS)]
    return Turn(
        text="".join(texts),
        thought="".join(turn.thought for turn in turns),
        calls=[call for turn in turns for call in turn.calls],
        results=[result for turn in turns for result in turn.results],
        end=turns[-1].end if turns else "",
    )
